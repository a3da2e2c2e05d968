package document

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// ErrIncomplete says that the messages that a Writer got are not those of the session,
// 0 to MessageCount-1 in order. It wrote no complete document.
var ErrIncomplete = errors.New("export is incomplete")

// flushSize is how much a Writer collects before it writes.
const flushSize = 64 << 10

// Writer writes one document: NewWriter, Write for each message in order, Close.
// After an error every later call returns that error, and what was written is
// not a complete document. It is not safe for concurrent use.
type Writer struct {
	w        io.Writer
	buffer   []byte
	checksum *checksum
	id       repo.ID
	next     int64
	count    int64
	err      error
}

// NewWriter begins the document of a session with session.MessageCount
// messages. The ids of linked plans may come in any order. Errors: a value that
// no document can hold. w is first written to later on.
func NewWriter(w io.Writer, session repo.Session, linkedPlans []repo.ID) (*Writer, error) {
	switch {
	case len(linkedPlans) > maxLinkedPlans:
		return nil, fmt.Errorf("export of session %s: %d linked plans, more than %d", session.ID, len(linkedPlans), maxLinkedPlans)
	case !writable(session.CreatedAt), !writable(session.UpdatedAt):
		return nil, fmt.Errorf("export of session %s: a time is not between the years 1 and 9999", session.ID)
	}
	plans := slices.SortedFunc(slices.Values(linkedPlans), repo.ID.Compare)
	plans = slices.Compact(plans)
	checksum, err := newChecksum(&session, plans)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	out := &Writer{w: w, checksum: checksum, id: session.ID, count: session.MessageCount}
	// No white space: in a document without it, what stands around metadata is
	// part of it (see Reader).
	out.buffer = appendInt(append(out.buffer, `{"schema_version":`...), schemaVersion)
	out.buffer = appendSession(append(out.buffer, `,"session":`...), &session)
	out.buffer = appendIDs(append(out.buffer, `,"linked_plan_ids":`...), plans)
	out.buffer = append(out.buffer, `,"messages":[`...)
	return out, nil
}

// Write adds the next message. Errors: ErrIncomplete when it is not the next
// one of the session; w's own.
func (w *Writer) Write(message repo.Message) error {
	if w.err != nil {
		return w.err
	}
	w.err = w.write(&message)
	return w.err
}

func (w *Writer) write(message *repo.Message) error {
	switch {
	case message.SessionID != w.id:
		return fmt.Errorf("%w: session %s got a message of session %s", ErrIncomplete, w.id, message.SessionID)
	case message.Sequence != w.next || w.next >= w.count:
		return fmt.Errorf("%w: session %s: got message %d, expected %d of %d", ErrIncomplete, w.id, message.Sequence, w.next, w.count)
	case !writable(message.CreatedAt), !writable(message.OccurredAt):
		return fmt.Errorf("export of session %s: message %d: a time is not between the years 1 and 9999", w.id, w.next)
	}
	if err := w.checksum.add(message); err != nil {
		return fmt.Errorf("export of session %s: %w", w.id, err)
	}
	if w.next > 0 {
		w.buffer = append(w.buffer, ',')
	}
	w.next++
	w.buffer = appendMessage(w.buffer, message)
	if len(w.buffer) >= flushSize {
		return w.flush()
	}
	return nil
}

// Close completes the document. It does not close w. Errors: ErrIncomplete when
// messages are missing, and the document stays without its end; w's own.
// Closing again, or writing after it, is an error.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if w.next != w.count {
		w.err = fmt.Errorf("%w: session %s: got %d messages of %d", ErrIncomplete, w.id, w.next, w.count)
		return w.err
	}
	w.buffer = append(w.buffer, `],"checksum":`...)
	w.buffer = strconv.AppendQuote(w.buffer, w.checksum.text())
	w.buffer = append(w.buffer, "}\n"...)
	if err := w.flush(); err != nil {
		w.err = err
		return err
	}
	w.err = errors.New("export: the document is complete already")
	return nil
}

func (w *Writer) flush() error {
	_, err := w.w.Write(w.buffer)
	w.buffer = reuse(w.buffer)
	return err
}

// writable reports whether RFC 3339 can write t.
func writable(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 1 && year <= 9999
}
