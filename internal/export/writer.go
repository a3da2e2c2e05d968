package export

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// ErrIncomplete means that the messages given to a Writer are not those of the
// session, 0 to MessageCount-1 in order (for a fork: see History.Base), so that it wrote no complete document.
var ErrIncomplete = errors.New("export is incomplete")

// Writer writes one document: NewWriter, Write for each message in order, BeginState
// and WriteState for each key if the session has state of its own, Close.
// After an error every later call returns the same error, and what was written is
// not a complete document. A Writer is not safe for concurrent use.
type Writer struct {
	w        io.Writer
	buffer   []byte
	checksum *checksum
	session  repo.Session
	next     int64
	err      error
	history  History
	// last is the sequence of the last message, or -1.
	last int64

	// message is the one being written.
	message repo.Message
	members []member
	// state is the key of state that is being written.
	state        repo.StateValue
	stateMembers []member
	stateKeys    int
}

// NewWriter begins the document of a session with session.MessageCount messages.
// The ids of linked plans may be in any order. It does not write to w yet. It
// returns an error if a document cannot represent a value. One history may be given.
func NewWriter(w io.Writer, session repo.Session, linkedPlans []repo.ID, history ...History) (*Writer, error) {
	switch {
	case len(linkedPlans) > maxLinkedPlans:
		return nil, fmt.Errorf("%w: export of session %s: %d linked plans, more than %d", repo.ErrLimit, session.ID, len(linkedPlans), maxLinkedPlans)
	case !writable(session.CreatedAt), !writable(session.UpdatedAt):
		return nil, fmt.Errorf("export of session %s: a time is not between the years 1 and 9999", session.ID)
	}
	plans := slices.SortedFunc(slices.Values(linkedPlans), repo.ID.Compare)
	plans = slices.Compact(plans)
	out := &Writer{w: w, session: session, last: -1}
	if len(history) > 0 {
		out.history = history[0]
	}
	out.members = messageMembers(&out.message)
	var err error
	if out.checksum, err = newChecksum(&out.session, plans, out.history, &out.message); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	// No white space: in a document without it, white space around metadata belongs
	// to the metadata (see Reader).
	out.buffer = append(out.buffer, `{"schema_version":1,"session":`...)
	if out.buffer, err = appendMembers(out.buffer, sessionMembers(&out.session)); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	out.buffer = appendIDs(append(out.buffer, `,"linked_plan_ids":`...), plans)
	if !out.history.isEmpty() {
		out.buffer = append(out.buffer, `,"history":`...)
		if out.buffer, err = appendMembers(out.buffer, historyMembers(&out.history)); err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
	}
	out.buffer = append(out.buffer, `,"messages":[`...)
	return out, nil
}

// Write adds the next message. Errors: ErrIncomplete if it is not the session's
// next one; w's own.
func (w *Writer) Write(message repo.Message) error {
	if w.err != nil {
		return w.err
	}
	w.message = message
	w.err = w.write()
	return w.err
}

func (w *Writer) write() (err error) {
	id, message := w.session.ID, &w.message
	if message.Sequence > w.next && message.Sequence < w.history.Base && message.Follows == w.last {
		w.next = message.Sequence
	}
	switch {
	case message.SessionID != id:
		return fmt.Errorf("%w: session %s got a message of session %s", ErrIncomplete, id, message.SessionID)
	case message.Sequence != w.next || w.next >= w.session.MessageCount:
		return fmt.Errorf("%w: session %s: got message %d, expected %d of %d", ErrIncomplete, id, message.Sequence, w.next, w.session.MessageCount)
	case !writable(message.CreatedAt), !writable(message.OccurredAt):
		return fmt.Errorf("export of session %s: message %d: a time is not between the years 1 and 9999", id, w.next)
	}
	if err := w.checksum.add(); err != nil {
		return fmt.Errorf("export of session %s: %w", id, err)
	}
	if w.last >= 0 {
		w.buffer = append(w.buffer, ',')
	}
	w.next, w.last = w.next+1, message.Sequence
	if w.buffer, err = appendMembers(w.buffer, w.members); err != nil {
		return err
	}
	if len(w.buffer) >= sourceSize {
		return w.flush()
	}
	return nil
}

// BeginState begins the session's own state, at a version of at least 1. Errors:
// ErrIncomplete if messages are missing.
func (w *Writer) BeginState(version int64) error {
	if w.err != nil {
		return w.err
	}
	if w.err = w.complete(); w.err != nil {
		return w.err
	}
	w.checksum.beginState(version, &w.state)
	w.stateMembers = stateMembers(&w.state)
	w.buffer = strconv.AppendInt(append(w.buffer, `],"state":{"version":`...), version, 10)
	w.buffer = append(w.buffer, `,"values":[`...)
	return nil
}

// WriteState adds the next key, in the order of the keys' bytes. Errors: w's own.
func (w *Writer) WriteState(value repo.StateValue) error {
	if w.err == nil {
		w.state = value
		w.err = w.writeState()
	}
	return w.err
}

func (w *Writer) writeState() (err error) {
	if !writable(w.state.UpdatedAt) {
		return fmt.Errorf("export of session %s: a key of state: a time is not between the years 1 and 9999", w.session.ID)
	}
	if err := w.checksum.addState(); err != nil {
		return fmt.Errorf("export of session %s: %w", w.session.ID, err)
	}
	if w.stateKeys > 0 {
		w.buffer = append(w.buffer, ',')
	}
	w.stateKeys++
	if w.buffer, err = appendMembers(w.buffer, w.stateMembers); err != nil {
		return err
	}
	if len(w.buffer) >= sourceSize {
		return w.flush()
	}
	return nil
}

// complete returns ErrIncomplete if messages are missing.
func (w *Writer) complete() error {
	if w.next != w.session.MessageCount {
		return fmt.Errorf("%w: session %s: got %d messages of %d", ErrIncomplete, w.session.ID, w.next, w.session.MessageCount)
	}
	return nil
}

// Close completes the document. It does not close w. Errors: ErrIncomplete if
// messages are missing, in which case the document stays incomplete; w's own. A
// second Close, or a Write after it, is an error.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if w.err = w.complete(); w.err != nil {
		return w.err
	}
	if w.buffer = append(w.buffer, ']'); w.stateMembers != nil {
		w.buffer = append(w.buffer, '}')
	}
	w.buffer = append(w.buffer, `,"checksum":"`+w.checksum.text()+"\"}\n"...)
	w.err = w.flush()
	if w.err != nil {
		return w.err
	}
	w.err = errors.New("export: the document is complete already")
	return nil
}

func (w *Writer) flush() error {
	_, err := w.w.Write(w.buffer)
	w.buffer = reuse(w.buffer)
	return err
}

// writable reports whether RFC 3339 can represent t.
func writable(t time.Time) bool {
	year := t.UTC().Year()
	return year >= 1 && year <= 9999
}
