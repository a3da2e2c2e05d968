package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// writer makes the writes of a group.
type writer struct {
	*writesGroup
	*appender
	// awaits: the group waits briefly for scopes that others lock.
	awaits bool
}

// commit chooses the statements by what the group contains.
func (w *writer) commit() {
	switch sharing := slices.ContainsFunc(w.Tasks, func(t *task) bool { return shares(t.Item) }); {
	case w.Waits && sharing:
		w.Run(w.skipSpanning(w.Tasks), w.awaitRows)
	case onlyMessages(w.Tasks) && (!w.Waits || len(statements(w.Tasks)) == 1) && !w.conns.Distributed.Load():
		w.Run(w.Tasks, w.sendMessages)
	default:
		// A group of turns that change shared scopes delays no other. A pool that has no
		// connection to spare has no group that waits.
		w.awaits = !w.Waits && sharing && w.budget.Waits > 0
		w.Run(w.Tasks, w.sendTurns)
	}
}

func onlyMessages(tasks []*task) bool {
	return !slices.ContainsFunc(tasks, func(t *task) bool {
		a, one := t.Item.(*turn)
		return !one || a.more != nil
	})
}

// sendMessages sends one statement for each session, all as one transaction. The session's other
// appends return. The counter rows are found by the hints, if there are any. Only a group that
// waits, and has no hint, waits for the row.
func (w *writer) sendMessages(ctx context.Context, q db.DBTX, tasks []*task) (func(), func(*task) bool, error) {
	all := statements(tasks)
	first := all[:0]
	for _, s := range all {
		if len(first) > 0 && first[len(first)-1].sessionID() == s.sessionID() {
			for _, t := range s.tasks {
				w.Return(t)
			}
			continue
		}
		s.hint = w.hints.of(s.sessionID())
		first = append(first, s)
	}
	var answers []*written
	var err error
	if w.Waits && !first[0].hint.Valid {
		answers, err = w.sendWaiting(q, first[0])
	} else {
		// These check the level themselves, so that none has to be set before them.
		guarded := db.DBTX(q.(conn.Alone).Conn)
		if w.conns.OtherLevel.Load() {
			guarded = q
		}
		answers, err = sendAppends(ctx, guarded, first)
	}
	return func() { w.answer(first, answers) }, nil, err
}

// sendWaiting sends the statement of one session, which waits for its counter row.
func (w *writer) sendWaiting(q db.DBTX, s *statement) (_ []*written, err error) {
	ctx, stop := w.GiveUp(q.(conn.Alone).Conn)
	defer func() { stop(err) }()
	answer, err := sendLocked(ctx, q, s, conn.AtReadCommitted)
	return []*written{answer}, err
}

// answer gives those that were written their answer. Those of a wrong hint are sent again
// without it. The other appends are held, if their session is likely to be locked, or the ledger
// decides on them.
func (w *writer) answer(statements []*statement, answers []*written) {
	var again, rest []*task
	var news []news
	places := make([]place[repo.ID], 0, len(statements))
	for i, s := range statements {
		switch answer := answers[i]; {
		case answer != nil:
			places = append(places, answer.place)
			s.written(answer.first, answer.createdAt)
			for j, t := range s.tasks {
				news = append(news, newsOf(s.appends[j])...)
				w.Done(t, nil)
			}
		case s.hint.Valid || w.Waits && w.hints.of(s.sessionID()).Valid:
			w.hints.forget(s.sessionID())
			again = append(again, s.tasks...)
		case s.isPlain() && !w.Waits:
			for _, t := range s.tasks {
				w.Hold(t, 0)
			}
		default:
			rest = append(rest, s.tasks...)
		}
	}
	w.hints.learn(places...)
	w.tell(news...)
	w.Run(again, w.sendMessages)
	w.Run(rest, w.sendTurns)
}

