package cli

import (
	"bufio"
	"context"
	"fmt"
	"iter"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// defaultTail is how many messages session tail begins with.
const defaultTail = 10

func sessionTailCommand(world invocation) *urfave.Command {
	var choice sessionChoice
	var contents bool
	var from int64
	var last int
	return leaf{
		name: "tail", summary: "follow a session: print its last messages, and each further one as it comes",
		arguments: []string{"[ID]"},
		flags: append(
			choice.flags(),
			boolFlag(&contents, "contents", "print the messages' contents, too; with --json, metadata and payload too"),
			int64Flag(&from, "from", "begin at this `sequence`", unset),
			intFlag(&last, "last", "begin with the last `number` of messages", defaultTail),
		),
		json: "print one JSON object on each line",
		more: `It goes on until it is interrupted (Ctrl-C), or the session is deleted.

Examples:
  agentstore session tail 019c21f3-dc74-7000-8000-000000000001 --contents
  agentstore session tail --key acme/support/42/1 --json | jq .sequence`,
		before: func(invocation *invocation) error {
			if last < 0 {
				return usageError{text: "--last must not be negative"}
			}
			return choice.check(invocation, "session tail")
		},
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			if err := choice.find(ctx, &invocation, store); err != nil {
				return err
			}
			if from == unset {
				from = 0
				session, err := store.Sessions().Get(ctx, invocation.id)
				if err == nil { // otherwise following gives the error
					from = max(0, session.MessageCount-int64(last))
				}
			}
			return tail(ctx, invocation, store.Sessions().Follow(ctx, invocation.id, from), contents)
		},
	}.command(world)
}

// tail prints each message when it comes.
func tail(ctx context.Context, invocation invocation, messages iter.Seq2[repo.Message, error], contents bool) error {
	w := bufio.NewWriter(invocation.screen)
	for m, err := range messages {
		if ctx.Err() != nil { // as is usual for this command
			return nil
		}
		if err != nil {
			return err
		}
		if invocation.json {
			err = printJSON(w, messageLine(m, contents))
		} else {
			err = printHead(w, invocation, m, contents)
		}
		if err == nil {
			err = w.Flush()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func printHead(w *bufio.Writer, invocation invocation, m repo.Message, contents bool) error {
	_, err := fmt.Fprintln(w, messageHead(invocation, m))
	if err == nil && contents {
		_, err = fmt.Fprintf(w, "%s\n\n", below(m.Content))
	}
	return err
}
