package cli

import (
	"context"
	"fmt"
	"iter"
	"unicode/utf8"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

func streamTailCommand(world invocation) *urfave.Command {
	var from repo.StreamPosition
	var namespace string
	var contents bool
	return leaf{
		name: "tail", summary: "follow a stream: print its parts, and each further one as it comes",
		arguments: []string{"KEY"},
		flags: []urfave.Flag{
			viewFlag(&namespace),
			idFlag(&from.StreamID, "id", "the stream of the key with this `id`, which may have ended (otherwise: the newest)"),
			int64Flag(&from.Sequence, "from", "begin at this `sequence`", 0),
			boolFlag(&contents, "contents", "print what the parts have, one after the other; with --json, as text, or as base64 if it is not UTF-8"),
		},
		json: "print one JSON object on each line",
		more: `It goes on until the stream ends or expires, or it is interrupted (Ctrl-C). If the
stream has failed, the exit code is 1, and stream show has the reason.

Examples:
  agentstore stream tail answer/019c21f3-dc74-7000-8000-000000000001 --contents
  agentstore stream tail answer/019c21f3-dc74-7000-8000-000000000001 --from 100 --json | jq .sequence`,
		onStore: func(ctx context.Context, invocation invocation, store *agentstore.Store) error {
			return invalidUsage(tailParts(ctx, invocation, viewed(store, namespace).Streams().Follow(ctx, invocation.args[0], from), contents))
		},
	}.command(world)
}

// tailParts prints each part when it comes.
func tailParts(ctx context.Context, invocation invocation, parts iter.Seq2[repo.StreamPart, error], contents bool) (err error) {
	text := &partsText{to: plainWriter{w: invocation.screen}}
	defer func() {
		if ended := text.end(); err == nil {
			err = ended
		}
	}()
	for part, err := range parts {
		if ctx.Err() != nil { // as is usual for this command
			return nil
		}
		switch {
		case err != nil:
		case invocation.json:
			err = printJSON(invocation.screen, partLine(part, contents))
		case part.Restart && contents:
			err = text.restart()
		case part.Restart:
			_, err = fmt.Fprintf(invocation.screen, "%d  a new attempt\n", part.Sequence)
		case contents:
			err = text.add(part.Data)
		default:
			_, err = fmt.Fprintf(invocation.screen, "%d  %d bytes\n", part.Sequence, len(part.Data))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func partLine(p repo.StreamPart, contents bool) object {
	line := object{{"stream_id", p.StreamID}, {"sequence", p.Sequence}, {"bytes", len(p.Data)}}
	switch {
	case p.Restart:
		line = append(line, member{"restart", true})
	case !contents:
	case utf8.Valid(p.Data):
		line = append(line, member{"text", string(p.Data)})
	default:
		line = append(line, member{"base64", p.Data})
	}
	return line
}

// partsText prints parts one after the other. They may end within a character or a line.
type partsText struct {
	to   plainWriter
	last byte // of what was added, or 0
}

func (t *partsText) add(data []byte) error {
	t.last = data[len(data)-1]
	_, err := t.to.Write(data)
	return err
}

// restart begins a new line for a new attempt.
func (t *partsText) restart() error {
	err := t.end()
	t.to.rest, t.last = nil, 0
	return err
}

// end ends the last character and the last line.
func (t *partsText) end() error {
	if t.last == 0 || t.last == '\n' {
		return nil
	}
	_, err := fmt.Fprintln(t.to.w, lines(string(t.to.rest)))
	return err
}
