package postgres

import (
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// There is one kind of write to a session: a turn. An append is a turn with nothing but messages.
//
// A group is made by the ledger (ledger.go): it locks the rows, reads what a turn depends on, decides
// by the rules that the store in memory has, too, and writes.
//
// A lone message is one statement (MessageAppendOne in queries/messages.sql), which writes it if the
// session is free, exists, and has the sequence and the token that are expected. The statement does not
// say why it has written nothing: then the ledger is asked.

// turn is a turn whose values were checked.
type turn struct {
	commit.Progress

	*rules.Turn

	// plan is what the turn's plan is to be. opener is the id of the call that opens its stream.
	plan   *plannedUse
	opener repo.ID

	outcome outcome
	met     barrier
}

// outcome is what has become of a turn.
type outcome struct {
	// first is the sequence of the first message, or, if none was written, the next one.
	first int64
	// follows is what the first message follows. Nil: the one before it.
	follows *int64
	// createdAt is nil if no message was written.
	createdAt *time.Time
	// known: an id of the messages is stored already.
	known bool
	// stored is the turn that is stored under the id. Nil: none.
	stored *db.TurnFindRow
	// made is what the turn has changed.
	made rules.TurnChanges
	// plan and stream are those that it has made.
	plan   *repo.Plan
	stream *repo.Stream
}

// barrier is what a group has found in the way of a write.
type barrier struct {
	// missing are the scopes that have no rows, for errNoScope.
	missing []repo.Scope
	// heldScope is locked elsewhere, for errScopeHeld.
	heldScope *repo.Scope
	// patience is as in conn.PatienceOf.
	patience time.Duration
}

func newTurn(t *rules.Turn) *turn {
	a := &turn{Turn: t}
	if t.Open != nil {
		a.opener = repo.NewID()
	}
	return a
}

// Size implements commit.Item.
func (a *turn) Size() (size scheduler.Size) {
	size.Rows = len(a.Messages)
	for i := range a.Messages {
		size.Bytes += rules.MessageBytes(&a.Messages[i])
	}
	if !a.OnlyMessages() {
		size.Rows += len(a.State.Changes) + 1
		size.Bytes += a.State.Bytes()
	}
	if a.plan != nil {
		size.Rows += 5 // in as many tables
		size.Bytes += len(a.plan.plan.Description) + len(a.plan.plan.AutomationSnapshot)
	}
	return size
}

// sharesScope reports whether others than the writers of the session may lock a row that the
// turn locks.
func (a *turn) sharesScope() bool {
	return slices.ContainsFunc(a.State.Scopes, func(s rules.StateScope) bool { return s.Scope.Name != "" })
}

// newsOf says what there is to follow once a turn was committed.
func newsOf(a *turn) (all []news) {
	if len(a.Messages) > 0 && a.outcome.createdAt != nil {
		all = append(all, news{Key: a.SessionID, Next: a.outcome.first + int64(len(a.Messages))})
	}
	if plan := a.outcome.plan; plan != nil {
		all = append(all, news{Key: queueOf(plan.Namespace), Next: planQueued})
	}
	if stream := a.outcome.stream; stream != nil {
		all = append(all, news{Key: a.SessionID, Next: streamOpened})
		if a.Open.Restart && stream.Next > 0 {
			all = append(all, news{Key: stream.ID, Next: stream.Next})
		}
	}
	return all
}
