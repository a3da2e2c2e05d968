package cli

import (
	"context"
	"fmt"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

func streamCommand(world invocation) *urfave.Command {
	return group("stream", "show and follow streams, and remove expired ones", "",
		streamShowCommand(world), streamTailCommand(world), streamPruneCommand(world))
}

func streamShowCommand(world invocation) *urfave.Command {
	var namespace string
	return leaf{
		name: "show", summary: "show the newest stream of a key, without its parts",
		arguments: []string{"KEY"}, flags: []urfave.Flag{viewFlag(&namespace)},
		json: "print one JSON object instead of text",
		more: `Examples:
  agentstore stream show answer/019c21f3-dc74-7000-8000-000000000001`,
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			s, err := viewed(store, namespace).Streams().Get(ctx, invocation.args[0])
			if err != nil {
				return invalidUsage(err)
			}
			return printOne(invocation, streamLine(s), []field{
				{"Key", s.Key},
				{"ID", s.ID},
				{"Session", sessionOf(s)},
				{"Owner", s.Owner},
				{"Status", string(s.Status)},
				{"Reason", s.Reason},
				{"Parts", s.Next},
				{"Fence", s.Fence},
				{"Opened", s.OpenedAt},
				{"Expires", s.ExpiresAt},
			})
		},
	}.command(world)
}

// sessionOf returns the id of a stream's session, if it has one.
func sessionOf(s repo.Stream) string {
	if s.Session.IsZero() {
		return ""
	}
	return s.Session.String()
}

func streamLine(s repo.Stream) object {
	return object{
		{"key", s.Key},
		{"id", s.ID},
		{"session", given{sessionOf(s)}},
		{"owner", s.Owner},
		{"status", s.Status},
		{"reason", given{s.Reason}},
		{"parts", s.Next},
		{"fence", s.Fence},
		{"opened_at", s.OpenedAt},
		{"expires_at", s.ExpiresAt},
	}
}

func streamPruneCommand(world invocation) *urfave.Command {
	return leaf{
		name: "prune", summary: "remove expired streams, in small batches",
		json: "print one JSON object instead of text",
		more: `An expired stream is unreadable. A service that opens streams removes expired ones by and
by; use this command for a service that has stopped. It removes them without asking.`,
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			var allStreams, allParts int64
			for {
				streams, parts, err := store.Streams().RemoveExpired(ctx, 0)
				if err != nil {
					return err
				}
				if streams+parts == 0 {
					break
				}
				allStreams, allParts = allStreams+streams, allParts+parts
			}
			if invocation.json {
				return printJSON(invocation.stdout, object{{"streams", allStreams}, {"parts", allParts}})
			}
			_, err := fmt.Fprintf(invocation.stdout, "removed: %d streams, %d parts\n", allStreams, allParts)
			return err
		},
	}.command(world)
}
