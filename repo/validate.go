package repo

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/internal/cursor"
	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
)

// emptyObject is what metadata that was not given is stored and read as.
const emptyObject = "{}"

// Everything that is normalized is a copy: it shares no memory with what the caller
// gave, who may use that again as soon as the call has returned, also where the
// store goes on.

// Normalize checks the session and returns it as it is stored: with an id, a
// namespace and metadata. It shares no memory with s. Implementations of Sessions
// call it before anything is sent.
func (s NewSession) Normalize() (NewSession, error) {
	if s.ID.IsZero() {
		s.ID = NewID()
	}
	if s.Namespace == "" {
		s.Namespace = DefaultNamespace
	}
	if err := checkName("namespace", s.Namespace); err != nil {
		return NewSession{}, err
	}
	if err := checkName("actor", s.Actor); err != nil {
		return NewSession{}, err
	}
	if err := checkName("automation_profile", s.AutomationProfile); err != nil {
		return NewSession{}, err
	}
	var err error
	if s.Metadata, err = normalizeMetadata("metadata", s.Metadata); err != nil {
		return NewSession{}, err
	}
	if err := checkBudget(s.Budget); err != nil {
		return NewSession{}, err
	}
	s.Budget = clonePointer(s.Budget)
	return s, nil
}

// Conflict reports how the stored session differs from s, which is normalized:
// nil if it is the one that s would create.
func (s NewSession) Conflict(stored Session) error {
	differs := func(field string) error { return &SessionConflict{ID: s.ID, Field: field} }
	switch {
	case s.Namespace != stored.Namespace:
		return differs("namespace")
	case s.Actor != stored.Actor:
		return differs("actor")
	case s.AutomationProfile != stored.AutomationProfile:
		return differs("automation_profile")
	case !jsonvalue.Equal(s.Metadata, stored.Metadata):
		return differs("metadata")
	case (s.Budget == nil) != (stored.Budget == nil), s.Budget != nil && *s.Budget != *stored.Budget:
		return differs("budget")
	}
	return nil
}

// Validate checks the update.
func (u SessionUpdate) Validate() error {
	for _, name := range []struct {
		field string
		value *string
	}{{"actor", u.Actor}, {"automation_profile", u.AutomationProfile}} {
		if name.value == nil {
			continue
		}
		if err := checkName(name.field, *name.value); err != nil {
			return err
		}
	}
	if u.Metadata != nil {
		if _, err := normalizeMetadata("metadata", u.Metadata); err != nil {
			return err
		}
	}
	if u.Budget != nil && u.RemoveBudget {
		return invalid("budget", "is set and removed in one update")
	}
	return checkBudget(u.Budget)
}

// Validate checks that nothing in u is negative.
func (u Usage) Validate() error {
	switch {
	case u.InputTokens < 0:
		return invalid("input_tokens", "is negative")
	case u.OutputTokens < 0:
		return invalid("output_tokens", "is negative")
	case u.Cost < 0:
		return invalid("cost", "is negative")
	}
	return nil
}

// Normalize checks the usage and returns it as it is stored: with an id.
func (u NewUsage) Normalize() (NewUsage, error) {
	if u.ID.IsZero() {
		u.ID = NewID()
	}
	return u, u.amounts().Validate()
}

func (u NewUsage) amounts() Usage {
	return Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, Cost: u.Cost}
}

// Conflict reports how what is stored under the usage's id differs from it: nil
// if it is the same.
func (u NewUsage) Conflict(sessionID ID, stored Usage) error {
	differs := func(field string) error { return &UsageConflict{SessionID: sessionID, ID: u.ID, Field: field} }
	switch {
	case u.InputTokens != stored.InputTokens:
		return differs("input_tokens")
	case u.OutputTokens != stored.OutputTokens:
		return differs("output_tokens")
	case u.Cost != stored.Cost:
		return differs("cost")
	}
	return nil
}

