package write

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/hints"
)

// writer makes the writes of a group.
type writer struct {
	*writesGroup
	*Appender
	// awaits: the group waits briefly for scopes that others lock.
	awaits bool
}

// commit chooses the statements by what the group contains.
func (w *writer) commit() {
	switch sharing := slices.ContainsFunc(w.Tasks, func(t *task) bool { return t.Item.sharesScope() }); {
	case w.Waits && sharing:
		w.Run(w.Tasks, w.awaitRows)
	case !w.Waits && areLone(w.Tasks) && !w.conns.Distributed.Load():
		w.Run(w.Tasks, w.sendLone)
	default:
		// A group of turns that change shared scopes delays no other. A pool that has no
		// connection to spare has no group that waits.
		w.awaits = !w.Waits && sharing && w.budget.Waits > 0
		w.Run(w.Tasks, w.sendTurns)
	}
}

// isLone reports whether a write is one message: then one statement makes it.
func isLone(a *Turn) bool { return len(a.Messages) == 1 && a.OnlyMessages() }

// fewLone is for how many messages their statements cost less than the ledger's.
const fewLone = 6

// areLone reports whether a group is a few messages of as many sessions.
func areLone(tasks []*task) bool {
	for i, t := range tasks {
		if i == fewLone || !isLone(t.Item) || slices.ContainsFunc(tasks[:i],
			func(before *task) bool { return before.Key == t.Key }) {
			return false
		}
	}
	return true
}

// sendLone sends the statements of single messages as one transaction. If one writes nothing, the ledger finds out why.
func (w *writer) sendLone(ctx context.Context, q db.DBTX, tasks []*task) (func(), func(*task) bool, error) {
	// They check the level themselves, so that none has to be set before them.
	if !w.conns.OtherLevel.Load() {
		q = q.(conn.Alone).Conn
	}
	rows := make([]db.MessageAppendOneRow, len(tasks))
	p := &conn.Pipeline{}
	for i, t := range tasks {
		p.Add(func(q db.DBTX) (err error) {
			a := t.Item
			if rows[i], err = appendOne(ctx, q, a, w.hints.Of(a.SessionID)); conn.IsNoRows(err) {
				return nil
			}
			return err
		})
	}
	if err := p.Send(ctx, q); err != nil {
		return nil, nil, err
	}
	return func() {
		var rest []*task
		var places []hints.Place[repo.ID]
		var made []*Turn
		for i, t := range tasks {
			a, row := t.Item, &rows[i]
			if !row.Hint.Valid {
				w.hints.Forget(a.SessionID)
				rest = append(rest, t)
				continue
			}
			a.Outcome = Outcome{First: row.Sequence, CreatedAt: &row.UpdatedAt}
			places, made = append(places, hints.Place[repo.ID]{
				Key: a.SessionID, Hint: row.Hint, First: row.Sequence,
				Next: row.Sequence + 1,
			}), append(made, a)
			w.Done(t, nil)
		}
		w.hints.Learn(places...)
		w.tell(made...)
		w.Run(rest, w.sendTurns)
	}, nil, nil
}

func appendOne(ctx context.Context, q db.DBTX, a *Turn, hint pgtype.TID) (db.MessageAppendOneRow, error) {
	m := &a.Messages[0]
	return queries.MessageAppendOne(ctx, q, db.MessageAppendOneParams{
		SessionID: convert.UUID(a.SessionID), ID: convert.UUID(m.ID), Role: string(m.Role), Content: m.Content,
		Metadata: string(m.Metadata), Payload: m.Payload, Kind: m.Kind, CallID: m.CallID, OccurredAt: m.OccurredAt,
		Tokens: int32(m.Tokens), Counter: m.Counter, Fence: a.Fence, Expected: a.Expected,
		CheckID: a.Repeatable || a.Unsure, Hint: hint,
	})
}

