package document

import (
	"io"
	"strconv"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

// Reader reads one document: NewReader reads the session, Next one message at a
// time. A document may be formatted with white space; its members stand in the
// order of docs/export.md. It is not safe for concurrent use.
//
// In a document without white space, as Writer makes it, white space around
// metadata belongs to the metadata; in a formatted one it belongs to the
// formatting. It has no part in the checksum either way.
type Reader struct {
	source   *source
	top      members
	session  repo.Session
	plans    []repo.ID
	compact  bool
	checksum *checksum
	count    int64
	err      error

	// The message being read; value is readMessageMember, bound once.
	message messageParts
	value   func(i int) *fault
}

const (
	topVersion = iota
	topSession
	topPlans
	topMessages
	topChecksum
)

var topMembers = []member{
	topVersion:  {name: "schema_version"},
	topSession:  {name: "session"},
	topPlans:    {name: "linked_plan_ids"},
	topMessages: {name: "messages"},
	topChecksum: {name: "checksum"},
}

// NewReader reads the document up to its first message. Errors: *repo.ImportError.
func NewReader(r io.Reader) (*Reader, error) {
	source := newSource(r)
	reader := &Reader{source: source, top: members{source: source, list: topMembers}}
	reader.value = reader.readMessageMember
	if f := reader.readHead(); f != nil {
		return nil, complete(f)
	}
	return reader, nil
}

// Session is the document's session. Its MessageCount is the number of messages
// read so far. It is proven by the checksum only when Next has returned io.EOF.
func (r *Reader) Session() repo.Session {
	session := r.session
	session.MessageCount = r.count
	return session
}

// LinkedPlans are the ids of the session's plans, ascending.
func (r *Reader) LinkedPlans() []repo.ID { return r.plans }

// Next returns the next message. Errors: io.EOF, itself, after the last one and
// only when the checksum was right and nothing followed the document; else
// *repo.ImportError, and no other error is ever io.EOF. What Next returned
// before an error is not to be kept.
func (r *Reader) Next() (repo.Message, error) {
	if r.err != nil {
		return repo.Message{}, r.err
	}
	message, more, f := r.readMessage()
	switch {
	case f != nil:
		r.err = complete(f)
	case more:
		return message, nil
	default:
		if f := r.readTail(); f != nil {
			r.err = complete(f)
		} else {
			r.err = io.EOF
		}
	}
	return repo.Message{}, r.err
}

func complete(f *fault) error {
	if f.Field == "" {
		f.Field = "document"
	}
	return f
}

// topMember reads up to the value of the member at i, which is to come next.
func (r *Reader) topMember(i int) *fault {
	got, f := r.top.next()
	if f == nil && got != i { // unreachable: no member of the list is optional
		f = &fault{Reason: "is not valid"}
	}
	return f
}

func (r *Reader) readHead() *fault {
	if f := r.topMember(topVersion); f != nil {
		return f
	}
	version, f := r.source.integer()
	if f != nil {
		return within("schema_version", f)
	}
	if version != schemaVersion {
		return &fault{Field: "schema_version", Reason: "is not 1, the version that can be read"}
	}
	if f := r.topMember(topSession); f != nil {
		return f
	}
	if _, f := r.source.peekToken(); f != nil {
		return within("session", f)
	}
	r.compact = !r.source.spaced
	if f := r.readSession(); f != nil {
		return within("session", f)
	}
	if f := r.topMember(topPlans); f != nil {
		return f
	}
	if f := r.readPlans(); f != nil {
		return within("linked_plan_ids", f)
	}
	if f := r.topMember(topMessages); f != nil {
		return f
	}
	if f := r.openArray(); f != nil {
		return within("messages", f)
	}
	var err error
	if r.checksum, err = newChecksum(&r.session, r.plans); err != nil {
		return &fault{Field: "session", Reason: "has no canonical form", Err: err}
	}
	return nil
}

func (r *Reader) openArray() *fault {
	c, f := r.source.peekToken()
	if f == nil && c != '[' {
		f = &fault{Reason: "is not an array"}
	}
	if f == nil {
		r.source.pos++
	}
	return f
}

// element moves to the next element of an array of which count were read.
func (r *Reader) element(count int64) (more bool, f *fault) {
	c, f := r.source.peekToken()
	switch {
	case f != nil:
		return false, f
	case c == ']':
		r.source.pos++
		return false, nil
	case count == 0:
		return true, nil
	case c != ',':
		return false, &fault{Reason: "is not valid JSON"}
	}
	r.source.pos++
	return true, nil
}

func (r *Reader) readPlans() *fault {
	if f := r.openArray(); f != nil {
		return f
	}
	for {
		more, f := r.element(int64(len(r.plans)))
		if f != nil || !more {
			return f
		}
		place := "[" + strconv.Itoa(len(r.plans)) + "]"
		id, f := r.source.id()
		switch {
		case f != nil:
			return within(place, f)
		case len(r.plans) > 0 && id.Compare(r.plans[len(r.plans)-1]) <= 0:
			return &fault{Field: place, Reason: "is not greater than the one before"}
		case len(r.plans) == maxLinkedPlans:
			return &fault{Reason: "has more than " + strconv.Itoa(maxLinkedPlans) + " entries"}
		}
		r.plans = append(r.plans, id)
	}
}

// readMessage reads the next message, if there is one more.
func (r *Reader) readMessage() (message repo.Message, more bool, f *fault) {
	if more, f = r.element(r.count); f != nil {
		return message, false, within("messages", f)
	}
	if !more {
		return message, false, nil
	}
	if message, f = r.readMessageObject(); f != nil {
		return message, false, within("messages["+strconv.FormatInt(r.count, 10)+"]", f)
	}
	r.count++
	return message, true, nil
}

func (r *Reader) readTail() *fault {
	if f := r.topMember(topChecksum); f != nil {
		return f
	}
	text, f := r.source.text(128)
	if f != nil {
		return within("checksum", f)
	}
	switch {
	case !isChecksum(string(text)):
		return &fault{Field: "checksum", Reason: "is not sha256: and 64 lower-case hexadecimal digits"}
	case string(text) != r.checksum.text():
		return &fault{Field: "checksum", Reason: "is not that of the document, which was changed or damaged"}
	}
	if i, f := r.top.next(); f != nil || i >= 0 {
		return f
	}
	return r.source.atEnd()
}

func isChecksum(text string) bool {
	digits, ok := strings.CutPrefix(text, checksumPrefix)
	return ok && len(digits) == 64 && strings.Trim(digits, "0123456789abcdef") == ""
}