// NormalizeMessages checks a batch and returns it as it is stored: with ids,
// metadata and times of microseconds. repeatable reports whether the caller
// gave an id, so that some messages may be stored already. messages itself is
// left alone, and shares no memory with normal.
func NormalizeMessages(messages []NewMessage) (normal []NewMessage, repeatable bool, err error) {
	if len(messages) == 0 {
		return nil, false, invalid("messages", "is empty")
	}
	if len(messages) > MaxBatchMessages {
		return nil, false, invalid("messages", "has %d entries, more than %d", len(messages), MaxBatchMessages)
	}
	normal = make([]NewMessage, len(messages))
	size := 0
	for i, message := range messages {
		given := !message.ID.IsZero()
		message, err := message.normalize()
		if err != nil {
			err.Field = "messages[" + strconv.Itoa(i) + "]." + err.Field
			return nil, false, err
		}
		repeatable = repeatable || given
		if size += len(message.Content) + len(message.Metadata) + len(message.Payload); size > MaxBatchBytes {
			return nil, false, invalid("messages", "hold more than %d bytes together", MaxBatchBytes)
		}
		normal[i] = message
	}
	if repeatable && len(normal) > 1 {
		seen := make(map[ID]struct{}, len(normal))
		for i, message := range normal {
			if _, twice := seen[message.ID]; twice {
				return nil, false, invalid("messages["+strconv.Itoa(i)+"].id", "is in the batch twice")
			}
			seen[message.ID] = struct{}{}
		}
	}
	return normal, repeatable, nil
}

func (m NewMessage) normalize() (NewMessage, *InvalidError) {
	if m.ID.IsZero() {
		m.ID = NewID()
	}
	if !m.Role.Valid() {
		return m, invalid("role", "is not user, assistant, system or tool")
	}
	if m.Content == "" {
		return m, invalid("content", "is empty")
	}
	if err := checkText("content", m.Content, MaxContentBytes); err != nil {
		return m, err
	}
	var err *InvalidError
	if m.Metadata, err = normalizeObject("metadata", m.Metadata); err != nil {
		return m, err
	}
	if len(m.Payload) > MaxPayloadBytes {
		return m, invalid("payload", "has %d bytes, more than %d", len(m.Payload), MaxPayloadBytes)
	}
	m.Payload = bytes.Clone(m.Payload)
	if m.OccurredAt, err = normalizeTime("occurred_at", m.OccurredAt); err != nil {
		return m, err
	}
	return m, nil
}

// Conflict reports how the stored message differs from m, which is normalized:
// nil if it is the one that appending m would store.
func (m NewMessage) Conflict(stored Message) error {
	differs := func(field string) error {
		return &MessageConflict{SessionID: stored.SessionID, ID: m.ID, Field: field}
	}
	switch {
	case m.Role != stored.Role:
		return differs("role")
	case m.Content != stored.Content:
		return differs("content")
	case !jsonvalue.Equal(m.Metadata, stored.Metadata):
		return differs("metadata")
	case (m.Payload == nil) != (stored.Payload == nil), string(m.Payload) != string(stored.Payload):
		return differs("payload")
	case !m.OccurredAt.Equal(stored.OccurredAt):
		return differs("occurred_at")
	}
	return nil
}

// Stored is the message that m, which is normalized, becomes.
func (m NewMessage) Stored(sessionID ID, sequence int64, createdAt time.Time) Message {
	return Message{
		SessionID:  sessionID,
		ID:         m.ID,
		Sequence:   sequence,
		Role:       m.Role,
		Content:    m.Content,
		Metadata:   m.Metadata,
		Payload:    m.Payload,
		OccurredAt: m.OccurredAt,
		CreatedAt:  createdAt,
	}
}

// CheckSequence checks a sequence that a caller gave for field.
func CheckSequence(field string, sequence int64) error {
	if sequence < 0 {
		return invalid(field, "is negative")
	}
	return nil
}

// CheckLimit checks a page's limit and gives zero its meaning.
func CheckLimit(limit int) (int, error) {
	switch {
	case limit == 0:
		return DefaultPageSize, nil
	case limit < 0:
		return 0, invalid("limit", "is negative")
	case limit > MaxPageSize:
		return 0, invalid("limit", "is %d, more than %d", limit, MaxPageSize)
	}
	return limit, nil
}

