package export

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// The objects of a document, without the member that follows theirs: see lines.open.
type (
	headRecord struct { // and "session"
		SchemaVersion int       `json:"schema_version"`
		LinkedPlanIDs []repo.ID `json:"linked_plan_ids,omitempty"`
		History       History   `json:"history,omitzero"`
	}
	sessionRecord struct { // and "metadata"
		ID                repo.ID     `json:"id"`
		Namespace         string      `json:"namespace"`
		Key               string      `json:"key,omitzero"`
		Owner             string      `json:"owner,omitzero"`
		Actor             string      `json:"actor,omitzero"`
		AutomationProfile string      `json:"automation_profile,omitzero"`
		Usage             usageRecord `json:"usage"`
		Budget            *repo.Cost  `json:"budget_nanos,omitzero"`
		CreatedAt         stamp       `json:"created_at"`
		UpdatedAt         stamp       `json:"updated_at"`
	}
	usageRecord struct {
		InputTokens  int64     `json:"input_tokens"`
		OutputTokens int64     `json:"output_tokens"`
		Cost         repo.Cost `json:"cost_nanos"`
	}
	messageRecord struct { // and "metadata"
		ID       repo.ID `json:"id"`
		Sequence int64   `json:"sequence"`
		// Follows is left out if the message follows the one before it.
		Follows    *int64    `json:"follows,omitzero"`
		Role       repo.Role `json:"role"`
		Content    string    `json:"content"`
		Payload    []byte    `json:"payload,omitzero"`
		Kind       string    `json:"kind,omitzero"`
		CallID     string    `json:"call_id,omitzero"`
		Tokens     int64     `json:"tokens,omitzero"`
		Counter    string    `json:"counter,omitzero"`
		OccurredAt stamp     `json:"occurred_at,omitzero"`
		CreatedAt  stamp     `json:"created_at"`
	}
	stateRecord struct { // and "values"
		Version int64 `json:"version"`
	}
	valueRecord struct { // and "value"
		Key       string `json:"key"`
		Version   int64  `json:"version"`
		UpdatedAt stamp  `json:"updated_at"`
	}
)

// The lines that are the same in every document, and how others begin and end.
const (
	headBegin     = `{"schema_version":`
	messagesBegin = `,"messages":[`
	endOfList     = `],`
	stateBegin    = `"state":`
	endOfState    = `]},`
	checksumBegin = `"checksum":`
	checksumLine  = checksumBegin + `"sha256:%x"}`
)

// History says of a session whose messages are not one row which branch is its transcript, and where a fork begins.
type History struct {
	// Base is the first sequence of a fork's own: the messages before it are from the
	// transcript that was forked. 0: it is no fork.
	Base int64 `json:"base,omitzero"`
	// Head is what the next message follows. Nil: the one before it.
	Head *int64 `json:"head,omitzero"`
}

// stamp is a time in RFC 3339, in UTC with microseconds: one text for each time.
type stamp struct{ time.Time }

const stampLayout = `"2006-01-02T15:04:05.000000Z"`

func (s stamp) MarshalJSON() ([]byte, error) {
	t := s.UTC()
	if year := t.Year(); year < 1 || year > 9999 {
		return nil, errors.New("a time is not between the years 1 and 9999")
	}
	return t.AppendFormat(make([]byte, 0, len(stampLayout)), stampLayout), nil
}

// UnmarshalJSON takes more than the layout, such as a comma before the fraction. The reader
// finds that by writing the time again.
func (s *stamp) UnmarshalJSON(text []byte) (err error) {
	if s.Time, err = time.Parse(stampLayout, string(text)); err != nil {
		return &json.UnmarshalTypeError{} // to which the decoder adds the field
	}
	return nil
}

// encode returns the object that a record is.
func encode(record any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(record)
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), err
}

// lines writes lines of a document.
type lines struct {
	out     *bufio.Writer // keeps its first error
	records int           // of the list
}

// open writes a record up to a last member's value.
func (l *lines) open(record any, member string) error {
	object, err := encode(record)
	if err != nil {
		return err
	}
	_, _ = l.out.Write(object[:len(object)-1])
	_, err = l.out.WriteString(`,"` + member + `":`)
	return err
}

// add writes a record of a list, whose last member is a JSON text that is kept as it is.
// Empty, that is an empty object.
func (l *lines) add(record any, member string, raw json.RawMessage) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	if !json.Valid(raw) {
		return fmt.Errorf("%s is not valid JSON", member)
	}
	if l.records++; l.records > 1 {
		_, _ = l.out.WriteString(",\n")
	}
	if err := l.open(record, member); err != nil {
		return err
	}
	_, _ = l.out.Write(onOneLine(raw))
	return l.out.WriteByte('}')
}

// end ends a list.
func (l *lines) end(text string) error {
	if l.records > 0 {
		text = "\n" + text
	}
	l.records = 0
	_, err := l.out.WriteString(text + "\n")
	return err
}

// A line break in a JSON text is white space between two tokens: all others are escaped. On the
// line of its record it is another white space that says which one it was.
var (
	breaks  = strings.NewReplacer("\n", "\r\t", "\r", "\r\r")
	restore = strings.NewReplacer("\r\t", "\n", "\r\r", "\r")
)

func onOneLine(raw []byte) []byte {
	if bytes.ContainsAny(raw, "\r\n") {
		return []byte(breaks.Replace(string(raw)))
	}
	return raw
}

// asGiven undoes onOneLine in a copy of the text. It reports whether that has written it.
func asGiven(line []byte) (raw []byte, ok bool) {
	if bytes.IndexByte(line, '\r') < 0 {
		return bytes.Clone(line), true
	}
	raw = []byte(restore.Replace(string(line)))
	return raw, bytes.Equal(onOneLine(raw), line)
}
