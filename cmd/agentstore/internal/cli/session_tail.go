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
	var key repo.SessionKey
	var contents bool
	var from int64
	var last int
	return leaf{
		name: "tail", summary: "follow a session: print its last messages, and each further one as it comes",
		arguments: []string{"[ID]"},
		flags: []urfave.Flag{
			stringFlag(&key.Key, "key", "the session with this `key`, instead of ID"),
			stringFlag(&key.Namespace, "namespace", "the key's `namespace` (otherwise: "+repo.DefaultNamespace+")"),
			boolFlag(&contents, "contents", "print the messages' contents, too; with --json, metadata and payload too"),
			int64Flag(&from, "from", "begin at this `sequence`", unset),
			intFlag(&last, "last", "begin with the last `number` of messages", defaultTail),
		},
		json: "print one JSON object on each line",
		more: `It goes on until it is interrupted (Ctrl-C), or the session is deleted.

Examples:
  agentstore session tail 01KGGZ7Q3M0000000000000001 --contents
  agentstore session tail --key acme/support/42/1 --json | jq .sequence`,
		before: func(invocation *invocation) error {
			switch {
			case (len(invocation.args) == 0) == (key.Key == ""):
				return usageError{text: "session tail needs either ID or --key. See agentstore session tail --help"}
			case key.Key == "" && key.Namespace != "":
				return usageError{text: "--namespace is only for --key"}
			case last < 0:
				return usageError{text: "--last must not be negative"}
			case key.Key == "":
				return needsID(invocation)
			}
			return nil
		},
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			id := invocation.id
			follow := func(ctx context.Context, from int64) iter.Seq2[repo.Message, error] {
				return store.Sessions().Follow(ctx, id, from)
			}
			if key.Key != "" {
				id, follow = key.ID(), repo.ByKey(store.Sessions(), key).Follow
			}
			if from == unset {
				from = 0
				session, err := store.Sessions().Get(ctx, id)
				if err == nil { // otherwise following gives the error
					from = max(0, session.MessageCount-int64(last))
				}
			}
			return tail(ctx, invocation, follow(ctx, from), contents)
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
		_, err = fmt.Fprintf(w, "%s\n\n", lines(m.Content))
	}
	return err
}
