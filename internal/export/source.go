package export

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// source reads the members of a document and their values. Like the scanner's, its
// methods do nothing after the first fault.
type source struct {
	jsonvalue.Scanner
	// field is the path to the fault, relative to the value that is being read.
	field string
	// compact: white space around metadata belongs to the metadata.
	compact bool
	// below: a sequence may leave others out, as long as it is below this one.
	below int64
}

// failAt ends the source with a fault, at a path relative to the value that is
// being read.
func (s *source) failAt(field, reason string, cause error) {
	if s.Fault == nil {
		s.Fail(reason)
		s.Fault.Err, s.field = cause, field
	}
}

// within prefixes a fault's path with the place of the value that was read.
func (s *source) within(place string) {
	switch {
	case s.Fault == nil:
		return
	case s.field != "" && s.field[0] != '[':
		place += "."
	}
	s.field = place + s.field
}

// read reads the value that m describes. Each value has only one spelling in a
// document, so that the checksum over the values read equals that over what was
// written.
func (s *source) read(m *member) {
	switch v := m.value.(type) {
	case *repo.ID:
		*v = s.id()
	case *named:
		if *v = named(s.Text(repo.MaxNameBytes)); *v == "" {
			s.Fail("is empty")
		}
	case *userID:
		if *v = userID(s.Text(limits.MaxUserIDBytes)); *v == "" {
			s.Fail("is empty")
		}
	case *repo.Role:
		*v = role(s.Text(64))
	case *string:
		*v = string(s.Text(repo.MaxContentBytes))
	case *int64:
		*v = s.Integer()
	case *sequence:
		got := s.Integer()
		if got != int64(*v) && (got < int64(*v) || got >= s.below) {
			s.Fail(fmt.Sprintf("is %d where %d is the next one", got, *v))
		}
		*v = sequence(got)
	case *positive:
		if *v = positive(s.Integer()); *v <= 0 {
			s.Fail("is not positive; without a value the member is left out")
		}
	case *follows:
		v.Follows = s.Integer()
	case **int64:
		*v = new(int64)
		**v = s.Integer()
	case **repo.Cost:
		*v = new(repo.Cost)
		**v = repo.Cost(s.Integer())
	case *time.Time:
		*v = s.time()
	case *given:
		if *v = given(s.time()); time.Time(*v).IsZero() {
			s.Fail("is the zero time; without a value the member is left out")
		}
	case *[]byte:
		*v = s.bytes(repo.MaxPayloadBytes)
	case *json.RawMessage:
		*v = s.Object(repo.MaxMetadataBytes, s.compact)
	case *value:
		*v = s.Value(limits.MaxStateValueBytes, s.compact)
	case []member:
		object := s.members(v)
		for i := object.next(); i >= 0; i = object.next() {
			s.read(&v[i])
			s.within(v[i].name)
		}
	}
}

// role avoids allocating a copy of each message's role.
func role(text []byte) repo.Role {
	for _, role := range [...]repo.Role{repo.RoleUser, repo.RoleAssistant, repo.RoleTool, repo.RoleSystem, repo.RoleDeveloper} {
		if string(text) == string(role) {
			return role
		}
	}
	return repo.Role(text)
}

// id reads an ID: lower case, not zero (which would mean "a new one").
func (s *source) id() repo.ID {
	text := string(s.Text(64))
	id, err := repo.ParseID(text)
	switch {
	case err != nil:
		s.Fail("is not a UUID")
	case id.String() != text:
		s.Fail("is not in lower case")
	case id.IsZero():
		s.Fail("is zero")
	}
	return id
}

// time reads a time in timeLayout.
func (s *source) time() time.Time {
	text := s.Text(64)
	// time.Parse accepts more than the layout, such as other fractions.
	if len(text) == len(timeLayout) && text[19] == '.' && text[26] == 'Z' {
		if t, err := time.Parse(time.RFC3339Nano, string(text)); err == nil && t.Year() >= 1 {
			return t
		}
	}
	s.Fail("is not a time written as 2006-01-02T15:04:05.000000Z")
	return time.Time{}
}

// bytes reads standard base64 with padding.
func (s *source) bytes(limit int) []byte {
	text := s.Text(base64.StdEncoding.EncodedLen(limit))
	value := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(value, text)
	// The decoder ignores line breaks.
	if err != nil || base64.StdEncoding.EncodedLen(n) != len(text) {
		s.Fail("is not standard base64")
	}
	return value[:n]
}

// members reads the members of one object, which are in a fixed order.
type members struct {
	*source
	list []member
	at   int // the first one that may come next
}

func (s *source) members(list []member) members {
	s.Expect('{', "is not an object")
	return members{source: s, list: list}
}

// next reads up to the value of the next member and returns the member's index in
// the list, or -1 after the closing brace.
func (m *members) next() int {
	if !m.Next('}', m.at == 0) {
		m.skip(len(m.list))
		return -1
	}
	if m.Peek() != '"' {
		m.Fail(jsonvalue.Invalid)
		return -1
	}
	i := m.name()
	m.skip(i)
	m.at = i + 1
	if m.Colon(); m.Fault != nil {
		return -1
	}
	return i
}

// name reads a member's name and returns its index. No error contains the name: it
// may be anything.
func (m *members) name() int {
	const longest = 64
	text := m.Text(longest)
	if m.Fault != nil && m.Fault.Err == nil {
		m.Fault.Reason = "has an unknown member"
	}
	for i := range m.list {
		if string(text) != m.list[i].name {
			continue
		}
		if i < m.at {
			m.failAt(m.list[i].name, "appears twice or out of order", nil)
		}
		return i
	}
	m.Fail("has an unknown member")
	return 0
}

// skip skips optional members up to the one at i.
func (m *members) skip(i int) {
	for ; m.at < i; m.at++ {
		if missing := &m.list[m.at]; !missing.optional {
			m.failAt(missing.name, "is missing or out of order", nil)
		}
	}
}

// refuse ends the source with an error of package rules. Only the last part of its
// field's path is used: "messages[0].content" becomes content.
func (s *source) refuse(err error) {
	var invalid *repo.InvalidError
	if !errors.As(err, &invalid) {
		s.failAt("", "is refused", err)
		return
	}
	field := invalid.Field[strings.LastIndexByte(invalid.Field, '.')+1:]
	cause := &repo.InvalidError{Field: field, Reason: invalid.Reason}
	switch field { // members with another name
	case "budget", "cost":
		field += "_nanos"
	}
	s.failAt(field, "breaks a rule", cause)
}
