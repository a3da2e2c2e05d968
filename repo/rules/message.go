package rules

import (
	"bytes"
	"cmp"
	"time"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/repo"
)

// NormalizeMessages checks a batch and returns it as it is stored: with ids,
// metadata, and times in microseconds. repeatable reports whether the caller gave
// an id, so that some of the messages may be stored already. messages itself is not
// changed.
func NormalizeMessages(messages []repo.NewMessage) (normal []repo.NewMessage, repeatable bool, err error) {
	if len(messages) == 0 {
		return nil, false, invalid("messages", "is empty")
	}
	if err := checkEntries("messages", len(messages), repo.MaxBatchMessages); err != nil {
		return nil, false, err
	}
	normal = make([]repo.NewMessage, len(messages))
	size := 0
	for i, message := range messages {
		repeatable = repeatable || !message.ID.IsZero()
		if err := normalizeMessage(&message); err != nil {
			return nil, false, within(at("messages", i)+".", err)
		}
		if size += MessageBytes(&message); size > repo.MaxBatchBytes {
			return nil, false, invalid("messages", "hold more than %d bytes together", repo.MaxBatchBytes)
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
		invalidIf(m.Content == "" && len(m.Payload) == 0 && !hasMember(m.Metadata), "content", "is empty"),
		checkNames(name{"kind", m.Kind}),
		checkText("call_id", m.CallID, repo.MaxUserIDBytes),
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

// hasMember reports whether a valid JSON object has a member, whose name is in quotes.
// One without may have white space: "{ }".
func hasMember(object []byte) bool { return bytes.IndexByte(object, '"') >= 0 }

// CheckCallID checks the call id of which a caller wants the messages.
func CheckCallID(callID string) error {
	return cmp.Or(
		invalidIf(callID == "", "call_id", "is empty"),
		checkText("call_id", callID, repo.MaxUserIDBytes),
	)
}

// MessageConflict returns an error that says how the stored message differs from
// the one that appending the normalized m would store, or nil.
func MessageConflict(m repo.NewMessage, stored repo.Message) error {
	return conflict(func(field string) error {
		return &repo.MessageConflictError{SessionID: stored.SessionID, ID: m.ID, Field: field}
	},
		difference{"role", m.Role != stored.Role},
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
		return &repo.MessageConflictError{SessionID: sessionID, ID: stored[0].ID, Field: "batch"}
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
		SessionID:  sessionID,
		ID:         m.ID,
		Sequence:   sequence,
		Role:       m.Role,
		Content:    m.Content,
		Metadata:   m.Metadata,
		Payload:    m.Payload,
		Kind:       m.Kind,
		CallID:     m.CallID,
		OccurredAt: m.OccurredAt,
		CreatedAt:  createdAt,
	}
}