// sendTurns makes a transaction of two round trips: the first locks the rows and reads what the
// turns depend on, and the second writes and commits. What the turns change is decided in between,
// by the ledger. The time between the two is short, and the group has it once.
func (w *writer) sendTurns(ctx context.Context, q db.DBTX, tasks []*task) (func(), func(*task) bool, error) {
	pg := q.(conn.Alone).Conn
	defer conn.RollbackOpen(ctx, pg)
	l, err := w.lock(ctx, pg, tasks)
	if w.awaits && conn.HasCode(err, conn.LockNotAvailable) {
		// A scope is locked for longer than a group's wait. Find out which.
		w.awaits = false
		conn.RollbackOpen(ctx, pg)
		l, err = w.lock(ctx, pg, tasks)
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
	l.plain = w.conns.Distributed.Load()
	p := &conn.Pipeline{}
	p.Exec(ctx, "begin isolation level read committed")
	l.lock(ctx, p, waiting{sessions: w.Waits, scopes: w.Waits || w.awaits, brief: w.awaits})
	l.read(ctx, p, turns)
	return l, p.Send(ctx, pg)
}

func turnsOf(tasks []*task) []*turn {
	all := make([]*turn, 0, len(tasks))
	for _, t := range tasks {
		if a, one := t.Item.(*turn); one {
			all = append(all, a)
		} else {
			all = append(all, t.Item.turns()...)
		}
	}
	return all
}

// decision is what the ledger decided on a task.
type decision struct {
	verdict verdict
	err     error
}

// decideAll decides on all, in order. After one that is not answered, the later ones of
// its session are left, too, so that they keep their order, unless it leaves the groups.
func (l *ledger) decideAll(tasks []*task) map[*task]decision {
	left := map[repo.ID]verdict{}
	decided := make(map[*task]decision, len(tasks))
	for _, t := range tasks {
		turns, d := t.Item.turns(), decision{}
		for _, a := range turns {
			d.verdict = max(d.verdict, left[a.sessionID]) // held and deferred are above answered
		}
		if d.verdict == answered {
			d.verdict, d.err = l.decideWhole(t.Item)
		}
		decided[t] = d
		if d.verdict == deferred || d.verdict == held && !t.Item.spans() && t.Item.barrier().heldScope == nil {
			for _, a := range turns {
				left[a.sessionID] = d.verdict
			}
		}
	}
	return decided
}

// settle answers tasks after their transaction, or leaves them to the scheduler.
func (w *writer) settle(tasks []*task, l *ledger, decided map[*task]decision) {
	w.hints.learn(l.places...)
	if l.otherLevel {
		w.conns.OtherLevel.Store(true)
	}
	var news []news
	var deferrals []*task
	for _, t := range tasks {
		switch d, met := decided[t], t.Item.barrier(); {
		case d.verdict == held && met.heldScope != nil:
			w.scopes.add(*met.heldScope)
			w.leave(t, errScopeHeld)
		case d.verdict == held && t.Item.spans():
			w.leave(t, errSkipped)
		case d.verdict == held:
			w.Hold(t, l.patienceOf(t.Key))
		case d.verdict == deferred && w.Waits:
			deferrals = append(deferrals, t)
		case d.verdict == deferred:
			w.Return(t)
		default:
			if d.err == nil {
				news = append(news, newsOf(t.Item.turns()...)...)
			}
			w.Done(t, d.err)
		}
	}
	w.tell(news...)
	for _, t := range deferrals {
		w.Run([]*task{t}, w.sendTurns)
	}
}

// leave lets turns leave the groups, for a row that is locked elsewhere.
func (w *writer) leave(t *task, why error) {
	t.Item.Skip()
	w.Done(t, why)
}

// skipSpanning lets the turns of several sessions leave the groups: a wait for one of
// these would hold up the others. It returns the rest.
func (w *writer) skipSpanning(tasks []*task) (rest []*task) {
	for _, t := range tasks {
		if t.Item.spans() {
			w.leave(t, errSkipped)
			continue
		}
		rest = append(rest, t)
	}
	return rest
}

// awaitRows waits for the session of turns that change shared scopes, for its counter and
// its usage each in a transaction of its own, so that nobody waits for a row that it already
// has. Then it returns the turns to the groups: at most one group at a time
// changes shared scopes, and turns that were made beside it would compete with it.
func (w *writer) awaitRows(_ context.Context, q db.DBTX, tasks []*task) (_ func(), _ func(*task) bool, err error) {
	l := newLedger(turnsOf(tasks))
	ctx, stop := w.GiveUp(q.(conn.Alone).Conn)
	defer func() { stop(err) }()
	err = awaitCounters(ctx, q, sortedIDs(l.counters)...)
	if usages := sortedIDs(l.usages); err == nil && len(usages) > 0 {
		err = awaitUsages(ctx, q, usages...)
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
