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
	// Key is the caller's own name of the session. Empty: none. See SessionKey.
	Key string
	// Owner names the user whose session it is. Empty: none.
	Owner string
	// Actor names the agent, such as "openai/gpt". Empty: none.
	Actor string
	// AutomationProfile names the profile the session runs under. Empty: none.
	AutomationProfile string
	// Metadata is a JSON object, stored byte for byte, "{}" if none.
	Metadata json.RawMessage
	// Usage is the session's consumption so far.
	Usage Usage
	// Budget bounds Usage.Cost. Nil: no bound.
	Budget *Cost
	// FencedOnly: appends and turns without a token of the session's lease are refused.
	// See Turn.Fence.
	FencedOnly bool
	// MessageCount is the number of messages, which is also the next sequence.
	MessageCount int64
	// Version is 1 when the session is created or imported, and grows by one with
	// every Update.
	Version int64
	// Plans are the plans that the session is linked to, ordered by id.
	Plans []LinkedPlan
	// CreatedAt and UpdatedAt are set by the database's clock. UpdatedAt is the time
	// of the conversation's last change: an append sets it. Update, AddUsage and links
	// to plans do not.
	CreatedAt, UpdatedAt time.Time
}

// NewSession describes a session to create. The zero value is a valid one.
type NewSession struct {
	// ID is the creation's idempotency key: see SessionWriter.Create. Zero: a new
	// one. An id is never given twice: not that of a session that was deleted.
	ID ID
	// Namespace: empty means DefaultNamespace. At most MaxNameBytes.
	Namespace string
	// Key is optional, at most MaxKeyBytes, unique in the namespace. It never changes.
	Key string
	// Owner is optional, at most MaxUserIDBytes. It never changes.
	Owner string
	// Existing says which existing session SessionWriter.Create accepts instead.
	// Empty: ExistingSame.
	Existing Existing
	// Actor and AutomationProfile are optional, at most MaxNameBytes each.
	Actor, AutomationProfile string
	// Metadata is a JSON object of at most MaxMetadataBytes. Nil: "{}".
	Metadata json.RawMessage
	// Budget bounds the cost. Nil: no bound.
	Budget *Cost
	// FencedOnly: see Session.FencedOnly.
	FencedOnly bool
}

// Existing says what a creation does if a session with its id, or with its key,
// exists.
type Existing string

// The modes of creation.
const (
	// ExistingSame accepts the session if it is the same in every field of NewSession.
	ExistingSame Existing = "same"
	// ExistingNone accepts no session: the created one is new. A creation that ended
	// with ErrUnknownOutcome cannot be repeated in this mode: if it was written, the
	// repetition is refused.
	ExistingNone Existing = "none"
	// ExistingAny accepts whatever session is there, if it has the key: one with the key
	// rather than one with the id.
	ExistingAny Existing = "any"
)

// CreatedSession is the result of a creation.
type CreatedSession struct {
	Session
	// Existed reports that the session existed, and was not changed. If the answer to
	// a creation with an ID of the caller's is lost, the store repeats it, and then it cannot
	// know whether the session that it finds is its own: Existed is true.
	Existed bool
}

// ImportOptions are those of SessionExporter.Import.
type ImportOptions struct {
	// Restore imports also a session whose id was deleted: it is that session again, for
	// all who know its id. Otherwise that is refused.
	Restore bool
}

// SessionUpdate says what to change. A nil field is not changed. A session's id,
// namespace, key, owner and creation time cannot be changed.
type SessionUpdate struct {
	// Actor and AutomationProfile: a pointer to "" removes the name.
	Actor, AutomationProfile *string
	// Metadata replaces the whole object.
	Metadata json.RawMessage
	// MetadataPatch changes members of the object, and keeps the others: it is a JSON
	// merge patch (RFC 7396), so null removes a member, and an object is merged with
	// the stored one. What it does not name keeps its text and its place byte for
	// byte; new members come last. The result may have at most MaxMetadataBytes.
	// Concurrent patches are applied one after the other: none is lost. It may not be
	// set together with Metadata.
	MetadataPatch json.RawMessage
	// Budget sets the bound, which may not be below the cost so far.
	Budget *Cost
	// RemoveBudget removes the bound. It may not be set together with Budget.
	RemoveBudget bool
	// FencedOnly says whether appends and turns need a token: see Session.FencedOnly.
	FencedOnly *bool
	// IfVersion is the version that the session must have. Otherwise nothing is
	// changed: SessionVersionError. Nil: any.
	IfVersion *int64
}

// Usage is the consumption of a session.
type Usage struct {
	InputTokens, OutputTokens int64
	Cost                      Cost
}

// NewUsage describes usage to add to a session. No amount may be negative.
type NewUsage struct {
	// ID is the usage's idempotency key, unique in its session: see
	// SessionWriter.AddUsage. Zero: a new one.
	ID                        ID
	InputTokens, OutputTokens int64
	Cost                      Cost
}

// SessionFilter selects the sessions of a list, and their order.
type SessionFilter struct {
	// Namespace: empty means DefaultNamespace.
	Namespace string
	// Owner and Actor: empty means any.
	Owner, Actor string
	// CreatedFrom (inclusive) and CreatedBefore (exclusive) bound CreatedAt.
	// Zero: no bound.
	CreatedFrom, CreatedBefore time.Time
	// Order: see SessionReader.List. With ByActivity, Actor, CreatedFrom and
	// CreatedBefore must be zero.
	Order SessionOrder
}

// SessionOrder is the order of a list of sessions.
type SessionOrder int

const (
	// ByCreation lists the newest session first.
	ByCreation SessionOrder = iota
	// ByActivity lists the session that was last active first, to the minute.
	ByActivity
)

// SessionPage is one page of a list, in its order.
type SessionPage struct {
	Sessions []Session
	// Next continues the list. Empty: this was the last page.
	Next Cursor
}

// DeletedSession is the result of deleting a session.
type DeletedSession struct {
	// Messages is the number of messages deleted.
	Messages int64
	// Plans is the number of plans that were linked to the session. They are kept.
	Plans int64
	// StateKeys is the number of keys of the session's own state, deleted with it.
	StateKeys int64
}
