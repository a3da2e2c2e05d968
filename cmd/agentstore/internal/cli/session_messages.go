package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// messageFlags are those of session show.
type messageFlags struct {
	databaseURL        string
	details            bool
	messages, contents bool
	from, before       int64
	last, limit        int
	json               bool
}

func (f *messageFlags) flags() []urfave.Flag {
	return []urfave.Flag{
		boolFlag(&f.details, "details", "the session's metadata, too"),
		boolFlag(&f.messages, "messages", "list its messages, too, without what they say"),
		boolFlag(&f.contents, "contents", "print its messages with their contents; with --json, metadata and payload too"),
		int64Flag(&f.from, "from", "messages from this `sequence` on, ascending", unset),
		int64Flag(&f.before, "before", "messages before this `sequence`, descending", unset),
		intFlag(&f.last, "last", "the last `number` of messages, ascending", 0),
		intFlag(&f.limit, "limit", "at most this `number` of messages (otherwise: all)", 0),
		boolFlag(&f.json, "json", "print one JSON object on each line: the session's, then the messages'"),
		databaseFlag(&f.databaseURL),
	}
}

// wanted reports whether any messages are asked for.
func (f *messageFlags) wanted() bool {
	return f.messages || f.contents || f.from != unset || f.before != unset || f.last != 0
}

func (f *messageFlags) check() error {
	given := 0
	for _, set := range []bool{f.from != unset, f.before != unset, f.last != 0} {
		if set {
			given++
		}
	}
	switch {
	case f.from < unset, f.before < unset, f.last < 0, f.limit < 0:
		return usageError{text: "--from, --before, --last and --limit must not be negative"}
	case given > 1:
		return usageError{text: "--from, --before and --last exclude each other"}
	}
	return nil
}

// fewMessages is how many messages are read at once where their contents, of 16
// MiB each at most, are all in memory.
const fewMessages = 16

// selected yields the messages that the flags ask for.
func (f *messageFlags) selected(ctx context.Context, store *agentstore.Store, session repo.Session) iter.Seq2[repo.Message, error] {
	from := max(f.from, 0)
	if f.last > 0 {
		from = max(0, session.MessageCount-int64(f.last))
	}
	if f.before == unset {
		return store.Sessions().Stream(ctx, session.ID, from)
	}
	return func(yield func(repo.Message, error) bool) {
		for before := f.before; ; {
			messages, err := store.Sessions().MessagesBefore(ctx, session.ID, before, fewMessages)
			if err != nil {
				yield(repo.Message{}, err)
				return
			}
			for _, message := range messages {
				if !yield(message, nil) {
					return
				}
				before = message.Sequence
			}
			if len(messages) < fewMessages {
				return
			}
		}
	}
}

func printMessages(ctx context.Context, invocation invocation, store *agentstore.Store, session repo.Session, flags messageFlags) error {
	limit := math.MaxInt
	if flags.limit > 0 {
		limit = flags.limit
	}
	print, flush := messagePrinter(invocation, flags)
	printed := 0
	for message, err := range flags.selected(ctx, store, session) {
		if err != nil {
			return invalidUsage(err)
		}
		if err := print(message); err != nil {
			return err
		}
		if printed++; printed == limit {
			break
		}
	}
	return flush()
}

// messagePrinter returns what prints a message, and what ends it.
func messagePrinter(invocation invocation, flags messageFlags) (print func(repo.Message) error, flush func() error) {
	w := bufio.NewWriter(invocation.screen)
	switch {
	case flags.json:
		return func(m repo.Message) error { return printJSON(w, messageLine(m, flags.contents)) }, w.Flush
	case flags.contents:
		return func(m repo.Message) error {
			head := fmt.Sprintf("%d  %s  %s", m.Sequence, m.Role, when(m.CreatedAt))
			if invocation.colour {
				head = bold + head + reset
			}
			_, err := fmt.Fprintf(w, "%s\n%s\n\n", head, lines(m.Content))
			return err
		}, w.Flush
	}
	table := newTable(invocation,
		column{"SEQUENCE", true}, column{"ID", false}, column{"ROLE", false},
		column{"BYTES", true}, column{"PAYLOAD", true}, column{"CREATED", false}, column{"OCCURRED", false})
	rows := 0
	return func(m repo.Message) error {
		payload := ""
		if m.Payload != nil {
			payload = strconv.Itoa(len(m.Payload))
		}
		table.row([]string{
			strconv.FormatInt(m.Sequence, 10), m.ID.String(), string(m.Role), strconv.Itoa(len(m.Content)), payload,
			when(m.CreatedAt), when(m.OccurredAt),
		})
		if rows++; rows%firstPage == 0 {
			return table.flush()
		}
		return nil
	}, table.flush
}

type messageJSON struct {
	SessionID  repo.ID         `json:"session_id"`
	Sequence   int64           `json:"sequence"`
	ID         repo.ID         `json:"id"`
	Role       repo.Role       `json:"role"`
	Bytes      int             `json:"content_bytes"`
	Content    string          `json:"content,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Payload    *[]byte         `json:"payload,omitempty"`
	OccurredAt *stamp          `json:"occurred_at,omitempty"`
	CreatedAt  stamp           `json:"created_at"`
}

func messageLine(m repo.Message, contents bool) messageJSON {
	line := messageJSON{
		SessionID: m.SessionID, Sequence: m.Sequence, ID: m.ID, Role: m.Role, Bytes: len(m.Content),
		OccurredAt: stampOf(m.OccurredAt), CreatedAt: stamp(m.CreatedAt),
	}
	if contents {
		line.Content, line.Metadata = m.Content, m.Metadata
		if m.Payload != nil {
			line.Payload = &m.Payload
		}
	}
	return line
}
