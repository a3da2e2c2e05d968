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
)

func sessionExportCommand(world invocation) *urfave.Command {
	var databaseURL, file string
	return leaf{
		name: "export", summary: "write one session and its messages as a JSON document, with a checksum",
		arguments: []string{"ID"},
		flags:     []urfave.Flag{outputFlag(&file), databaseFlag(&databaseURL)},
		more: `Examples:
  agentstore session export 01KGGZ7Q3M0000000000000001 --output session.json
  agentstore session export 01KGGZ7Q3M0000000000000001 | gzip > session.json.gz`,
		run: func(ctx context.Context, invocation invocation) error {
			id, err := argumentID(invocation)
			if err != nil {
				return err
			}
			return withStore(ctx, invocation, databaseURL, func(store *agentstore.Store) error {
				return writeTo(invocation, file, func(w io.Writer) error { return store.Sessions().Export(ctx, id, w) })
			})
		},
	}.command(world)
}

func sessionImportCommand(world invocation) *urfave.Command {
	var databaseURL string
	var asJSON bool
	return leaf{
		name: "import", summary: "store the session of an exported document, as a whole or not at all",
		arguments: []string{"[FILE]"},
		flags: []urfave.Flag{
			boolFlag(&asJSON, "json", "print the stored session as one JSON object instead of text"),
			databaseFlag(&databaseURL),
		},
		more: `Without FILE, or where that is "-", the document is read from stdin.

Examples:
  agentstore session import session.json
  agentstore session export "$ID" --database-url "$OLD" | agentstore session import --database-url "$NEW"`,
		run: func(ctx context.Context, invocation invocation) error {
			in := invocation.stdin
			if len(invocation.args) > 0 && invocation.args[0] != "-" {
				file, err := os.Open(invocation.args[0])
				if err != nil {
					return err
				}
				defer func() { _ = file.Close() }()
				in = file
			}
			return withStore(ctx, invocation, databaseURL, func(store *agentstore.Store) error {
				session, err := store.Sessions().Import(ctx, bufio.NewReaderSize(interruptible(ctx, in), 1<<16))
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(invocation.stdout, sessionLine(session, false))
				}
				_, err = fmt.Fprintf(invocation.stdout, "session %s imported: %d messages\n", session.ID, session.MessageCount)
				return err
			})
		},
	}.command(world)
}

func sessionDeleteCommand(world invocation) *urfave.Command {
	var databaseURL string
	var yes, asJSON bool
	return leaf{
		name: "delete", summary: "delete one session and its messages, after asking",
		arguments: []string{"ID"},
		flags: []urfave.Flag{
			boolFlag(&yes, "yes", "do not ask"),
			boolFlag(&asJSON, "json", "print one JSON object instead of text"),
			databaseFlag(&databaseURL),
		},
		more: `The session's plans stay; they lose their link to it.

Examples:
  agentstore session delete 01KGGZ7Q3M0000000000000001
  agentstore session delete 01KGGZ7Q3M0000000000000001 --yes`,
		run: func(ctx context.Context, invocation invocation) error {
			id, err := argumentID(invocation)
			if err != nil {
				return err
			}
			return withStore(ctx, invocation, databaseURL, func(store *agentstore.Store) error {
				if !yes {
					session, err := store.Sessions().Get(ctx, id)
					if err != nil {
						return err
					}
					question := fmt.Sprintf("Delete session %s, of %d messages, for good? [y/N] ", id, session.MessageCount)
					if err := confirm(ctx, invocation, question); err != nil {
						return err
					}
				}
				deleted, err := store.Sessions().Delete(ctx, id)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(invocation.stdout, struct {
						ID       string `json:"id"`
						Messages int64  `json:"messages"`
						Plans    int64  `json:"plans"`
					}{id.String(), deleted.Messages, deleted.Plans})
				}
				_, err = fmt.Fprintf(invocation.stdout, "session %s deleted: %d messages; %d plans lost their link\n", id, deleted.Messages, deleted.Plans)
				return err
			})
		},
	}.command(world)
}

var errNotConfirmed = errors.New("nothing was deleted: the answer was not yes (--yes does not ask)")

// confirm asks, on stderr, and reads the answer from stdin.
func confirm(ctx context.Context, invocation invocation, question string) error {
	fmt.Fprint(invocation.stderr, question)
	answer, err := bufio.NewReader(io.LimitReader(interruptible(ctx, invocation.stdin), 1000)).ReadString('\n')
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
	return errNotConfirmed
}

// interruptible is r until ctx ends: a read that waits for a terminal or a pipe
// is left behind.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		type answer struct {
			data []byte
			err  error
		}
		read := make(chan answer, 1)
		go func() {
			// Its own buffer: the read may end after the caller has p back.
			data := make([]byte, len(p))
			n, err := r.Read(data)
			read <- answer{data[:n], err}
		}()
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case a := <-read:
			return copy(p, a.data), a.err
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func outputFlag(to *string) urfave.Flag {
	return stringFlag(to, "output", "write to this `file` instead of stdout; it appears when it is whole, for its owner alone")
}

// writeTo gives fn, which writes JSON, stdout or a file.
func writeTo(invocation invocation, name string, fn func(io.Writer) error) error {
	if name == "" || name == "-" {
		out := invocation.screen
		if invocation.terminal {
			out = &plainWriter{w: out, json: true}
		}
		w := bufio.NewWriterSize(out, 1<<16)
		return errors.Join(fn(w), w.Flush())
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return writeDevice(name, fn)
	}
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target // of a link it is the file that is replaced
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".agentstore-*")
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(file, 1<<16)
	err = fn(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// writeDevice writes to what cannot be replaced: a pipe, /dev/stdout.
func writeDevice(name string, fn func(io.Writer) error) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(file, 1<<16)
	return errors.Join(fn(w), w.Flush(), file.Close())
}
