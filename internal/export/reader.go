package export

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// notWritten is the reason if a line has not the bytes that Writer gives its values: another
// layout, order, spelling or white space, a member that is unknown, missing or there twice.
const notWritten = "is not as an export writes it"

// Reader reads one document: NewReader reads the session, Next one message at a
// time, and then NextValue one key of state. It takes only what Writer writes, byte for byte: it encodes
// what it has decoded, and compares. A Reader is not safe for concurrent use.
type Reader struct {
	// source reads from the limited one, which ends in the midst of a line that is too long.
	source   *bufio.Reader
	limited  *io.LimitedReader
	checksum hash.Hash
	// cutOff: the last line has no line break, so that it is whole only if it is the document's last.
	cutOff bool
	// more: the last record has a comma after it.
	more bool

	session      repo.Session
	plans        []repo.ID
	history      History
	stateVersion int64
	// count is the number of messages, and next the next sequence. seen has the ranges of the sequences below the base.
	count, next int64
	seen        [][2]int64
	err         error
	batch       [1]repo.NewMessage
	// last is the line after the messages, values the number of keys of state, and key the last one.
	last     []byte
	values   int
	key      string
	valueErr error
}

// NewReader reads the document up to its first message. Errors: *repo.ImportError.
func NewReader(r io.Reader) (*Reader, error) {
	limited := &io.LimitedReader{R: r}
	reader := &Reader{source: bufio.NewReaderSize(limited, sourceSize), limited: limited, checksum: sha256.New()}
	err := reader.readHead()
	if err == nil {
		err = reader.readSession()
	}
	if err != nil {
		return nil, err
	}
	return reader, nil
}

// Session returns the document's session. Its MessageCount is the next sequence after the
// messages read so far. The checksum covers it only after NextValue has returned io.EOF.
func (r *Reader) Session() repo.Session {
	session := r.session
	session.MessageCount = r.next
	return session
}

// History returns which branch is the session's transcript, and whether it is a fork.
func (r *Reader) History() History { return r.history }

// StateVersion returns the version of the session's own state, once Next has returned
// io.EOF. 0: it has none.
func (r *Reader) StateVersion() int64 { return r.stateVersion }

// LinkedPlans returns the ids of the session's plans, ascending.
func (r *Reader) LinkedPlans() []repo.ID { return r.plans }

// Next returns the next message, and io.EOF itself after the last one. Other errors are
// *repo.ImportError. Nothing that was read may be kept before NextValue returns io.EOF.
func (r *Reader) Next() (message repo.Message, err error) {
	if r.err == nil {
		message, r.err = r.readNext()
	}
	return message, r.err
}

// NextValue returns the next key of the session's own state, once Next has returned io.EOF.
// After the last one it returns io.EOF itself, and only if the checksum is correct and
// nothing follows the document. Other errors are *repo.ImportError.
func (r *Reader) NextValue() (value repo.StateValue, err error) {
	if r.valueErr == nil {
		value, r.valueErr = r.readValue()
	}
	return value, r.valueErr
}

// fault returns an error at the field of a place in the document, which is empty for the document itself.
// A line that is cut off is not blamed for what is missing.
func (r *Reader) fault(place, field, reason string, cause error) error {
	path := cmp.Or(strings.Trim(place+"."+field, "."), "document")
	if r.cutOff { // not io.EOF, which would mean a complete document
		reason, cause = "is cut off", io.ErrUnexpectedEOF
	}
	return &repo.ImportError{Field: path, Reason: reason, Err: cause}
}

// line returns the next line, which is at a place.
func (r *Reader) line(place string) ([]byte, error) {
	r.limited.N = int64(maxLine)
	line, err := r.source.ReadBytes('\n')
	if err != nil {
		return line, r.ended(place, err)
	}
	if !bytes.HasPrefix(line, []byte(checksumBegin)) {
		r.checksum.Write(line)
	}
	return line[:len(line)-1], nil
}

// ended returns the error of a source without another line break. Of the last line it is nil.
func (r *Reader) ended(place string, err error) error {
	ours, isOurs := errors.AsType[*bufferError](err)
	switch {
	case isOurs:
		return ours
	case r.limited.N <= 0:
		return r.fault(place, "", "has a line of more than "+strconv.Itoa(maxLine)+" bytes", nil)
	case !errors.Is(err, io.EOF):
		return r.fault(place, "", "cannot be read", err)
	}
	r.cutOff = true
	if err == io.EOF && place == "checksum" { //nolint:errorlint // a wrapped one is not a clean end
		return nil
	}
	return r.fault(place, "", "", nil)
}

