package repo

import (
	"encoding/json"
	"time"
)

// Session is one conversation.
type Session struct {
	ID ID
	// Namespace groups sessions for listing.
	Namespace string
	// Actor names who converses, such as "openai/gpt". Empty: none.
	Actor string
	// AutomationProfile names the profile the session runs under. Empty: none.
	AutomationProfile string
	// Metadata is a JSON object, byte for byte as it was given, "{}" if none.
	Metadata json.RawMessage
	// Usage is what the session has consumed so far.
	Usage Usage
	// Budget bounds Usage.Cost. Nil: no bound.
	Budget *Cost
	// MessageCount is the number of messages, and the sequence that the next
	// one gets.
	MessageCount int64
	// Plans are those that the session is linked to, by id, each as it is now.
	Plans []LinkedPlan
	// CreatedAt and UpdatedAt are the database's clock. An append, an update
	// and added usage move UpdatedAt.
	CreatedAt, UpdatedAt time.Time
}

// NewSession describes a session to create. The zero value is a valid one.
type NewSession struct {
	// ID makes the creation repeatable: see SessionWriter.Create. Zero: a new
	// one.
	ID ID
	// Namespace: empty means DefaultNamespace. At most MaxNameBytes.
	Namespace string
	// Actor and AutomationProfile are optional, at most MaxNameBytes each.
	Actor, AutomationProfile string
	// Metadata is a JSON object of at most MaxMetadataBytes. Nil: "{}".
	Metadata json.RawMessage
	// Budget bounds the cost. Nil: no bound.
	Budget *Cost
}

// SessionUpdate says what to change. A nil field stays as it is. Identity (id,
// namespace, created_at) cannot be changed.
type SessionUpdate struct {
	// Actor and AutomationProfile: a pointer to "" removes the name.
	Actor, AutomationProfile *string
	// Metadata replaces the whole object.
	Metadata json.RawMessage
	// Budget sets the bound, which may not be below the cost so far.
	Budget *Cost
	// RemoveBudget removes the bound. It may not be set together with Budget.
	RemoveBudget bool
}

// Usage counts what a session consumed.
type Usage struct {
	InputTokens, OutputTokens int64
	Cost                      Cost
}

// NewUsage is what to add to a session's usage. No amount may be negative.
type NewUsage struct {
	// ID is the usage's idempotency key, unique in its session: see
	// SessionWriter.AddUsage. Zero: a new one.
	ID                        ID
	InputTokens, OutputTokens int64
	Cost                      Cost
}

// SessionFilter selects the sessions of a list.
type SessionFilter struct {
	// Namespace: empty means DefaultNamespace.
	Namespace string
	// Actor: empty means any.
	Actor string
	// CreatedFrom (inclusive) and CreatedBefore (exclusive) bound CreatedAt.
	// Zero: no bound.
	CreatedFrom, CreatedBefore time.Time
}

// SessionPage is one page of a list, newest session first.
type SessionPage struct {
	Sessions []Session
	// Next continues the list. Empty: this was the last page.
	Next Cursor
}

// DeletedSession says what else a deletion has changed.
type DeletedSession struct {
	// Messages is the number of messages deleted.
	Messages int64
	// Plans is the number of plans that lost the session. They stay.
	Plans int64
}
