package repo

import "time"

// ReadSessions says what SessionReader.Read reads.
type ReadSessions struct {
	// IDs are the ids of the sessions, at most MaxPageSize.
	IDs []ID
	// First or Last is how many messages of each session are read: the first or the
	// last ones of those that From and Since select. Only one of them may be set. If
	// none is, no messages are read. The number of sessions times the number of
	// messages may be at most MaxReadMessages.
	First, Last int
	// From selects the messages from this sequence on.
	From int64
	// Since selects the messages whose CreatedAt is not before it, truncated to the
	// microsecond. Zero: all.
	//
	// CreatedAt never decreases within a session, except in an imported one, which
	// has the times of its document. There the messages are selected from one that
	// is not before Since, although its predecessor is. They include all that were
	// appended since then.
	Since time.Time
	// WithoutContent and WithoutPayload leave out these fields of the messages. The
	// database does not read them then.
	WithoutContent, WithoutPayload bool
	// State adds each session's own state.
	State bool
	// Scopes are the names of shared states, at most MaxStateScopes.
	Scopes []string
}

// Snapshot is the result of SessionReader.Read.
type Snapshot struct {
	// Sessions has an entry for each of ReadSessions.IDs, in their order. It is nil
	// for a session that does not exist.
	Sessions []*SessionSnapshot
	// Scopes has an entry for each of ReadSessions.Scopes, in their order. A scope that
	// does not exist is empty, at version 0.
	Scopes []ScopeState
}

// SessionSnapshot is a session with some of its messages.
type SessionSnapshot struct {
	Session Session
	// Messages are ascending and contiguous. Without any, the list is empty, not nil.
	Messages []Message
	// Cut reports that messages were left out because the snapshot has
	// MaxReadBytes: the last ones of Messages, or, with ReadSessions.Last, the first
	// ones. Another Read returns them.
	Cut bool
	// State is the session's own state, if ReadSessions.State is set.
	State ScopeState
}