// decode reads the record before the member of a line that follows the record's own ones, and returns
// what is written from that member's value on. It writes to the line.
func (r *Reader) decode(place string, line []byte, record any, member string) ([]byte, error) {
	object, rest, found := bytes.Cut(line, []byte(`,"`+member+`":`))
	if !found {
		return nil, r.fault(place, "", notWritten, nil)
	}
	line[len(object)] = '}'
	object = line[:len(object)+1]
	if err := json.Unmarshal(object, record); err != nil {
		return nil, r.undecoded(place, err)
	}
	if again, err := encode(record); err != nil || !bytes.Equal(again, object) {
		return nil, r.fault(place, "", notWritten, nil)
	}
	return rest, nil
}

// undecoded returns the error of a record that cannot be decoded. The decoder's contains what it has read.
func (r *Reader) undecoded(place string, err error) error {
	if errors.Is(err, repo.ErrInvalid) { // of an id
		return r.refused(place, err)
	}
	field := ""
	if typed, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field = typed.Field
	}
	return r.fault(place, field, notWritten, nil)
}

// decodeRecord is decode for a record whose last member is a JSON text. It returns the text.
func (r *Reader) decodeRecord(place string, line []byte, record any, member string) ([]byte, error) {
	rest, err := r.decode(place, line, record, member)
	if err != nil {
		return nil, err
	}
	rest, closed := bytes.CutSuffix(rest, []byte("}"))
	raw, ok := asGiven(rest)
	if !closed || !ok {
		return nil, r.fault(place, member, notWritten, nil)
	}
	return raw, nil
}

// item is decodeRecord for the next line of a list. It returns io.EOF if that line ends the list.
func (r *Reader) item(place string, first bool, end string, record any, member string) ([]byte, error) {
	line, err := r.line(place)
	isEnd := string(line) == end
	switch {
	case err != nil:
		return nil, err
	case !first && isEnd == r.more: // which the record before has said
		return nil, r.fault(place, "", notWritten, nil)
	case isEnd:
		return nil, io.EOF
	}
	line, r.more = bytes.CutSuffix(line, []byte(","))
	return r.decodeRecord(place, line, record, member)
}

// refused returns an error of package rules. Only the last part of its field's path is
// used: "messages[0].content" becomes content.
func (r *Reader) refused(place string, err error) error {
	invalid, ok := errors.AsType[*repo.InvalidError](err)
	if !ok {
		return r.fault(place, "", "is refused", err)
	}
	field := invalid.Field[strings.LastIndexByte(invalid.Field, '.')+1:]
	cause := &repo.InvalidError{Field: field, Reason: invalid.Reason}
	switch field { // members with another name
	case "budget", "cost":
		field += "_nanos"
	}
	return r.fault(place, field, "breaks a rule", cause)
}

func (r *Reader) readHead() error {
	line, err := r.line("")
	if err != nil {
		return err
	}
	version, isHead := bytes.CutPrefix(line, []byte(headBegin))
	if isHead && !bytes.HasPrefix(version, []byte("1,")) {
		return r.fault("schema_version", "", "is not 1, the version that can be read", nil)
	}
	var head headRecord
	switch rest, err := r.decode("", line, &head, "session"); {
	case !isHead || err == nil && len(rest) > 0:
		return r.fault("", "", notWritten+", line by line: a formatted copy cannot be read", nil)
	case errors.Is(err, repo.ErrInvalid): // the head has no other id
		return r.fault("linked_plan_ids", "", "has what is not a UUID", nil)
	case err != nil:
		return err
	case head.History.Base < 0 || head.History.Base > maxBase:
		return r.fault("history", "base", "is not between 0 and 2^62", nil)
	case len(head.LinkedPlanIDs) > maxLinkedPlans:
		return r.fault("linked_plan_ids", "", "has more than "+strconv.Itoa(maxLinkedPlans)+" entries", nil)
	}
	last := repo.ID{}
	for i, id := range head.LinkedPlanIDs {
		if id.Compare(last) <= 0 {
			return r.fault(fmt.Sprintf("linked_plan_ids[%d]", i), "", "is zero, or not greater than the one before", nil)
		}
		last = id
	}
	r.plans, r.history = head.LinkedPlanIDs, head.History
	return nil
}

