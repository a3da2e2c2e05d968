package export

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/repo"
)

// member is a member of an object. An optional one is left out if it has its zero
// value.
type member struct {
	name     string
	optional bool
	// value points to where the value is read to and written from: see read and
	// appendTo.
	value any
}

// Types that distinguish values of one Go type.
type (
	named     string          // not empty, at most repo.MaxNameBytes
	userID    string          // not empty, at most limits.MaxUserIDBytes, which is repo.MaxKeyBytes, too
	sequence  int64           // when read, it must have the value that it points to, or be one of source.below
	positive  int64           // not zero
	follows   repo.Message    // Message.Follows, unless that is the message before
	given     time.Time       // not zero
	canonical json.RawMessage // written in canonical form
	value     json.RawMessage // JSON of any type
)

// sessionMembers returns the members of a session in their order.
func sessionMembers(s *repo.Session) []member {
	return []member{
		{name: "id", value: &s.ID},
		{name: "namespace", value: (*named)(&s.Namespace)},
		{name: "key", value: (*userID)(&s.Key), optional: true},
		{name: "owner", value: (*userID)(&s.Owner), optional: true},
		{name: "actor", value: (*named)(&s.Actor), optional: true},
		{name: "automation_profile", value: (*named)(&s.AutomationProfile), optional: true},
		{name: "metadata", value: &s.Metadata},
		{name: "usage", value: []member{
			{name: "input_tokens", value: &s.Usage.InputTokens},
			{name: "output_tokens", value: &s.Usage.OutputTokens},
			{name: "cost_nanos", value: (*int64)(&s.Usage.Cost)},
		}},
		{name: "budget_nanos", value: &s.Budget, optional: true},
		{name: "created_at", value: &s.CreatedAt},
		{name: "updated_at", value: &s.UpdatedAt},
	}
}

// History says of a session whose messages are not one row which branch is its transcript, and where a fork begins.
type History struct {
	// Base is the first sequence of a fork's own: the messages before it are those of the transcript that was forked. 0: it is no fork.
	Base int64
	// Head is what the next message follows. Nil: the one before it.
	Head *int64
}

func (h History) isEmpty() bool { return h.Base == 0 && h.Head == nil }

func historyMembers(h *History) []member {
	return []member{
		{name: "base", value: (*positive)(&h.Base), optional: true},
		{name: "head", value: &h.Head, optional: true},
	}
}

// messageMembers returns the members of a message in their order.
func messageMembers(m *repo.Message) []member {
	return []member{
		{name: "id", value: &m.ID},
		{name: "sequence", value: (*sequence)(&m.Sequence)},
		{name: "follows", value: (*follows)(m), optional: true},
		{name: "role", value: &m.Role},
		{name: "content", value: &m.Content},
		{name: "metadata", value: &m.Metadata},
		{name: "payload", value: &m.Payload, optional: true},
		{name: "kind", value: (*named)(&m.Kind), optional: true},
		{name: "call_id", value: (*userID)(&m.CallID), optional: true},
		{name: "tokens", value: (*positive)(&m.Tokens), optional: true},
		{name: "counter", value: (*named)(&m.Counter), optional: true},
		{name: "occurred_at", value: (*given)(&m.OccurredAt), optional: true},
		{name: "created_at", value: &m.CreatedAt},
	}
}

// stateMembers returns the members of a key of state in their order.
func stateMembers(v *repo.StateValue) []member {
	return []member{
		{name: "key", value: &v.Key},
		{name: "value", value: (*value)(&v.Value)},
		{name: "version", value: &v.Version},
		{name: "updated_at", value: &v.UpdatedAt},
	}
}

// inCanonicalForm returns the members as the checksum has them: sorted by name.
func inCanonicalForm(list []member) []member {
	list = slices.Clone(list)
	for i := range list {
		switch v := list[i].value.(type) {
		case []member:
			list[i].value = inCanonicalForm(v)
		case *json.RawMessage:
			list[i].value = (*canonical)(v)
		case *value:
			list[i].value = (*canonical)(v)
		}
	}
	slices.SortFunc(list, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	return list
}

// absent reports whether an optional member has no value.
func (m *member) absent() bool {
	switch v := m.value.(type) {
	case *named:
		return *v == ""
	case *userID:
		return *v == ""
	case **repo.Cost:
		return *v == nil
	case *[]byte:
		return *v == nil
	case **int64:
		return *v == nil
	case *positive:
		return *v == 0
	case *follows:
		return v.Follows == v.Sequence-1
	case *given:
		return time.Time(*v).IsZero()
	}
	return false
}

func appendMembers(dst []byte, list []member) (_ []byte, err error) {
	next := byte('{')
	for i := range list {
		m := &list[i]
		if m.optional && m.absent() {
			continue
		}
		dst = append(append(append(dst, next, '"'), m.name...), '"', ':')
		if dst, err = m.appendTo(dst); err != nil {
			return dst, fmt.Errorf("%s: %w", m.name, err)
		}
		next = ','
	}
	return append(dst, '}'), nil
}

// appendTo appends the value in its only spelling.
func (m *member) appendTo(dst []byte) ([]byte, error) {
	switch v := m.value.(type) {
	case *repo.ID:
		return appendID(dst, *v), nil
	case *named:
		return jsonvalue.AppendString(dst, string(*v)), nil
	case *userID:
		return jsonvalue.AppendString(dst, string(*v)), nil
	case *repo.Role:
		return jsonvalue.AppendString(dst, string(*v)), nil
	case *string:
		return jsonvalue.AppendString(dst, *v), nil
	case *int64:
		return strconv.AppendInt(dst, *v, 10), nil
	case *sequence:
		return strconv.AppendInt(dst, int64(*v), 10), nil
	case *positive:
		return strconv.AppendInt(dst, int64(*v), 10), nil
	case *follows:
		return strconv.AppendInt(dst, v.Follows, 10), nil
	case **int64:
		return strconv.AppendInt(dst, **v, 10), nil
	case **repo.Cost:
		return strconv.AppendInt(dst, int64(**v), 10), nil
	case *time.Time:
		return appendTime(dst, *v), nil
	case *given:
		return appendTime(dst, time.Time(*v)), nil
	case *[]byte:
		return append(base64.StdEncoding.AppendEncode(append(dst, '"'), *v), '"'), nil
	case *json.RawMessage: // byte for byte: encoding/json would rewrite it
		if len(*v) > 0 {
			return append(dst, *v...), nil
		}
		return append(dst, "{}"...), nil
	case *value:
		return append(dst, *v...), nil
	case *canonical:
		if len(*v) > 0 {
			return jsonvalue.AppendCanonical(dst, *v)
		}
		return append(dst, "{}"...), nil
	case []member:
		return appendMembers(dst, v)
	}
	panic(fmt.Sprintf("export: no form for a %T", m.value))
}

func appendID(dst []byte, id repo.ID) []byte {
	return append(append(append(dst, '"'), id.String()...), '"')
}

// appendIDs appends ids in the form of both the document and the checksum.
func appendIDs(dst []byte, ids []repo.ID) []byte {
	dst = append(dst, '[')
	for i, id := range ids {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendID(dst, id)
	}
	return append(dst, ']')
}

func appendTime(dst []byte, t time.Time) []byte {
	return append(t.UTC().AppendFormat(append(dst, '"'), timeLayout), '"')
}
