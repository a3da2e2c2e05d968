package rules

import (
	"bytes"
	"cmp"
	"math"
	"time"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeMessages checks a batch and returns it as it is stored: with ids,
// metadata, and times in microseconds. repeatable reports whether the caller gave
// an id, so that some of the messages may be stored already. messages itself is not
// changed.
func NormalizeMessages(messages []repo.NewMessage) (normal []repo.NewMessage, repeatable bool, err error) {
	if err := checkBatch("messages", len(messages)); err != nil {
		return nil, false, err
	}
	normal = make([]repo.NewMessage, len(messages))
	size := 0
	for i, message := range messages {
		repeatable = repeatable || !message.ID.IsZero()
		if err := normalizeMessage(&message); err != nil {
			return nil, false, within(at("messages", i)+".", err)
		}
		if size += MessageBytes(&message); size > limits.MaxBatchBytes {
			return nil, false, invalid("messages", "hold more than %d bytes together", limits.MaxBatchBytes)
		}
		normal[i] = message
	}
	if repeatable && len(normal) > 1 {
		seen := make(map[repo.ID]struct{}, len(normal))
		for i, message := range normal {
			if _, twice := seen[message.ID]; twice {
				return nil, false, invalid(at("messages", i)+".id", "is in the batch twice")
			}
			seen[message.ID] = struct{}{}
		}
	}
	return normal, repeatable, nil
}

// MessageBytes returns how many bytes of the caller's the message holds.
func MessageBytes(m *repo.NewMessage) int {
	return len(m.Content) + len(m.Metadata) + len(m.Payload) + len(m.Kind) + len(m.CallID)
}

// isBlank reports whether a message says nothing: tools and models return empty texts, whose
// kind or call says what they are.
func isBlank(m *repo.NewMessage) bool {
	return m.Content == "" && m.Kind == "" && m.CallID == "" && len(m.Payload) == 0 && !hasMember(m.Metadata)
}

func normalizeMessage(m *repo.NewMessage) error {
	if m.ID.IsZero() {
		m.ID = repo.NewID()
	}
	switch m.Role {
	case repo.RoleUser, repo.RoleAssistant, repo.RoleSystem, repo.RoleDeveloper, repo.RoleTool:
	default:
		return invalid("role", "is not user, assistant, system, developer or tool")
	}
	err := cmp.Or(
		checkText("content", m.Content, repo.MaxContentBytes),
		normalizeObject("metadata", &m.Metadata),
		invalidIf(isBlank(m), "content", "is empty"),
		checkNames(name{"kind", m.Kind}),
		invalidIf(m.Kind == repo.KindRedacted, "kind", "is reserved for redacted messages"),
		checkText("call_id", m.CallID, limits.MaxUserIDBytes),
		invalidIf(m.Tokens < 0 || m.Tokens > math.MaxInt32, "tokens", "is negative, or above 2^31-1"),
		checkNames(name{"counter", m.Counter}),
		invalidIf(m.Tokens == 0 && m.Counter != "", "counter", "is set, but tokens is not"),
	)
	if err != nil {
		return err
	}
	if len(m.Payload) > repo.MaxPayloadBytes {
		return invalid("payload", "has %d bytes, more than %d", len(m.Payload), repo.MaxPayloadBytes)
	}
	m.Payload = bytes.Clone(m.Payload)
	return normalizeTime("occurred_at", &m.OccurredAt)
}

// TokenCounter counts the tokens of messages that their caller has not counted. Its zero value counts none.
type TokenCounter struct {
	Name  string
	Count func(repo.NewMessage) int64
}

// Check checks a counter, as two options of the caller's.
func (c TokenCounter) Check() error {
	return cmp.Or(
		checkText("options.TokenCounter", c.Name, repo.MaxNameBytes),
		invalidIf(c.Name != "" && c.Count == nil, "options.TokenCounter", "is set, but CountTokens is not"),
	)
}

// Add sets the tokens of checked messages.
func (c TokenCounter) Add(messages []repo.NewMessage) {
	for i := range messages {
		if m := &messages[i]; c.Count != nil && m.Tokens == 0 {
			if m.Tokens = min(max(c.Count(*m), 0), math.MaxInt32); m.Tokens > 0 {
				m.Counter = c.Name
			}
		}
	}
}

// hasMember reports whether a valid JSON object has a member, whose name is in quotes.
// One without may have white space: "{ }".
func hasMember(object []byte) bool { return bytes.IndexByte(object, '"') >= 0 }

// CheckCallID checks the call id of which a caller wants the messages.
func CheckCallID(callID string) error {
	return cmp.Or(invalidIf(callID == "", "call_id", "is empty"), checkText("call_id", callID, limits.MaxUserIDBytes))
}

// MessageConflict returns an error that says how the stored message differs from the one that appending the normalized
// m would store, or nil. It does not compare the tokens: a caller that appends a message again may count otherwise.
// Of what is redacted it knows only the role.
func MessageConflict(m repo.NewMessage, stored repo.Message) error {
	exists, role := repo.ExistsError{Kind: "message", SessionID: stored.SessionID, ID: m.ID}, m.Role != stored.Role
	if stored.Kind == repo.KindRedacted {
		return conflict(exists, difference{"role", role})
	}
	return conflict(exists, difference{"role", role},
		difference{"content", m.Content != stored.Content},
		difference{"metadata", !jsonvalue.Equal(m.Metadata, stored.Metadata)},
		difference{"payload", (m.Payload == nil) != (stored.Payload == nil) || !bytes.Equal(m.Payload, stored.Payload)},
		difference{"kind", m.Kind != stored.Kind},
		difference{"call_id", m.CallID != stored.CallID},
		difference{"occurred_at", !m.OccurredAt.Equal(stored.OccurredAt)},
	)
}

// AppendConflict returns an error if an append, some of whose messages are stored,
// is not a repetition of the append that stored them: nil if all of them are stored
// and equal. stored are the messages that were found, in the order of messages.
func AppendConflict(sessionID repo.ID, messages []repo.NewMessage, stored []repo.Message) error {
	if len(stored) < len(messages) {
		return &repo.ExistsError{Kind: "message", SessionID: sessionID, ID: stored[0].ID, Field: "batch"}
	}
	for i, message := range messages {
		if err := MessageConflict(message, stored[i]); err != nil {
			return err
		}
	}
	return nil
}

// StoredMessage returns the message that the normalized m becomes.
func StoredMessage(m repo.NewMessage, sessionID repo.ID, sequence int64, createdAt time.Time) repo.Message {
	return repo.Message{
		SessionID: sessionID, ID: m.ID, Sequence: sequence, Follows: sequence - 1, Role: m.Role, Content: m.Content,
		Metadata: m.Metadata, Payload: m.Payload, Kind: m.Kind, CallID: m.CallID, Tokens: m.Tokens, Counter: m.Counter,
		OccurredAt: m.OccurredAt, CreatedAt: createdAt,
	}
}
