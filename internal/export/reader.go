package export

import (
	"cmp"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// Reader reads one document: NewReader reads the session, Next one message at a
// time, and then the state. A document may be formatted with white space; its members are in the order
// of docs/export.md. A Reader is not safe for concurrent use.
//
// In a document without white space, as Writer makes it, white space around
// metadata belongs to the metadata; in a formatted one it belongs to the
// formatting. It does not affect the checksum either way.
type Reader struct {
	// State, if set, is given each key of the session's own state, while Next reads the
	// end of the document. Its error ends the reading and is returned by Next.
	State func(repo.StateValue) error

	source   source
	top      members
	session  repo.Session
	plans    []repo.ID
	checksum *checksum
	count    int64
	err      error

	// message is the one being read.
	message repo.Message
	parts   member
	batch   [1]repo.NewMessage
	// state is the key of state that is being read.
	state        repo.StateValue
	stateVersion int64
	stateErr     error
}

// NewReader reads the document up to its first message. Errors: *repo.ImportError.
func NewReader(r io.Reader) (*Reader, error) {
	reader := &Reader{source: source{Scanner: jsonvalue.NewReaderScanner(r, sourceSize)}}
	reader.top = reader.source.members([]member{
		{name: "schema_version"}, {name: "session"}, {name: "linked_plan_ids"}, {name: "messages"}, {name: "state", optional: true}, {name: "checksum"},
	})
	reader.parts.value = messageMembers(&reader.message)
	reader.readMember(reader.readVersion)
	reader.readMember(reader.readSession)
	reader.readMember(reader.readPlans)
	reader.readMember(func() { reader.source.Expect('[', "is not an array") })
	if err := reader.fault(); err != nil {
		return nil, err
	}
	var err error
	if reader.checksum, err = newChecksum(&reader.session, reader.plans, &reader.message); err != nil {
		return nil, &fault{Field: "session", Reason: "has no canonical form", Err: err}
	}
	return reader, nil
}

// Session returns the document's session. Its MessageCount is the number of
// messages read so far. The checksum covers it only after Next has returned io.EOF.
func (r *Reader) Session() repo.Session {
	session := r.session
	session.MessageCount = r.count
	return session
}

// StateVersion returns the version of the session's own state, once Next has returned
// io.EOF or State was called. 0: it has none.
func (r *Reader) StateVersion() int64 { return r.stateVersion }

// LinkedPlans returns the ids of the session's plans, ascending.
func (r *Reader) LinkedPlans() []repo.ID { return r.plans }

// Next returns the next message. After the last one it returns io.EOF itself, and
// only if the checksum is correct and nothing follows the document. All other
// errors are *repo.ImportError. Messages that Next returned before an error must
// not be kept.
func (r *Reader) Next() (repo.Message, error) {
	if r.err != nil {
		return repo.Message{}, r.err
	}
	more := r.source.Next(']', r.count == 0)
	if r.source.within("messages"); more {
		r.readMessage()
	} else {
		r.readEnd()
	}
	if r.err = cmp.Or(r.stateErr, r.fault()); r.err == nil && !more {
		r.err = io.EOF
	}
	if r.err != nil {
		return repo.Message{}, r.err
	}
	return r.message, nil
}

// fault returns the error of the first fault, or nil.
func (r *Reader) fault() error {
	if r.source.Fault == nil {
		return nil
	}
	if ours, ok := errors.AsType[*bufferError](r.source.Fault.Err); ok {
		return ours
	}
	f := &fault{Field: r.source.field, Reason: r.source.Fault.Reason, Err: r.source.Fault.Err}
	if f.Field == "" {
		f.Field = "document"
	}
	return f
}

// readMember reads the document's next member.
func (r *Reader) readMember(value func()) {
	if i := r.top.next(); i >= 0 {
		value()
		r.source.within(r.top.list[i].name)
	}
}

func (r *Reader) readVersion() {
	if r.source.Integer() != schemaVersion {
		r.source.Fail("is not 1, the version that can be read")
	}
}

// readSession checks the session by the rules for a new one, and by the invariants
// that a store maintains later.
func (r *Reader) readSession() {
	s := &r.session
	r.source.Peek()
	r.source.compact = !r.source.Spaced
	if r.source.read(&member{value: sessionMembers(s)}); r.source.Fault != nil {
		return
	}
	normal, err := rules.NormalizeSession(repo.NewSession{
		ID: s.ID, Namespace: s.Namespace, Key: s.Key, Owner: s.Owner, Actor: s.Actor, AutomationProfile: s.AutomationProfile,
		Metadata: s.Metadata, Budget: s.Budget,
	})
	if err != nil {
		r.source.refuse(err)
	}
	s.Version = 1
	if err := rules.CheckUsage(s.Usage); err != nil {
		r.source.refuse(err)
		r.source.within("usage")
	}
	s.Metadata, s.Version = normal.Metadata, 1
	if s.Budget != nil && s.Usage.Cost > *s.Budget {
		r.source.failAt("budget_nanos", "is below the cost", nil)
	}
	// UpdatedAt may be before CreatedAt if a clock stepped back.
}

func (r *Reader) readPlans() {
	r.source.Expect('[', "is not an array")
	for r.source.Next(']', len(r.plans) == 0) {
		id, place := r.source.id(), "["+strconv.Itoa(len(r.plans))+"]"
		r.source.within(place)
		if len(r.plans) > 0 && id.Compare(r.plans[len(r.plans)-1]) <= 0 {
			r.source.failAt(place, "is not greater than the one before", nil)
		}
		if len(r.plans) == maxLinkedPlans {
			r.source.Fail("has more than " + strconv.Itoa(maxLinkedPlans) + " entries")
		}
		r.plans = append(r.plans, id)
	}
}

func (r *Reader) readMessage() {
	r.message = repo.Message{Sequence: r.count}
	if r.source.read(&r.parts); r.source.Fault == nil {
		r.checkMessage()
	}
	if r.source.Fault != nil {
		r.source.within("messages[" + strconv.FormatInt(r.count, 10) + "]")
		return
	}
	r.count++
}

// readEnd reads what follows the messages.
func (r *Reader) readEnd() {
	i := r.top.next()
	if i >= 0 && r.top.list[i].name == "state" {
		r.readState()
		r.source.within("state")
		i = r.top.next()
	}
	if i >= 0 {
		r.readChecksum()
		r.source.within(r.top.list[i].name)
	}
	if r.top.next(); r.source.Fault == nil {
		r.source.End()
	}
}

// maxStateVersion bounds the version of a state, to which each change adds one. A
// store's own versions, which begin with a time in microseconds, do not reach it.
const maxStateVersion = 1 << 62

func (r *Reader) readState() {
	object := r.source.members([]member{{name: "version"}, {name: "values"}})
	if object.next() >= 0 {
		version := r.source.Integer()
		if version < 1 || version > maxStateVersion {
			r.source.Fail("is not between 1 and 2^62")
		}
		r.source.within("version")
		r.stateVersion = version
	}
	if object.next() >= 0 {
		r.checksum.beginState(r.stateVersion, &r.state)
		r.source.Expect('[', "is not an array")
		parts := member{value: stateMembers(&r.state)}
		for i := 0; r.source.Next(']', i == 0); i++ {
			r.readStateValue(&parts, i == 0)
			r.source.within("[" + strconv.Itoa(i) + "]")
		}
		r.source.within("values")
	}
	object.next()
}

// readStateValue checks a key of state by the rules for a change.
func (r *Reader) readStateValue(parts *member, first bool) {
	before := r.state.Key
	if r.source.read(parts); r.source.Fault != nil {
		return
	}
	switch err := cmp.Or(rules.CheckStateKey("key", r.state.Key), rules.CheckStateValue("value", r.state.Value)); {
	case err != nil:
		r.source.refuse(err)
	case !first && r.state.Key <= before:
		r.source.failAt("key", "is not greater than the one before", nil)
	case r.state.Version < 1 || r.state.Version > r.stateVersion:
		r.source.failAt("version", "is not between 1 and that of the state", nil)
	}
	if r.source.Fault != nil {
		return
	}
	if err := r.checksum.addState(); err != nil {
		r.source.failAt("", "has no canonical form", err)
		return
	}
	if r.State != nil {
		if r.stateErr = r.State(r.state); r.stateErr != nil {
			r.source.Fail("is refused")
		}
	}
}

// checkMessage checks the message by the rules for a new one.
func (r *Reader) checkMessage() {
	m := &r.message
	r.batch[0] = repo.NewMessage{
		ID: m.ID, Role: m.Role, Content: m.Content, Metadata: m.Metadata, Payload: m.Payload,
		Kind: m.Kind, CallID: m.CallID, OccurredAt: m.OccurredAt,
	}
	normal, _, err := rules.NormalizeMessages(r.batch[:])
	if err != nil {
		r.source.refuse(err)
		return
	}
	*m = rules.StoredMessage(normal[0], r.session.ID, r.count, m.CreatedAt)
	if err := r.checksum.add(); err != nil {
		r.source.failAt("", "has no canonical form", err)
	}
}

func (r *Reader) readChecksum() {
	text := string(r.source.Text(128))
	digits, ok := strings.CutPrefix(text, checksumPrefix)
	switch {
	case !ok || len(digits) != 64 || strings.Trim(digits, "0123456789abcdef") != "":
		r.source.Fail("is not sha256: and 64 lower-case hexadecimal digits")
	case text != r.checksum.text():
		r.source.Fail("is not that of the document, which was changed or damaged")
	}
}