// readSession checks the session by the rules for a new one, and by the invariants
// that a store maintains later.
func (r *Reader) readSession() error {
	const place = "session"
	line, err := r.line(place)
	if err != nil {
		return err
	}
	var s sessionRecord
	line, ok := bytes.CutSuffix(line, []byte(messagesBegin))
	if !ok {
		return r.fault(place, "", notWritten, nil)
	}
	metadata, err := r.decodeRecord(place, line, &s, "metadata")
	switch {
	case err != nil:
		return err
	case s.ID.IsZero():
		return r.fault(place, "id", "is zero", nil)
	case s.Namespace == "":
		return r.fault(place, "namespace", "is empty", nil)
	}
	normal, err := rules.NormalizeSession("", repo.NewSession{
		ID: s.ID, Namespace: s.Namespace, Key: s.Key, Owner: s.Owner, Actor: s.Actor, AutomationProfile: s.AutomationProfile,
		Metadata: metadata, Budget: s.Budget,
	})
	if err != nil {
		return r.refused(place, err)
	}
	if err := rules.CheckUsage(repo.Usage(s.Usage)); err != nil {
		return r.refused(place+".usage", err)
	}
	if s.Budget != nil && s.Usage.Cost > *s.Budget {
		return r.fault(place, "budget_nanos", "is below the cost", nil)
	}
	// UpdatedAt may be before CreatedAt if a clock stepped back.
	r.session = rules.StoredSession(normal, s.CreatedAt.Time, s.UpdatedAt.Time)
	r.session.Usage, r.session.Version = repo.Usage(s.Usage), 1
	return nil
}

func (r *Reader) readNext() (message repo.Message, err error) {
	place := "messages[" + strconv.FormatInt(r.count, 10) + "]"
	var m messageRecord
	metadata, err := r.item(place, r.count == 0, endOfList, &m, "metadata")
	switch {
	case err == io.EOF: //nolint:errorlint // itself: see item
		return message, r.readEnd()
	case err != nil:
		return message, err
	case m.ID.IsZero():
		return message, r.fault(place, "id", "is zero", nil)
	case m.Sequence != r.next && (m.Sequence < r.next || m.Sequence >= r.history.Base):
		return message, r.fault(place, "sequence", fmt.Sprintf("is %d where %d is the next one", m.Sequence, r.next), nil)
	}
	follows, err := r.checkFollows(place, &m)
	if err != nil {
		return message, err
	}
	r.batch[0] = repo.NewMessage{
		ID: m.ID, Role: m.Role, Content: m.Content, Metadata: metadata, Payload: m.Payload,
		Kind: m.Kind, CallID: m.CallID, OccurredAt: m.OccurredAt.Time, Tokens: m.Tokens, Counter: m.Counter,
	}
	if m.Kind == repo.KindRedacted { // which no other message may have
		r.batch[0].Kind = ""
	}
	normal, _, err := rules.NormalizeMessages(r.batch[:])
	if err != nil {
		return message, r.refused(place, err)
	}
	r.count, r.next = r.count+1, m.Sequence+1
	message = rules.StoredMessage(normal[0], r.session.ID, m.Sequence, m.CreatedAt.Time)
	message.Follows, message.Kind = follows, m.Kind
	if m.Kind == repo.KindRedacted && !rules.IsEmptied(message) {
		return message, r.fault(place, "kind", "is reserved for redacted messages, but the message has more", nil)
	}
	return message, nil
}

// checkFollows returns what the message follows: messages below the base are one
// transcript, and the others follow any one before.
func (r *Reader) checkFollows(place string, m *messageRecord) (follows int64, err error) {
	follows = m.Sequence - 1
	if m.Follows != nil {
		follows = *m.Follows
	}
	last := int64(-1)
	if len(r.seen) > 0 {
		last = r.seen[len(r.seen)-1][1]
	}
	switch {
	case m.Follows != nil && (follows < -1 || follows >= m.Sequence-1):
		return 0, r.fault(place, "follows", "is not before the message before", nil)
	case m.Sequence < r.history.Base && follows != last:
		return 0, r.fault(place, "follows", "is not the message before", nil)
	case m.Sequence >= r.history.Base && !r.has(follows):
		return 0, r.fault(place, "follows", "is not a message", nil)
	case m.Sequence >= r.history.Base:
	case len(r.seen) > 0 && last == m.Sequence-1:
		r.seen[len(r.seen)-1][1]++
	default:
		r.seen = append(r.seen, [2]int64{m.Sequence, m.Sequence})
	}
	return follows, nil
}

