package repo

import (
	"encoding/json"
	"time"
)

// Role says who a message is from.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
	RoleTool      Role = "tool"
)

// Valid reports whether r is one of the four roles.
func (r Role) Valid() bool {
	switch r {
	case RoleUser, RoleAssistant, RoleSystem, RoleTool:
		return true
	}
	return false
}

// Message is one message of a session. It never changes once it is stored.
type Message struct {
	SessionID ID
	ID        ID
	// Sequence is the message's place: 0 is the first of the session.
	Sequence int64
	Role     Role
	Content  string
	// Metadata is a JSON object, byte for byte as it was given, "{}" if none.
	Metadata json.RawMessage
	// Payload is any bytes. Nil: none was given, which is not the same as empty.
	Payload []byte
	// OccurredAt is the caller's time. Zero: none was given.
	OccurredAt time.Time
	// CreatedAt is the database's clock.
	CreatedAt time.Time
}

// NewMessage describes a message to append.
type NewMessage struct {
	// ID is the message's idempotency key: see MessageWriter.Append. Zero: a
	// new one.
	ID   ID
	Role Role
	// Content is not empty, valid UTF-8 without NUL, at most MaxContentBytes.
	Content string
	// Metadata is a JSON object of at most MaxMetadataBytes. Nil: "{}".
	Metadata json.RawMessage
	// Payload is optional, any bytes, at most MaxPayloadBytes.
	Payload []byte
	// OccurredAt is optional, between the years 1 and 9999. It has no part in
	// the order.
	OccurredAt time.Time
}
