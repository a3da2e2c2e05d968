package repo

// Turn is what one step of a conversation adds to a session: messages, changes of
// state and usage, stored together or not at all. It has at least one of them.
type Turn struct {
	// ID is the turn's idempotency key, unique in its session: adding the same turn
	// again changes nothing and returns what is stored. It is any text of at most
	// MaxNameBytes, such as a UUID that a browser made. Empty: the first id among those
	// of Messages and Usage, as text, is the key; if these have none either, each call
	// adds a turn of its own. (A turn that has nothing but messages is recognized by
	// their ids, as by MessageWriter.Append.) Ids are kept as long as the session, and
	// are not exported.
	ID string
	// Messages are appended contiguously, as by MessageWriter.Append.
	Messages []NewMessage
	// State is changed in this order. A scope is the session's own or shared; the zero
	// Scope is the session's own. No key may be changed twice.
	State []StateChange
	// IfScopes are the versions that scopes, changed or not, must have. Otherwise
	// nothing is stored: StateConflictError.
	IfScopes []ScopeVersion
	// Usage is added as by SessionWriter.AddUsage.
	Usage *NewUsage
	// Expected, if set, must be the session's next sequence, as in
	// MessageWriter.AppendAt.
	Expected *int64
	// Fence is the token of a lease of the session ([Lease].Token): the turn is refused if
	// a later one was given. Zero: no token. See docs/leases.md.
	Fence int64
	// Create, if set, is the session to create, in the same transaction, if it does not
	// exist yet. Its ID must be the session's, or zero. If the turn is for the session zero,
	// it is for the one with Create's key, whatever its id. A session that exists is left as
	// it is, and Existing is not used.
	Create *NewSession
}

// AppendedTurn is the result of a turn.
type AppendedTurn struct {
	// SessionID is the session's.
	SessionID ID
	// Messages are the stored messages, in the order of the turn.
	Messages []Message
	// Repeated reports that the turn was stored already, and changed nothing now.
	Repeated bool
	// Scopes are the scopes that the turn changed, in the order of its changes, at
	// their versions after it. Those of a repeated turn are at their current versions.
	Scopes []ScopeVersion
	// Usage is the session's usage after the turn, and of a repeated turn the current
	// one. Nil: the turn has no usage.
	Usage *Usage
	// Created reports that the turn created the session.
	Created bool
}

// SessionTurn is a turn of one of several sessions. SessionID is zero if Turn.Create names
// the session by its key.
type SessionTurn struct {
	SessionID ID
	Turn      Turn
}
