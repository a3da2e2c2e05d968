package export

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
)

// ErrIncomplete means that the messages given to a Writer are not the session's messages 0 to MessageCount-1
// in order (for a fork: see History.Base), so that it wrote no complete document.
var ErrIncomplete = errors.New("export is incomplete")

// Writer writes one document: NewWriter, Write for each message in order, BeginState
// and WriteState for each key if the session has state of its own, Close.
// After an error every later call returns the same error, and what was written is
// not a complete document. A Writer is not safe for concurrent use.
type Writer struct {
	lines
	w        io.Writer
	checksum hash.Hash
	session  repo.Session
	history  History
	next     int64
	// last is the sequence of the last message, or -1.
	last     int64
	hasState bool
	err      error
	// message and follows are being written.
	message messageRecord
	follows int64
}

// NewWriter begins the document of a session with session.MessageCount messages.
// The ids of linked plans may be in any order. It returns an error if a document cannot
// represent a value, or w's own. One history may be given.
func NewWriter(w io.Writer, session repo.Session, linkedPlans []repo.ID, history ...History) (*Writer, error) {
	if len(linkedPlans) > maxLinkedPlans {
		return nil, fmt.Errorf("%w: export of session %s: %d linked plans, more than %d",
			repo.ErrLimit, session.ID, len(linkedPlans), maxLinkedPlans)
	}
	out := &Writer{w: w, checksum: sha256.New(), session: session, last: -1}
	out.out = bufio.NewWriterSize(io.MultiWriter(w, out.checksum), sourceSize)
	if len(history) > 0 {
		out.history = history[0]
	}
	plans := slices.SortedFunc(slices.Values(linkedPlans), repo.ID.Compare)
	if err := out.begin(slices.Compact(plans)); err != nil {
		return nil, fmt.Errorf("export of session %s: %w", session.ID, err)
	}
	return out, nil
}

func (w *Writer) begin(plans []repo.ID) error {
	head := headRecord{SchemaVersion: schemaVersion, LinkedPlanIDs: plans, History: w.history}
	if err := w.open(&head, "session"); err != nil {
		return err
	}
	_ = w.out.WriteByte('\n')
	s := &w.session
	record := sessionRecord{
		ID: s.ID, Namespace: s.Namespace, Key: s.Key, Owner: s.Owner, Actor: s.Actor, AutomationProfile: s.AutomationProfile,
		Usage: usageRecord(s.Usage), Budget: s.Budget, CreatedAt: stamp{s.CreatedAt}, UpdatedAt: stamp{s.UpdatedAt},
	}
	if err := w.add(&record, "metadata", s.Metadata); err != nil {
		return err
	}
	w.records = 0
	_, err := w.out.WriteString(messagesBegin + "\n")
	return err
}

// Write adds the next message. Errors: ErrIncomplete if it is not the session's
// next one; w's own.
func (w *Writer) Write(message repo.Message) error {
	if w.err == nil {
		w.err = w.write(&message)
	}
	return w.err
}

func (w *Writer) write(m *repo.Message) error {
	id := w.session.ID
	if m.Sequence > w.next && m.Sequence < w.history.Base && m.Follows == w.last {
		w.next = m.Sequence
	}
	switch {
	case m.SessionID != id:
		return fmt.Errorf("%w: session %s got a message of session %s", ErrIncomplete, id, m.SessionID)
	case m.Sequence != w.next || w.next >= w.session.MessageCount:
		return fmt.Errorf("%w: session %s: got message %d, expected %d of %d",
			ErrIncomplete, id, m.Sequence, w.next, w.session.MessageCount)
	}
	w.next, w.last = w.next+1, m.Sequence
	w.message = messageRecord{
		ID: m.ID, Sequence: m.Sequence, Role: m.Role, Content: m.Content, Payload: m.Payload, Kind: m.Kind, CallID: m.CallID,
		Tokens: m.Tokens, Counter: m.Counter, OccurredAt: stamp{m.OccurredAt}, CreatedAt: stamp{m.CreatedAt},
	}
	if m.Follows != m.Sequence-1 {
		w.follows = m.Follows
		w.message.Follows = &w.follows
	}
	if err := w.add(&w.message, "metadata", m.Metadata); err != nil {
		return fmt.Errorf("export of session %s: message %d: %w", id, m.Sequence, err)
	}
	return nil
}

// BeginState begins the session's own state, at a version of at least 1. Errors:
// ErrIncomplete if messages are missing; w's own.
func (w *Writer) BeginState(version int64) error {
	if w.err == nil {
		w.err = w.endMessages()
	}
	if w.err == nil {
		w.hasState = true
		_, _ = w.out.WriteString(stateBegin)
		w.err = w.open(&stateRecord{version}, "values")
		_, _ = w.out.WriteString("[\n")
	}
	return w.err
}

// WriteState adds the next key, in the order of the keys' bytes. Errors: w's own.
func (w *Writer) WriteState(value repo.StateValue) error {
	if w.err == nil {
		if w.err = w.addValue(value); w.err != nil {
			w.err = fmt.Errorf("export of session %s: a key of state: %w", w.session.ID, w.err)
		}
	}
	return w.err
}

// addValue adds a key of state.
func (l *lines) addValue(v repo.StateValue) error {
	return l.add(&valueRecord{v.Key, v.Version, stamp{v.UpdatedAt}}, "value", v.Value)
}

// endMessages ends the messages, or returns ErrIncomplete if some are missing.
func (w *Writer) endMessages() error {
	if w.next != w.session.MessageCount {
		return fmt.Errorf("%w: session %s: got %d messages of %d",
			ErrIncomplete, w.session.ID, w.next, w.session.MessageCount)
	}
	return w.end(endOfList)
}

// Close completes the document. It does not close w. Errors: ErrIncomplete if
// messages are missing, in which case the document stays incomplete; w's own. A
// second Close, or a Write after it, is an error.
func (w *Writer) Close() error {
	if w.err == nil {
		w.err = w.close()
	}
	if w.err != nil {
		return w.err
	}
	w.err = errors.New("export: the document is complete already")
	return nil
}

func (w *Writer) close() (err error) {
	if w.hasState {
		err = w.end(endOfState)
	} else {
		err = w.endMessages()
	}
	if err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.w, checksumLine+"\n", w.checksum.Sum(nil))
	return err
}