// Normalize checks the filter and gives the empty namespace its meaning.
func (f SessionFilter) Normalize() (SessionFilter, error) {
	if f.Namespace == "" {
		f.Namespace = DefaultNamespace
	}
	if err := checkName("namespace", f.Namespace); err != nil {
		return f, err
	}
	if err := checkName("actor", f.Actor); err != nil {
		return f, err
	}
	for _, bound := range []struct {
		field string
		value *time.Time
	}{{"created_from", &f.CreatedFrom}, {"created_before", &f.CreatedBefore}} {
		normal, err := normalizeTime(bound.field, *bound.value)
		if err != nil {
			return f, err
		}
		*bound.value = normal
	}
	return f, nil
}

// cursorFilter is what tells this list's cursors from others'.
func (f SessionFilter) cursorFilter() []string {
	return []string{"sessions", f.Namespace, f.Actor, f.CreatedFrom.String(), f.CreatedBefore.String()}
}

// CursorAfter is the cursor of a page of this list, normalized, that ended with
// last.
func (f SessionFilter) CursorAfter(last Session) Cursor {
	return Cursor(cursor.Encode(cursor.Place{CreatedAt: last.CreatedAt, ID: last.ID}, f.cursorFilter()...))
}

// Place reads a cursor of this list, normalized. An empty cursor is the place
// before the newest session.
func (f SessionFilter) Place(after Cursor) (time.Time, ID, error) {
	if after == "" {
		return endOfTime, ID{}, nil
	}
	place, err := cursor.Decode(string(after), f.cursorFilter()...)
	if err != nil {
		return time.Time{}, ID{}, invalid("page.after", "%s", err)
	}
	return place.CreatedAt, place.ID, nil
}

// endOfTime is after every time that can be stored.
var endOfTime = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

func checkName(field, value string) error {
	if err := checkText(field, value, MaxNameBytes); err != nil {
		return err
	}
	return nil
}

func checkText(field, value string, maxBytes int) *InvalidError {
	switch {
	case len(value) > maxBytes:
		return invalid(field, "has %d bytes, more than %d", len(value), maxBytes)
	case !utf8.ValidString(value):
		return invalid(field, "is not valid UTF-8")
	case strings.IndexByte(value, 0) >= 0:
		return invalid(field, "holds a NUL character, which PostgreSQL cannot hold")
	}
	return nil
}

func normalizeMetadata(field string, raw json.RawMessage) (json.RawMessage, error) {
	normal, err := normalizeObject(field, raw)
	if err != nil {
		return nil, err
	}
	return normal, nil
}

func normalizeObject(field string, raw json.RawMessage) (json.RawMessage, *InvalidError) {
	if raw == nil {
		return json.RawMessage(emptyObject), nil
	}
	if len(raw) > MaxMetadataBytes {
		return nil, invalid(field, "has %d bytes, more than %d", len(raw), MaxMetadataBytes)
	}
	if err := jsonvalue.CheckObject(raw, MaxJSONDepth); err != nil {
		return nil, invalid(field, "%s", err)
	}
	return bytes.Clone(raw), nil
}

func clonePointer[V any](p *V) *V {
	if p == nil {
		return nil
	}
	value := *p
	return &value
}

func checkBudget(budget *Cost) error {
	if budget != nil && *budget < 0 {
		return invalid("budget", "is negative")
	}
	return nil
}

// normalizeTime brings a caller's time to the database's precision and zone.
// The years are those that RFC 3339 can write.
func normalizeTime(field string, t time.Time) (time.Time, *InvalidError) {
	if t.IsZero() {
		return time.Time{}, nil
	}
	t = t.UTC().Truncate(1000)
	if year := t.Year(); year < 1 || year > 9999 {
		return time.Time{}, invalid(field, "is not between the years 1 and 9999")
	}
	return t, nil
}
