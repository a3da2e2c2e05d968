package cli

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"strings"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// messageFlags are the flags of session show.
type messageFlags struct {
	details, messages, contents bool
	from, before, branch        int64
	last, limit                 int
}

func (f *messageFlags) flags() []urfave.Flag {
	return []urfave.Flag{
		boolFlag(&f.details, "details", "the session's metadata, too"),
		boolFlag(&f.messages, "messages", "list its messages, too, without their contents"),
		boolFlag(&f.contents, "contents", "print its messages with their contents; with --json, metadata and payload too"),
		int64Flag(&f.from, "from", "messages from this `sequence` on, ascending", unset),
		int64Flag(&f.before, "before", "messages before this `sequence`, descending", unset),
		int64Flag(&f.branch, "branch", "the messages of the branch with this `sequence`, ascending, also if it is not the transcript", unset),
		countFlag(&f.last, "last", "the last `number` of messages, ascending"),
		countFlag(&f.limit, "limit", "at most this `number` of messages (otherwise: all)"),
	}
}

// wanted reports whether any messages are requested.
func (f *messageFlags) wanted() bool { return f.messages || f.contents || f.places() > 0 }

// places returns how many flags say where to begin.
func (f *messageFlags) places() (given int) {
	for _, set := range []bool{f.from != unset, f.before != unset, f.branch != unset, f.last != 0} {
		if set {
			given++
		}
	}
	return given
}

func (f *messageFlags) check() error {
	if f.places() > 1 {
		return usageError{text: "--from, --before, --branch and --last exclude each other"}
	}
	return nil
}

// fewMessages is the page size for messages with their contents, each of up to 16
// MiB and all in memory.
const fewMessages = 16

// selected yields the messages that the flags select.
func (f *messageFlags) selected(ctx context.Context, store *agentstore.Store, session repo.Session) iter.Seq2[repo.Message, error] {
	from := max(f.from, 0)
	if f.last > 0 {
		var err error
		if from, err = lastFrom(ctx, store, session.ID, f.last); err != nil {
			return func(yield func(repo.Message, error) bool) { yield(repo.Message{}, err) }
		}
	}
	if f.branch != unset {
		return branch(ctx, store, session.ID, f.branch)
	}
	if f.before == unset {
		return store.Sessions().Messages(ctx, session.ID, from)
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
	show, flush := messagePrinter(invocation, flags.contents)
	printed := 0
	for message, err := range flags.selected(ctx, store, session) {
		if err != nil {
			return invalidUsage(err)
		}
		if err := show(message); err != nil {
			return err
		}
		if printed++; printed == flags.limit {
			break
		}
	}
	return flush()
}

// messagePrinter returns a function that prints a message, and one that ends the
// output.
func messagePrinter(invocation invocation, contents bool) (show func(repo.Message) error, flush func() error) {
	w := bufio.NewWriter(invocation.screen)
	switch {
	case invocation.json:
		return func(m repo.Message) error { return printJSON(w, messageLine(m, contents)) }, w.Flush
	case contents:
		return func(m repo.Message) error {
			_, err := fmt.Fprintf(w, "%s\n%s\n\n", messageHead(invocation, m), below(m.Content))
			return err
		}, w.Flush
	}
	table := newTable(invocation, headings("#SEQUENCE", "ID", "ROLE", "KIND", "CALL", "#BYTES", "#PAYLOAD", "CREATED", "OCCURRED")...)
	return func(m repo.Message) error {
		var payload any = ""
		if m.Payload != nil {
			payload = len(m.Payload)
		}
		table.row(texts(m.Sequence, m.ID, m.Role, m.Kind, m.CallID, len(m.Content), payload, m.CreatedAt, m.OccurredAt))
		if len(table.rows) == firstPage {
			return table.flush()
		}
		return nil
	}, table.flush
}

// below returns a content as it is printed below its message's head: indented, so that no line
// of it looks like the head of another message.
func below(content string) string { return "  " + strings.ReplaceAll(lines(content), "\n", "\n  ") }

// messageHead is a message's line above its content.
func messageHead(invocation invocation, m repo.Message) string {
	head := fmt.Sprintf("%d  %s  %s", m.Sequence, m.Role, textOf(m.CreatedAt))
	for _, name := range []string{m.Kind, m.CallID} {
		if name != "" {
			head += "  " + oneLine(name)
		}
	}
	if invocation.colour {
		head = bold + head + reset
	}
	return head
}

func messageLine(m repo.Message, contents bool) object {
	line := object{
		{"session_id", m.SessionID},
		{"sequence", m.Sequence},
		{"id", m.ID},
		{"role", m.Role},
		{"kind", given{m.Kind}},
		{"call_id", given{m.CallID}},
		{"content_bytes", len(m.Content)},
	}
	if m.Follows != m.Sequence-1 {
		line = append(line, object{{"follows", m.Follows}}...)
	}
	if contents {
		line = append(line, object{{"content", given{m.Content}}, {"metadata", given{m.Metadata}}, {"payload", given{m.Payload}}}...)
	}
	return append(line, object{{"occurred_at", given{m.OccurredAt}}, {"created_at", m.CreatedAt}}...)
}
