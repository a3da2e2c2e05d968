package cli

import (
	"context"
	"fmt"
	"iter"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

func sessionForkCommand(world invocation) *urfave.Command {
	var choice sessionChoice
	var fork repo.NewSession
	var at int64
	return leaf{
		name: "fork", summary: "make a session that begins with the messages of another one",
		arguments: []string{"[ID]"},
		flags: append(choice.flags(),
			int64Flag(&at, "at", "the last message of the other one, by its `sequence`", unset),
			stringFlag(&fork.Key, "fork-key", "the fork's `key`, in the namespace of the other one"),
			stringFlag(&fork.Owner, "owner", "the fork's `owner`"),
		),
		json: "print one JSON object instead of text",
		more: `The fork shares the messages up to the sequence. Later messages belong to one session each.

Examples:
  agentstore session fork 019c21f3-dc74-7000-8000-000000000001 --at 12
  agentstore session fork --key acme/support/42/1 --at 12 --owner user-7`,
		before: func(invocation *invocation) error {
			if at == unset {
				return usageError{text: "session fork needs --at. See agentstore session fork --help"}
			}
			return choice.check(invocation, "session fork")
		},
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			if err := choice.find(ctx, &invocation, store); err != nil {
				return err
			}
			session, err := store.Sessions().Get(ctx, invocation.id)
			if err != nil {
				return err
			}
			fork.Namespace, fork.Actor, fork.AutomationProfile, fork.Metadata = session.Namespace, session.Actor, session.AutomationProfile, session.Metadata
			created, err := store.Sessions().Fork(ctx, session.ID, at, fork)
			if err != nil {
				return invalidUsage(err)
			}
			if invocation.json {
				return printJSON(invocation.stdout, object{{"id", created.ID}, {"of", session.ID}, {"at", at}})
			}
			_, err = fmt.Fprintf(invocation.stdout, "session %s is a fork of %s at message %d\n", created.ID, session.ID, at)
			return err
		},
	}.command(world)
}

// branch yields the messages of the newest branch that has the one with this sequence, whether it is the transcript or not.
func branch(ctx context.Context, store *agentstore.Store, id repo.ID, sequence int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		siblings, err := store.Sessions().Branches(ctx, id, sequence)
		if err != nil {
			yield(repo.Message{}, err)
			return
		}
		follows, head := map[int64]int64{}, int64(-1)
		for _, b := range siblings {
			if b.Sequence == sequence {
				head = b.Last
			}
		}
		for m, err := range allBranches(ctx, store, id, false) {
			if err != nil {
				yield(repo.Message{}, err)
				return
			}
			follows[m.Sequence] = m.Follows
		}
		path := map[int64]bool{}
		for ; head >= 0; head = follows[head] {
			path[head] = true
		}
		for m, err := range allBranches(ctx, store, id, true) {
			if (err != nil || path[m.Sequence]) && !yield(m, err) {
				return
			}
		}
	}
}

// allBranches yields all messages of a session, with their contents or not.
func allBranches(ctx context.Context, store *agentstore.Store, id repo.ID, contents bool) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		read := repo.ReadSessions{IDs: []repo.ID{id}, First: 1000, Branches: true, WithoutContent: !contents, WithoutPayload: !contents}
		for {
			found, err := store.Sessions().Read(ctx, read)
			if err == nil && found.Sessions[0] == nil {
				err = &repo.NotFoundError{Kind: "session", ID: id}
			}
			if err != nil {
				yield(repo.Message{}, err)
				return
			}
			for _, m := range found.Sessions[0].Messages {
				if !yield(m, nil) {
					return
				}
				read.From = m.Sequence + 1
			}
			if len(found.Sessions[0].Messages) == 0 {
				return
			}
		}
	}
}

// lastFrom returns the sequence of the first of the last messages of a transcript.
func lastFrom(ctx context.Context, store *agentstore.Store, id repo.ID, last int) (int64, error) {
	from := int64(1) << 62
	for last > 0 {
		messages, err := store.Sessions().MessagesBefore(ctx, id, from, min(last, fewMessages))
		if err != nil {
			return 0, err
		}
		if last -= len(messages); len(messages) == 0 {
			break
		}
		from = messages[len(messages)-1].Sequence
	}
	return from, nil
}
