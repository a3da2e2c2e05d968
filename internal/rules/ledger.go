package rules

import (
	"bytes"
	"crypto/sha256"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// What is decided about a turn, by both stores, over rows that the store has locked and read: Again first, and then
// Add.

// RedactedDigest is the digest of a turn with a redacted message: by the true one what it said could be guessed.
var RedactedDigest [sha256.Size]byte

// Again reports whether a turn is stored already: under its key, with a digest (nil: nothing is), or, if it has none,
// by the id of a message, which is known. Then what is stored is the answer. Errors: ExistsError, if the key has
// another turn.
func (t *Turn) Again(digest []byte, known bool) (bool, error) {
	switch {
	case t.ID == "":
		return known, nil
	case digest == nil:
		return false, nil
	case !t.Existing && !bytes.Equal(digest, t.Digest[:]) && !bytes.Equal(digest, RedactedDigest[:]):
		return true, &repo.ExistsError{Kind: "turn", SessionID: t.SessionID, Name: t.ID}
	}
	return true, nil
}

// TurnRows are what a turn depends on that is not stored yet.
type TurnRows struct {
	// Fence is the session's.
	Fence Fence
	// Next is the session's next sequence.
	Next int64
	// Head is the sequence of the transcript's last message, or -1.
	Head int64
	// HasAfter: the message that the turn follows is in the session, on any branch.
	HasAfter bool
	// Known is one of the turn's messages of which the id is stored. Zero: none is.
	Known repo.ID
	// Usage and Budget are the session's. AddedUsage is what is stored under the id of
	// the turn's usage. Nil: nothing.
	Usage      repo.Usage
	Budget     *repo.Cost
	AddedUsage *repo.Usage
	// Versions are the versions of State.Scopes, and Values the values of the keys of State.Changes (nil: there is
	// none), in their order.
	Versions []int64
	Values   []*repo.StateValue
	// Now is the time of the change.
	Now time.Time
}

// TurnChanges is what a turn changes, besides adding its messages.
type TurnChanges struct {
	// Scopes are the changed scopes at their new versions, in the order of the changes.
	Scopes []repo.ScopeVersion
	// Values are the new values of keys, which are at their scope's new version.
	Values []StateWrite
	// Usage is the session's after the turn. AddsUsage is false if the turn's usage is
	// stored already.
	Usage     repo.Usage
	AddsUsage bool
}

// StateWrite is a key's new value. Nil: the key is removed.
type StateWrite struct {
	Scope   repo.Scope
	Key     string
	Value   []byte
	Version int64
}

// Add decides what a turn that is not stored yet changes. An error means: nothing.
func (t *Turn) Add(rows *TurnRows) (made TurnChanges, err error) {
	if !rows.Known.IsZero() && t.Repeatable {
		return made, &repo.ExistsError{Kind: "message", SessionID: t.SessionID, ID: rows.Known, Field: "turn"}
	}
	if err := rows.Fence.Check(t.Fence); err != nil && !t.Unfenced {
		return made, err
	}
	if t.Expected != nil && *t.Expected != rows.Next {
		return made, &repo.SequenceConflictError{Kind: "session", ID: t.SessionID, Expected: *t.Expected, Next: rows.Next}
	}
	if t.Head != nil && *t.Head != rows.Head {
		return made, &repo.SequenceConflictError{Kind: "head", ID: t.SessionID, Expected: *t.Head, Next: rows.Head}
	}
	if t.After != nil && *t.After >= 0 && !rows.HasAfter {
		return made, invalid("after", "is not a message of the session")
	}
	if made.Scopes, made.Values, err = t.State.Apply(rows); err != nil {
		return made, err
	}
	if t.Usage == nil {
		return made, nil
	}
	made.Usage = rows.Usage
	if rows.AddedUsage != nil {
		return made, usageConflict(*t.Usage, t.SessionID, *rows.AddedUsage)
	}
	made.AddsUsage = true
	made.Usage, err = addUsageWithin(t.SessionID, rows.Usage, rows.Budget, *t.Usage)
	return made, err
}

// Apply checks the conditions on what the rows say of the state, and returns the changed scopes and values.
func (c StateChanges) Apply(rows *TurnRows) (scopes []repo.ScopeVersion, values []StateWrite, err error) {
	for i, scope := range c.Scopes {
		if err := scope.Conflict(rows.Versions[i]); err != nil {
			return nil, nil, err
		}
	}
	if len(c.Changes) == 0 {
		return nil, nil, nil
	}
	next := make(map[repo.Scope]int64, len(c.Scopes))
	for i, scope := range c.Scopes {
		if scope.Changed {
			next[scope.Scope] = nextStateVersion(rows.Versions[i], rows.Now)
		}
	}
	for i, change := range c.Changes {
		value, err := changedState(change, rows.Values[i])
		if err != nil {
			return nil, nil, err
		}
		values = append(values, StateWrite{Scope: change.Scope, Key: change.Key, Value: value, Version: next[change.Scope]})
	}
	return c.Versions(next), values, nil
}

// Head returns the sequence of the transcript's last message, or -1. follows is what the next message will follow, nil
// for the one before it, which has the sequence next.
func Head(follows *int64, next int64) int64 {
	if follows != nil {
		return *follows
	}
	return next - 1
}

// Follows returns what the message with the sequence next follows, nil for the one before it, if its turn names a
// message (after) or not. follows is what it would follow otherwise.
func Follows(after, follows *int64, next int64) *int64 {
	switch {
	case after == nil:
		return follows
	case *after == next-1:
		return nil
	}
	return after
}

// addUsageWithin returns the sum of the two. Errors: LimitExceededError if the cost
// would exceed the budget, unless that is nil; InvalidError as of AddUsage.
func addUsageWithin(sessionID repo.ID, total repo.Usage, budget *repo.Cost, add repo.NewUsage) (repo.Usage, error) {
	// The difference cannot overflow: no cost is negative, or above the budget.
	if budget != nil && add.Cost > *budget-total.Cost {
		return repo.Usage{}, &repo.LimitExceededError{
			Kind: "budget", ID: sessionID, Limit: int64(*budget),
			Current: int64(total.Cost), Requested: int64(add.Cost),
		}
	}
	return AddUsage(total, add)
}