// sendTurns makes a transaction of two round trips: the first locks the rows and reads what the
// turns depend on, and the second writes and commits. What the turns change is decided in between,
// by the ledger. The time between the two is short, and the group has it once.
func (w *writer) sendTurns(ctx context.Context, q db.DBTX, tasks []*task) (func(), func(*task) bool, error) {
	pg := q.(conn.Alone).Conn
	defer conn.RollbackOpen(ctx, pg)
	l, err := w.lock(ctx, pg, tasks)
	brief := !w.Waits
	if err == nil {
		brief, err = true, l.create(ctx, pg, turnsOf(tasks))
	}
	if brief && conn.HasCode(err, conn.LockNotAvailable) || conn.Violates(err, convert.StateSession) {
		// A scope is locked, or being created, for longer than a group's wait. Find out which.
		w.awaits = false
		conn.RollbackOpen(ctx, pg)
		timeout := l.lockTimeout
		l, err = w.lock(ctx, pg, tasks)
		l.lockTimeout = timeout
	}
	if err != nil {
		return nil, nil, &conn.Answer{Err: conn.Translate(ctx, err, conn.Reading)}
	}
	decided := l.decideAll(tasks)
	carried := func(t *task) bool { return decided[t].verdict == accepted }
	p := &conn.Pipeline{}
	if ctx := w.Context(); l.write(ctx, p) {
		if pg.IsClosed() { // surely not committed
			return nil, nil, &conn.Answer{Err: conn.Translate(ctx, conn.ErrClosedBetween, conn.Reading)}
		}
		p.Exec(ctx, "commit")
		if err := p.Send(ctx, pg); err != nil {
			return nil, carried, &conn.Answer{Err: conn.Translate(ctx, w.conns.Doubted(err), conn.Committing)}
		}
	}
	return func() { w.settle(tasks, l, decided) }, carried, nil
}

// lock begins the transaction, locks the rows, and reads.
func (w *writer) lock(ctx context.Context, pg *pgx.Conn, tasks []*task) (l *ledger, err error) {
	if w.Waits {
		var stop func(error)
		ctx, stop = w.GiveUp(pg)
		defer func() { stop(err) }()
	}
	turns := turnsOf(tasks)
	l = newLedger(turns)
	l.hints = &w.hints
	p := &conn.Pipeline{}
	p.Begin(ctx)
	l.lock(ctx, p, waiting{sessions: w.Waits, scopes: w.Waits || w.awaits, brief: w.awaits})
	l.read(ctx, p, turns)
	return l, p.Send(ctx, pg)
}

func turnsOf(tasks []*task) []*Turn {
	return convert.Each(tasks, func(t *task) *Turn { return t.Item })
}

// settle answers tasks after their transaction, or leaves them to the scheduler.
func (w *writer) settle(tasks []*task, l *ledger, decided map[*task]decision) {
	w.hints.Learn(l.places...)
	if l.otherLevel {
		w.conns.OtherLevel.Store(true)
	}
	var made []*Turn
	var deferrals []*task
	for _, t := range tasks {
		switch d, met := decided[t], &t.Item.met; {
		case d.verdict == locked && met.lockedScope != nil:
			w.scopes.add(*met.lockedScope)
			t.Item.Skip()
			w.Done(t, errScopeLocked) // it leaves the groups
		case d.verdict == locked:
			w.Locked(t, l.patienceOf(t.Item))
		case d.verdict == deferred && w.Waits:
			deferrals = append(deferrals, t)
		case d.verdict == deferred:
			w.Return(t)
		default:
			if d.err == nil {
				made = append(made, t.Item)
			}
			w.Done(t, d.err)
		}
	}
	w.tell(made...)
	for _, t := range deferrals {
		w.Run([]*task{t}, w.sendTurns)
	}
}

// awaitRows waits for what turns that change shared scopes need of sessions: counters, usage and own scopes each in a
// transaction of its own, so that none is held while it waits for another. Then it returns the turns to the groups: at
// most one group at a time changes shared scopes, and turns that were made beside it would compete with it.
func (w *writer) awaitRows(_ context.Context, q db.DBTX, tasks []*task) (_ func(), _ func(*task) bool, err error) {
	l := newLedger(turnsOf(tasks))
	ctx, stop := w.GiveUp(q.(conn.Alone).Conn)
	defer func() { stop(err) }()
	err = queries.TurnAwaitCounters(ctx, q, sortedIDs(l.counters))
	if usages := sortedIDs(l.usages); err == nil && len(usages) > 0 {
		err = queries.TurnAwaitUsages(ctx, q, usages)
	}
	own := slices.DeleteFunc(sortedScopes(l.scopes), func(s repo.Scope) bool { return s.Name != "" })
	if err == nil && len(own) > 0 {
		err = l.awaitScopes(ctx, q, own)
	}
	if err != nil {
		return nil, nil, &conn.Answer{Err: conn.Translate(ctx, err, conn.Reading)}
	}
	return func() {
		for _, t := range tasks {
			w.Return(t)
		}
	}, nil, nil
}
