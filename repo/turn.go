package repo

// Turn is what one step of a conversation adds to a session: one or more of messages, changes of state, usage, a
// plan and a stream.
type Turn struct {
	SessionID ID // zero: the session with Create's key
	// ID is the turn's idempotency key, unique in its session, of at most MaxNameBytes: the same turn again changes
	// nothing and returns what is stored. Empty: the first id of Messages and Usage; without one each call adds a turn.
	// Ids are kept as long as the session, and are not exported.
	ID string
	// Existing: if a turn with the ID, which is required, is stored, that is the result, whatever this one has
	Existing bool
	Messages []NewMessage
	// State is changed in this order, by at most 1,000 changes. The zero Scope is the session's own. No key may be changed
	// twice.
	State    []StateChange
	IfScopes []ScopeVersion // IfScopes are the versions that scopes, changed or not, must have: VersionConflictError
	Usage    *NewUsage
	// Action makes a plan for the session, as by Plans.Use, with Use, which has no Key, Existing and ParentID: the turn's
	// ID does what a key does, and the plan has none. The action must be Reusable. Empty: no plan.
	Action   string
	Use      UseAction
	Open     *NewStream // the stream about the session to open, as by Streams.Open; its Session may be zero
	Expected *int64     // Expected, if set, must be the session's next sequence: SequenceConflictError
	// After, if set, is the sequence of the message that the turn follows: what came after it leaves the transcript. -1:
	// none. A turn with nothing else makes that message the last one.
	After *int64
	Head  *int64 // Head, if set, must be the sequence of the transcript's last message, or -1: SequenceConflictError
	// Fence is the fence of the session's lease: FencedError if a later one was given. Zero: none.
	Fence int64
	// Create, if set, is the session to create if it does not exist. One that exists takes the turn, and is not compared
	// with Create, whose Existing is not used. Create.ID is SessionID or zero. With SessionID, one that was deleted is not
	// made again.
	Create *NewSession
}

// AppendedTurn is the result of a turn.
type AppendedTurn struct {
	SessionID ID
	Messages  []Message // as stored, in the order of the turn
	Repeated  bool      // the turn was stored already, and changed nothing now
	Created   bool      // the turn created the session
	// Scopes are the scopes that the turn changed, in the order of its changes, at their versions after it; of a repeated
	// turn the current ones, with Turn.Existing of the call's scopes.
	Scopes []ScopeVersion
	// Usage is the session's usage after the turn, and of a repeated turn the current one. Nil: it has none.
	Usage *Usage
	// Plan is the plan that the turn has made, as it is now. Nil: none, or it is gone.
	Plan *Plan
	// Stream is the stream that the turn has opened; a repeated turn's the newest of the key, without a Fence: open it to
	// write. Nil: none, or it is gone.
	Stream *Stream
}
