package export

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
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
	history  History
	// count is the number of messages, and next the next sequence. seen has the ranges of the sequences below the base.
	count, next int64
	seen        [][2]int64
	err         error

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
		{name: "schema_version"},
		{name: "session"},
		{name: "linked_plan_ids"},
		{name: "history", optional: true},
		{name: "messages"},
		{name: "state", optional: true},
		{name: "checksum"},
	})
	reader.parts.value = messageMembers(&reader.message)
	reader.readMember(reader.readVersion)
	reader.readMember(reader.readSession)
	reader.readMember(reader.readPlans)
	reader.readHistory()
	if err := reader.fault(); err != nil {
		return nil, err
	}
	var err error
	if reader.checksum, err = newChecksum(&reader.session, reader.plans, reader.history, &reader.message); err != nil {
		return nil, &fault{Field: "session", Reason: "has no canonical form", Err: err}
	}
	return reader, nil
}

// Session returns the document's session. Its MessageCount is the next sequence after the
// messages read so far. The checksum covers it only after Next has returned io.EOF.
func (r *Reader) Session() repo.Session {
	session := r.session
	session.MessageCount = r.next
	return session
}

// History returns which branch is the session's transcript, and whether it is a fork.
func (r *Reader) History() History { return r.history }

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

// readHistory reads the history, if there is one, and begins the messages.
func (r *Reader) readHistory() {
	i := r.top.next()
	if i >= 0 && r.top.list[i].name == "history" {
		r.source.read(&member{value: historyMembers(&r.history)})
		if r.history.isEmpty() {
			r.source.failAt("", "is empty", nil)
		}
		r.source.within("history")
		r.source.below = r.history.Base
		i = r.top.next()
	}
	if i >= 0 {
		r.source.Expect('[', "is not an array")
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
	normal, err := rules.NormalizeSession("", repo.NewSession{
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
	r.message = repo.Message{Sequence: r.next, Follows: noFollows}
	if r.source.read(&r.parts); r.source.Fault == nil {
		r.checkMessage()
	}
	if r.source.Fault != nil {
		r.source.within("messages[" + strconv.FormatInt(r.count, 10) + "]")
		return
	}
	r.count, r.next = r.count+1, r.message.Sequence+1
}

// noFollows is that of a message which follows the one before it. The document leaves it out.
const noFollows = -2

// checkFollows checks what the message follows: those below the base are one transcript, and the others follow any one before.
func (r *Reader) checkFollows() {
	m := &r.message
	given := m.Follows != noFollows
	if !given {
		m.Follows = m.Sequence - 1
	}
	last := int64(-1)
	if len(r.seen) > 0 {
		last = r.seen[len(r.seen)-1][1]
	}
	switch {
	case given && (m.Follows < -1 || m.Follows >= m.Sequence-1):
		r.source.failAt("follows", "is not before the message before", nil)
	case m.Sequence < r.history.Base && m.Follows != last:
		r.source.failAt("follows", "is not the message before", nil)
	case m.Sequence >= r.history.Base && !r.has(m.Follows):
		r.source.failAt("follows", "is not a message", nil)
	}
	switch {
	case m.Sequence >= r.history.Base:
	case len(r.seen) > 0 && last == m.Sequence-1:
		r.seen[len(r.seen)-1][1]++
	default:
		r.seen = append(r.seen, [2]int64{m.Sequence, m.Sequence})
	}
}

// has reports whether a sequence is -1, or that of a message that was read.
func (r *Reader) has(sequence int64) bool {
	return sequence == -1 || sequence >= r.history.Base && sequence < r.next ||
		slices.ContainsFunc(r.seen, func(s [2]int64) bool { return sequence >= s[0] && sequence <= s[1] })
}

// readEnd reads what follows the messages.
func (r *Reader) readEnd() {
	switch head := r.history.Head; {
	case r.next < r.history.Base:
		r.source.failAt("messages", "end before the base", nil)
	case head != nil && (!r.has(*head) || *head >= r.next-1):
		r.source.failAt("messages", "do not have the head, or end with it", nil)
	}
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

// maxStateVersion returns the largest version of a state. Versions are times in microseconds,
// or one more than the version before. The bound moves with the clock, which no changes
// overtake: so what was imported and changed can be exported and imported again.
func maxStateVersion() int64 { return time.Now().AddDate(100, 0, 0).UnixMicro() }

func (r *Reader) readState() {
	object := r.source.members([]member{{name: "version"}, {name: "values"}})
	if object.next() >= 0 {
		version := r.source.Integer()
		if version < 1 || version > maxStateVersion() {
			r.source.Fail("is not between 1 and the time in 100 years, in microseconds")
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
		Kind: m.Kind, CallID: m.CallID, OccurredAt: m.OccurredAt, Tokens: m.Tokens, Counter: m.Counter,
	}
	normal, _, err := rules.NormalizeMessages(r.batch[:])
	if err != nil {
		r.source.refuse(err)
		return
	}
	if r.checkFollows(); r.source.Fault != nil {
		return
	}
	follows := m.Follows
	*m = rules.StoredMessage(normal[0], r.session.ID, m.Sequence, m.CreatedAt)
	m.Follows = follows
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
