package write

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// Turn is a turn whose values were checked. One without a session changes state alone.
type Turn struct {
	commit.Progress

	*rules.Turn

	// Plan is what the turn's plan is to be. opener is the id of the call that opens its stream.
	Plan   *PlannedUse
	opener repo.ID

	Outcome Outcome
	met     barrier
}

// Outcome is what has become of a turn.
type Outcome struct {
	// First is the sequence of the first message, or, if none was written, the next one.
	First int64
	// Follows is what the first message follows. Nil: the one before it.
	Follows *int64
	// CreatedAt is nil if no message was written.
	CreatedAt *time.Time
	// Known: an id of the messages is stored already.
	Known bool
	// Stored is the turn that is stored under the id. Nil: none.
	Stored *db.TurnFindRow
	// Made is what the turn has changed.
	Made rules.TurnChanges
	// Plan and Stream are the ones that it has made.
	Plan   *repo.Plan
	Stream *repo.Stream
}

// barrier is what a group has found in the way of a write.
type barrier struct {
	// missing are the scopes that have no rows, for errNoScope.
	missing []repo.Scope
	// lockedScope is locked elsewhere, for errScopeLocked.
	lockedScope *repo.Scope
	// patience is as in conn.PatienceOf.
	patience time.Duration
}

// NewTurn returns a turn that was checked.
func NewTurn(t *rules.Turn) *Turn {
	a := &Turn{Turn: t}
	if t.Open != nil {
		a.opener = repo.NewID()
	}
	return a
}

// key returns what a turn waits for with others: its session, or the first of its scopes.
func (a *Turn) key() (key repo.ID) {
	if !a.SessionID.IsZero() {
		return a.SessionID
	}
	return keyOf(a.State.Scopes[0].Scope, "")
}

// keyOf returns the key of a scope, or of a key of its state, among the keys of sessions.
func keyOf(scope repo.Scope, key string) (of repo.ID) {
	sum := sha256.Sum256(slices.Concat(scope.SessionID[:], []byte(scope.Name), []byte{0, 0}, []byte(key)))
	copy(of[:], sum[:])
	return of
}

// Size implements commit.Item.
func (a *Turn) Size() (size scheduler.Size) {
	size.Rows = len(a.Messages)
	for i := range a.Messages {
		size.Bytes += rules.MessageBytes(&a.Messages[i])
	}
	if !a.OnlyMessages() {
		size.Rows += len(a.State.Changes) + 1
		size.Bytes += a.State.Bytes()
	}
	if a.Plan != nil {
		size.Rows += 5 // in as many tables
		size.Bytes += len(a.Plan.Plan.Description) + len(a.Plan.Plan.AutomationSnapshot)
	}
	return size
}

// sharesScope reports whether others than the writers of the session may lock a row that the
// turn locks.
func (a *Turn) sharesScope() bool {
	return slices.ContainsFunc(a.State.Scopes, func(s rules.StateScope) bool { return s.Scope.Name != "" })
}
