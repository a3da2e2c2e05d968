package repo

import (
	"encoding/json"
	"time"
)

// Session is one conversation.
type Session struct {
	ID                ID
	Namespace         string          // groups sessions for listing
	Key               string          // the caller's own name (see SessionKey); empty: none
	Owner             string          // the user whose session it is; empty: none
	Actor             string          // the agent, such as "openai/gpt"; empty: none
	AutomationProfile string          // the profile it runs under; empty: none
	Metadata          json.RawMessage // an object, stored byte for byte, "{}" if none
	Usage             Usage           // so far
	Budget            *Cost           // bounds Usage.Cost; nil: no bound
	FencedOnly        bool            // appends without a fence of the session's lease are refused
	MessageCount      int64           // the next sequence: how many there are, on all branches
	Version           int64           // 1, and one more with every Update
	Plans             []LinkedPlan    // ordered by id
	// CreatedAt and UpdatedAt are set by the database's clock. UpdatedAt is the time of the last append.
	CreatedAt, UpdatedAt time.Time
	// Existed: the call of Sessions.Create has found it, or, with the caller's ID, has repeated itself for a lost answer.
	Existed bool
}

// NewSession describes a session to create. The zero value is a valid one.
type NewSession struct {
	ID                       ID              // the creation's idempotency key: see Sessions.Create; zero: a new one
	Namespace                string          // at most MaxNameBytes; empty: DefaultNamespace
	Key                      string          // at most MaxKeyBytes, unique in the namespace; optional, never changes
	Owner                    string          // at most 1,024 bytes; optional, never changes
	Existing                 Existing        // which existing session is accepted; empty: ExistingSame
	Actor, AutomationProfile string          // at most MaxNameBytes; optional
	Metadata                 json.RawMessage // an object of at most MaxMetadataBytes; nil: "{}"
	Budget                   *Cost           // bounds the cost; nil: no bound
	FencedOnly               bool            // see Session.FencedOnly
}

// Existing says what a creation does if what has its id or key exists.
type Existing string

// The modes of creation.
const (
	ExistingSame Existing = "same" // accepts the session if it is the same in every field of NewSession
	// ExistingNone accepts none. After ErrUnknownOutcome the repetition of a creation that was written is refused.
	ExistingNone Existing = "none"
	ExistingAny  Existing = "any" // accepts any that has the key, rather than the one with the id
)

// SessionUpdate says what to change. A nil field is not changed.
type SessionUpdate struct {
	Actor, AutomationProfile *string         // a pointer to "" removes the name
	Metadata                 json.RawMessage // replaces the whole object
	// MetadataPatch is a JSON merge patch (RFC 7396) of the object: null removes a member. The rest keeps its text and
	// place. Concurrent patches are all applied. Not together with Metadata.
	MetadataPatch json.RawMessage
	Budget        *Cost  // not below the cost so far
	RemoveBudget  bool   // not together with Budget
	FencedOnly    *bool  // see Session.FencedOnly
	IfVersion     *int64 // the version that the session must have: VersionConflictError
}

// Usage is the consumption of a session.
type Usage struct {
	InputTokens, OutputTokens int64
	Cost                      Cost
}

// NewUsage describes usage to add to a session. No amount may be negative.
type NewUsage struct {
	ID                        ID // the idempotency key, unique in its session: see Sessions.AddUsage; zero: a new one
	InputTokens, OutputTokens int64
	Cost                      Cost
}

// SessionFilter selects the sessions of a list, and their order.
type SessionFilter struct {
	Namespace string // empty: DefaultNamespace
	// Owner selects the sessions of one owner, AnyOwner the sessions of all and of none. One is required: an
	// empty name selects no owner.
	Owner    string
	AnyOwner bool
	Actor    string // empty: any
	// CreatedFrom (inclusive) and CreatedBefore (exclusive) bound CreatedAt. Zero: no bound.
	CreatedFrom, CreatedBefore time.Time
	// ByActivity: the session that was last active comes first. Not with Actor, CreatedFrom and CreatedBefore.
	ByActivity bool
	// IdleSince selects the sessions to which nothing was appended then or later, and which were not imported, about the
	// idlest first. Only with Namespace and AnyOwner.
	IdleSince time.Time
}

// Branch is one of the branches that begin behind the same message.
type Branch struct {
	Sequence int64 // of its first message
	Last     int64 // of the newest message that follows that one, on whatever further branch
	Current  bool  // it is in the transcript
}

// DeletedSession is the result of deleting a session.
type DeletedSession struct {
	Messages, StateKeys int64 // how many were deleted
	Kept                int64 // how many messages forks have
	// Plans were linked to the session, ordered by id. They are kept, and go on: retention.DeleteWithPlans cancels them.
	Plans []LinkedPlan
}

// DeleteIf are conditions of a deletion. The zero value has none.
type DeleteIf struct {
	Version int64 // the version that the session must have: VersionConflictError; 0: any
	// nothing may have been appended then or later, nor anything be in use (docs/retention.md): RefusedError; zero:
	// whenever
	IdleSince time.Time
	// the MessageCount that the session must have, whatever the clock says: RefusedError; not of a plan
	Messages *int64
}

// LegalHold keeps sessions and plans from being deleted. A plan is held with its namespace, and its session.
type LegalHold struct {
	SessionID ID     // zero: it holds Namespace
	Namespace string // all of it, unless Owner is set
	Owner     string // of sessions in Namespace, and of what belongs to them; empty: all owners
	Reason    string // required, at most 64 KiB
	CreatedAt time.Time
}
