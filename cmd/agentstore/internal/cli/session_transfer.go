package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/ctxio"
)

func sessionExportCommand(world invocation) *urfave.Command {
	var file string
	var choice sessionChoice
	return leaf{
		name: "export", summary: "write one session and its messages as a JSON document, with a checksum",
		arguments: []string{"[ID]"}, flags: append(choice.flags(), outputFlag(&file)),
		before: func(invocation *invocation) error { return choice.check(invocation, "session export") },
		more: `Examples:
  agentstore session export 019c21f3-dc74-7000-8000-000000000001 --output session.json
  agentstore session export --key acme/support/42/1 --namespace shop
  agentstore session export 019c21f3-dc74-7000-8000-000000000001 | gzip > session.json.gz`,
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			if err := choice.find(ctx, &invocation, store); err != nil {
				return err
			}
			return writeTo(invocation, file, func(w io.Writer) error { return store.Sessions().Export(ctx, invocation.id, w) })
		},
	}.command(world)
}

func sessionImport() leaf {
	var file *os.File
	var restore bool
	return leaf{
		name: "import", summary: "store the session of an exported document, as a whole or not at all",
		arguments: []string{"[FILE]"},
		flags:     []urfave.Flag{boolFlag(&restore, "restore", "import also a session that was deleted here: it becomes the same session again")},
		json:      "print the stored session as one JSON object instead of text",
		more: `Without FILE, or where that is "-", the document is read from stdin.

Examples:
  agentstore session import session.json
  agentstore session import --restore session.json
  agentstore session export "$ID" --database-url "$OLD" | agentstore session import --database-url "$NEW"`,
		before: func(invocation *invocation) (err error) {
			if len(invocation.args) > 0 && invocation.args[0] != "-" {
				file, err = os.Open(invocation.args[0])
				invocation.stdin = file
			}
			return err
		},
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			defer func() { _ = file.Close() }()
			session, err := store.Sessions().Import(ctx, ctxio.NewReader(ctx, invocation.stdin), restore)
			if err != nil {
				return err
			}
			if invocation.json {
				return printJSON(invocation.stdout, sessionLine(session, false))
			}
			_, err = fmt.Fprintf(invocation.stdout, "session %s imported: %d messages\n", session.ID, session.MessageCount)
			return err
		},
	}
}

func sessionDeleteCommand(world invocation) *urfave.Command {
	var yes bool
	var choice sessionChoice
	return leaf{
		name: "delete", summary: "delete one session, its messages and its state, after asking",
		arguments: []string{"[ID]"}, flags: append(choice.flags(), boolFlag(&yes, "yes", "do not ask")),
		before: func(invocation *invocation) error { return choice.check(invocation, "session delete") },
		json:   "print one JSON object instead of text",
		more: `The session's plans stay; they lose their link to it.

Examples:
  agentstore session delete 019c21f3-dc74-7000-8000-000000000001
  agentstore session delete --key acme/support/42/1 --yes`,
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			if err := choice.find(ctx, &invocation, store); err != nil {
				return err
			}
			id := invocation.id
			if !yes {
				session, err := store.Sessions().Get(ctx, id)
				if err != nil {
					return err
				}
				name := id.String()
				if session.Key != "" {
					name += fmt.Sprintf(", key %q in namespace %q,", session.Key, session.Namespace)
				}
				question := fmt.Sprintf("Delete session %s with %d messages? This cannot be undone. [y/N] ", name, session.MessageCount)
				if err := confirm(ctx, invocation, question); err != nil {
					return err
				}
			}
			deleted, err := store.Sessions().Delete(ctx, id)
			if err != nil {
				return err
			}
			if invocation.json {
				return printJSON(invocation.stdout, object{{"id", id}, {"messages", deleted.Messages}, {"kept", given{deleted.Kept}}, {"plans", len(deleted.Plans)}, {"state_keys", deleted.StateKeys}})
			}
			_, err = fmt.Fprintf(invocation.stdout, "session %s deleted: %d messages, %d keys of state; %d plans lost their link\n",
				id, deleted.Messages, deleted.StateKeys, len(deleted.Plans))
			if err == nil && deleted.Kept > 0 {
				_, err = fmt.Fprintf(invocation.stdout, "%d other messages stay stored for the session's forks\n", deleted.Kept)
			}
			return err
		},
	}.command(world)
}

// confirm asks a question on stderr, and reads the answer from stdin.
func confirm(ctx context.Context, invocation invocation, question string) error {
	fmt.Fprint(invocation.stderr, question)
	answer, err := bufio.NewReader(io.LimitReader(ctxio.NewReader(ctx, invocation.stdin), 1000)).ReadString('\n')
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		fmt.Fprintln(invocation.stderr)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was deleted: the answer was not yes (--yes does not ask)")
}

func outputFlag(to *string) urfave.Flag {
	return stringFlag(to, "output", "write to this `file` instead of stdout; only its owner can read it, and it appears when it is complete")
}

// writeTo calls fn, which writes JSON, with stdout or a file.
func writeTo(invocation invocation, name string, fn func(io.Writer) error) error {
	buffered := func(out io.Writer) error {
		w := bufio.NewWriterSize(out, 1<<16)
		err := fn(w)
		if flushed := w.Flush(); err == nil {
			err = flushed
		}
		return err
	}
	if name == "" || name == "-" {
		if invocation.terminal {
			return buffered(&plainWriter{w: invocation.screen, json: true})
		}
		return buffered(invocation.screen)
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		// A pipe or /dev/stdout cannot be replaced.
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(buffered(file), file.Close())
	}
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target // replace the target of a link, not the link
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".agentstore-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // fails if the file was renamed
	if err := errors.Join(buffered(file), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}
