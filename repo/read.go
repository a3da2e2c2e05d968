package repo

import "time"

// ReadSessions says what Sessions.Read reads.
type ReadSessions struct {
	IDs []ID // of sessions, at most MaxPageSize
	// First or Last, one of them, is how many messages of each session are read, of the ones that From and Since
	// select; neither: none. Sessions times messages are at most 10,000.
	First, Last int
	// Tokens, with Last, reads what goes into a prompt: the last messages that have together at most so many tokens, back
	// to where the newest summary (KindSummary) ends, that summary, and up to 1,000 messages of the roles system and
	// developer. A message without Tokens has two for each seven bytes, and four. Cut: there are others before.
	Tokens int64
	From   int64 // selects the messages from this sequence on
	// Since selects the messages whose CreatedAt is not before it. Zero: all. Of an imported session, with its document's
	// times, they include all that were appended since then.
	Since time.Time
	// Branches selects the messages of all branches, not only the transcript's
	Branches                       bool
	WithoutContent, WithoutPayload bool     // leave out these fields of the messages
	State                          bool     // adds each session's own state
	Scopes                         []string // the names of shared states, at most 1,000
}

// Snapshot has an entry for each of ReadSessions.IDs and Scopes, in order.
type Snapshot struct {
	Sessions []*SessionSnapshot // nil for a session that does not exist
	Scopes   []ScopeState       // one that does not exist is empty, at version 0
}

// SessionSnapshot is a session with some of its messages.
type SessionSnapshot struct {
	Session  Session
	Messages []Message // ascending; each follows the one before, except with Branches or Tokens; never nil
	// Cut: messages were left out, the last ones, or with ReadSessions.Last the first ones. Another Read returns them.
	Cut   bool
	State ScopeState // the session's own, if ReadSessions.State is set
}