// has reports whether a sequence is -1, or a message's that was read.
func (r *Reader) has(sequence int64) bool {
	_, isSeen := slices.BinarySearchFunc(r.seen, sequence, func(seen [2]int64, sequence int64) int {
		switch {
		case seen[1] < sequence:
			return -1
		case seen[0] > sequence:
			return 1
		}
		return 0
	})
	return isSeen || sequence == -1 || sequence >= r.history.Base && sequence < r.next
}

// readEnd reads the line that follows the messages. It returns io.EOF if all is well.
func (r *Reader) readEnd() error {
	switch head := r.history.Head; {
	case r.next < r.history.Base:
		return r.fault("messages", "", "end before the base", nil)
	case head != nil && (!r.has(*head) || *head >= r.next-1):
		return r.fault("messages", "", "do not have the head, or end with it", nil)
	}
	line, err := r.line("checksum")
	if err != nil {
		return err
	}
	if state, ok := bytes.CutPrefix(line, []byte(stateBegin)); ok {
		return cmp.Or(r.readState(state), io.EOF)
	}
	r.last = line
	return io.EOF
}

// maxStateVersion returns the largest version of a state. Versions are times in microseconds,
// or one more than the version before. The bound moves with the clock, which no changes
// overtake: so what was imported and changed can be exported and imported again.
func maxStateVersion() int64 { return time.Now().AddDate(100, 0, 0).UnixMicro() }

func (r *Reader) readState(line []byte) error {
	var state stateRecord
	switch rest, err := r.decode("state", line, &state, "values"); {
	case err != nil:
		return err
	case string(rest) != "[":
		return r.fault("state", "values", notWritten, nil)
	case state.Version < 1 || state.Version > maxStateVersion():
		return r.fault("state", "version", "is not between 1 and the time in 100 years, in microseconds", nil)
	}
	r.stateVersion = state.Version
	return nil
}

// readValue checks a key of state by the rules for a change.
func (r *Reader) readValue() (value repo.StateValue, err error) {
	switch {
	case r.err != io.EOF: //nolint:errorlint // itself: see Next
		return value, cmp.Or(r.err, errors.New("export: the messages come first"))
	case r.stateVersion == 0:
		return value, r.readChecksum(r.last)
	}
	place := "state.values[" + strconv.Itoa(r.values) + "]"
	var v valueRecord
	raw, err := r.item(place, r.values == 0, endOfState, &v, "value")
	if err == io.EOF { //nolint:errorlint // itself: see item
		if r.last, err = r.line("checksum"); err == nil {
			err = r.readChecksum(r.last)
		}
	}
	if err != nil {
		return value, err
	}
	if err := cmp.Or(rules.CheckStateKey("key", v.Key), rules.CheckStateValue("value", raw)); err != nil {
		return value, r.refused(place, err)
	}
	switch {
	case v.Key <= r.key:
		return value, r.fault(place, "key", "is not greater than the one before", nil)
	case v.Version < 1 || v.Version > r.stateVersion:
		return value, r.fault(place, "version", "is not between 1 and the state's version", nil)
	}
	r.values, r.key = r.values+1, v.Key
	return repo.StateValue{Key: v.Key, Value: raw, Version: v.Version, UpdatedAt: v.UpdatedAt.Time}, nil
}

// readChecksum compares the last line, and returns io.EOF if nothing follows it.
func (r *Reader) readChecksum(line []byte) error {
	const place = "checksum"
	want := fmt.Appendf(nil, checksumLine, r.checksum.Sum(nil))
	r.cutOff = r.cutOff && len(line) < len(want)
	switch {
	case !bytes.HasPrefix(line, []byte(checksumBegin)):
		return r.fault("", "", notWritten, nil)
	case !bytes.Equal(line, want):
		return r.fault(place, "", "does not match the document, which was changed or damaged", nil)
	}
	_, err := r.source.ReadByte()
	if err == nil {
		return r.fault("", "", "is followed by something else", nil)
	}
	return cmp.Or(r.ended(place, err), io.EOF)
}
