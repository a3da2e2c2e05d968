package postgres

import (
	"context"
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

// write is what is queued for a group: a turn, or turns that are made together.
type write interface {
	commit.Item
	// key is the session in whose queue it is.
	key() repo.ID
	// turns are what is made, in their order.
	turns() []*turn
	// spans reports whether they are of more than one session.
	spans() bool
	// barrier is what was in its way, if the error of its group is about that.
	barrier() *barrier
	Skip()
	Skipped() time.Time
}

// turn is a turn whose values were checked.
type turn struct {
	commit.Progress

	sessionID repo.ID
	expected  *int64
	messages  []repo.NewMessage
	// fence is the token of the session's lease. 0: none.
	fence int64
	// repeatable: some of the messages may be stored already.
	repeatable bool
	// creates: the session may have to be created first.
	creates bool
	// more is the whole turn, unless that is nothing but messages.
	more *rules.Turn

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
	// awaited waits for the row that was skipped (nil: it is not known), and keeps says that the
	// transaction that follows keeps it, for errSkipped.
	awaited func(context.Context, db.DBTX) error
	keeps   bool
	// patience is as in conn.PatienceOf.
	patience time.Duration
}

// newTurn returns a turn. One that has only messages is like an append.
func newTurn(t *rules.Turn) *turn {
	a := &turn{
		sessionID: t.SessionID, expected: t.Expected, messages: t.Messages, repeatable: t.Repeatable, creates: t.Create != nil,
		fence: t.Fence,
	}
	if !t.OnlyMessages() {
		a.more = t
	}
	if t.Open != nil {
		a.opener = repo.NewID()
	}
	return a
}

func (a *turn) key() repo.ID      { return a.sessionID }
func (a *turn) turns() []*turn    { return []*turn{a} }
func (a *turn) spans() bool       { return false }
func (a *turn) barrier() *barrier { return &a.met }

// Size implements commit.Item.
func (a *turn) Size() (size scheduler.Size) {
	size.Rows = len(a.messages)
	for i := range a.messages {
		size.Bytes += rules.MessageBytes(&a.messages[i])
	}
	if a.more != nil {
		size.Rows += len(a.more.State.Changes) + 1
		size.Bytes += a.more.State.Bytes()
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
	return a.more != nil && slices.ContainsFunc(a.more.State.Scopes, func(s rules.StateScope) bool { return s.Scope.Name != "" })
}

// shares is sharesScope for all turns of a write.
func shares(w write) bool {
	if a, one := w.(*turn); one { // without an allocation
		return a.sharesScope()
	}
	return w.spans() || slices.ContainsFunc(w.turns(), (*turn).sharesScope)
}

// newsOf says what there is to follow once turns were committed.
func newsOf(turns ...*turn) (all []news) {
	for _, a := range turns {
		if len(a.messages) > 0 && a.outcome.createdAt != nil {
			all = append(all, news{Key: a.sessionID, Next: a.outcome.first + int64(len(a.messages))})
		}
		if plan := a.outcome.plan; plan != nil {
			all = append(all, news{Key: queueOf(plan.Namespace), Next: planQueued})
		}
		if stream := a.outcome.stream; stream != nil {
			all = append(all, news{Key: a.sessionID, Next: streamOpened})
			if a.more.Open.Restart && stream.Next > 0 {
				all = append(all, news{Key: stream.ID, Next: stream.Next})
			}
		}
	}
	return all
}

// together are turns that are made together, all or none.
type together struct {
	commit.Progress

	first repo.ID // of their sessions, in whose queue they are
	parts []*turn
	many  bool // sessions
	met   barrier
}

func newTogether(parts []*turn) *together {
	whole := &together{first: parts[0].sessionID, parts: parts}
	for _, part := range parts {
		whole.many = whole.many || part.sessionID != parts[0].sessionID
		if part.sessionID.Compare(whole.first) < 0 {
			whole.first = part.sessionID
		}
	}
	return whole
}

func (t *together) key() repo.ID      { return t.first }
func (t *together) turns() []*turn    { return t.parts }
func (t *together) spans() bool       { return t.many }
func (t *together) barrier() *barrier { return &t.met }

// Size implements commit.Item.
func (t *together) Size() (size scheduler.Size) {
	for _, part := range t.parts {
		of := part.Size()
		size.Rows, size.Bytes = size.Rows+of.Rows, size.Bytes+of.Bytes
	}
	return size
}

// Doubt implements commit.Item.
func (t *together) Doubt() {
	t.Progress.Doubt()
	for _, part := range t.parts {
		part.Doubt()
	}
}

// mayConflict reports whether a message of a part is stored, perhaps with other values.
func (t *together) mayConflict() bool {
	return slices.ContainsFunc(t.parts, func(part *turn) bool { return part.outcome.known && part.repeatable })
}
