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
	RoleDeveloper Role = "developer"
	RoleTool      Role = "tool"
)

// Message is one message of a session. It never changes once it is stored.
type Message struct {
	SessionID ID
	ID        ID
	// Sequence is the message's number in the session: the first has 0.
	Sequence int64
	Role     Role
	Content  string
	// Metadata is a JSON object, stored byte for byte, "{}" if none.
	Metadata json.RawMessage
	// Payload is any bytes. Nil: none was given, which differs from empty.
	Payload []byte
	// Kind says what the message is beyond its role, such as "tool_call" or
	// "summary". Empty: none.
	Kind string
	// CallID joins a call and its result. Empty: none.
	CallID string
	// OccurredAt is the caller's time. Zero: none was given.
	OccurredAt time.Time
	// CreatedAt is set by the database's clock.
	CreatedAt time.Time
}

// NewMessage describes a message to append.
type NewMessage struct {
	// ID is the message's idempotency key: see MessageWriter.Append. Zero: a
	// new one.
	ID   ID
	Role Role
	// Content is valid UTF-8 without NUL, and has at most MaxContentBytes. It may be
	// empty only if Payload has a byte or Metadata has a member: the message of an
	// assistant that only calls tools has no content.
	Content string
	// Metadata is a JSON object of at most MaxMetadataBytes. Nil: "{}".
	Metadata json.RawMessage
	// Payload is optional, any bytes, at most MaxPayloadBytes.
	Payload []byte
	// Kind is optional, at most MaxNameBytes.
	Kind string
	// CallID is optional, at most MaxUserIDBytes. MessageReader.MessagesOfCall finds
	// the messages with the same one.
	CallID string
	// OccurredAt is optional, between the years 1 and 9999. It does not affect the
	// order.
	OccurredAt time.Time
}
