package repo

import (
	"encoding/json"
	"time"
)

// Role is the author of a message.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleTool      Role = "tool"
)

// KindSummary is of a message that stands for others: see package window.
const KindSummary = "summary"

// KindReasoning is of what the assistant thinks before it does something: see package window.
const KindReasoning = "reasoning"

// KindRedacted is of a message that Sessions.Redact has emptied, or an erasure, and of one that tells of that: its
// metadata has the "sequences". Only the store makes them.
const KindRedacted = "redacted"

// Message is one message of a session. It never changes once it is stored, but for Sessions.Redact.
type Message struct {
	SessionID, ID ID
	Sequence      int64 // the message's number in the session: the first has 0
	// Follows is the sequence of the message that it follows: the one before, but after Turn.After. -1: none.
	Follows    int64
	Role       Role
	Content    string
	Metadata   json.RawMessage // an object, stored byte for byte, "{}" if none
	Payload    []byte          // nil: none was given, which differs from empty
	Kind       string          // what it is beyond its role, such as "tool_call"; empty: none
	CallID     string          // joins a call and its result; empty: none
	Tokens     int64           // how many it was counted to have; zero: it was not counted
	Counter    string          // what counted them
	OccurredAt time.Time       // the caller's; zero: none was given
	CreatedAt  time.Time       // by the database's clock
}

// NewMessage describes a message to append.
type NewMessage struct {
	ID   ID // the idempotency key: see Sessions.Append; zero: a new one
	Role Role
	// Content is valid UTF-8 without NUL, of at most MaxContentBytes; empty only with Payload, Metadata, Kind or CallID.
	Content  string
	Metadata json.RawMessage // an object of at most MaxMetadataBytes; nil: "{}"
	Payload  []byte          // at most MaxPayloadBytes; optional
	Kind     string          // at most MaxNameBytes; optional
	CallID   string          // at most 1,024 bytes; optional: see Sessions.MessagesOfCall
	// Tokens were counted by Counter, of at most MaxNameBytes. Zero: Options.CountTokens counts, if set. A repetition may
	// differ.
	Tokens     int64
	Counter    string
	OccurredAt time.Time // in the years 1 to 9999; optional, and does not affect the order
}
