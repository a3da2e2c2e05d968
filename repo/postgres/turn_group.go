package postgres

import (
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// A group that contains a turn is a transaction of two round trips: the first locks the
// rows and reads what the turns depend on, and the second writes and commits. What the
// turns change is decided in between, by the same rules as in the store in memory. The
// time between the two is short, and the group has it once.

func hasTurn(tasks []*task) bool {
	return slices.ContainsFunc(tasks, func(t *task) bool { return t.Item.turn != nil || t.Item.parts != nil })
}

// runTurns makes appends and turns in one transaction, until each has its answer, is
// returned to the scheduler, or its session is held.
func (g *group) runTurns(tasks []*task) {
	for attempt := 1; ; attempt++ {
		err := g.sendTurns(tasks)
		switch {
		case err == nil:
			return
		case g.awaits && conn.HasCode(err, conn.LockNotAvailable):
			// A scope is locked for longer than a group's wait. Find out which.
			g.awaits = false
		case conn.IsRejection(err) && len(tasks) > 1:
			// One of them aborted the transaction of all: send each separately.
			for _, t := range tasks {
				if !g.held[t.Key] {
					g.runTurns([]*task{t})
				}
			}
			return
		case conn.IsPassing(err) && !conn.IsRejection(err) && g.ctx.Err() == nil && conn.Pause(g.ctx, attempt):
		case g.ctx.Err() != nil && g.Context().Err() == nil:
			return // evicted: the session is held
		default:
			g.failAll(tasks, err)
			return
		}
	}
}

// failAll answers tasks that one failure has ended.
func (g *group) failAll(tasks []*task, err error) {
	for _, t := range tasks {
		g.done(t, conn.Settled(conn.AfterDoubt(t.Item.unsure, err)))
	}
}

func itemsOf(tasks []*task) []*appending {
	return each(tasks, func(t *task) *appending { return t.Item })
}

// sendTurns makes one attempt. If it returns nil, each task was answered, or left to the
// scheduler.
func (g *group) sendTurns(tasks []*task) error {
	items := itemsOf(tasks)
	l := newLedger(flat(items))
	verdicts := make([]verdict, len(tasks))
	err := g.conns.Run(g.ctx, conn.Reading, func(q db.DBTX) error {
		pg := q.(conn.Alone).Conn
		defer conn.RollbackOpen(g.ctx, pg)
		if err := g.lockTurns(pg, l, items); err != nil {
			return err
		}
		l.decideAll(items, verdicts)
		p := &conn.Pipeline{}
		if !l.write(g.Context(), p) {
			return nil
		}
		if pg.IsClosed() { // surely not committed
			return conn.ErrClosedBetween
		}
		p.Exec(g.Context(), "commit")
		if err := p.Send(g.Context(), pg); err != nil {
			return &conn.Answer{Err: conn.Translate(g.Context(), err, conn.Committing)}
		}
		return nil
	})
	if err != nil {
		unsure := errors.Is(err, repo.ErrUnknownOutcome)
		for i, a := range items {
			if unsure && verdicts[i] == accepted {
				a.doubt()
			}
		}
		return conn.AfterDoubt(slices.ContainsFunc(items, func(a *appending) bool { return a.unsure }), err)
	}
	g.hints.learn(l.places...)
	if l.otherLevel {
		g.setsLevel.Store(true)
	}
	for i, t := range tasks {
		g.settleTurn(t, verdicts[i], l)
	}
	g.announce()
	return nil
}

// lockTurns begins the transaction, locks the rows, and reads.
func (g *group) lockTurns(pg *pgx.Conn, l *ledger, items []*appending) (err error) {
	ctx := g.ctx
	if g.waits {
		var stop func(error)
		ctx, stop = g.giveUp(pg)
		defer func() { stop(err) }()
	}
	p := &conn.Pipeline{}
	p.Exec(ctx, "begin isolation level read committed")
	l.lock(ctx, p, waiting{sessions: g.waits, scopes: g.waits || g.awaits, brief: g.awaits})
	l.read(ctx, p, flat(items))
	return p.Send(ctx, pg)
}

// decideAll decides on all, in order. After one that is not answered, the later ones of
// its session are left, too, so that they keep their order, unless it leaves the groups.
func (l *ledger) decideAll(items []*appending, verdicts []verdict) {
	left := map[repo.ID]verdict{}
	for i, a := range items {
		v := answered
		for _, part := range a.each() {
			v = max(v, left[part.sessionID]) // held and deferred are above answered
		}
		if v == answered {
			v = l.decideWhole(a)
		}
		verdicts[i] = v
		if v == deferred || v == held && !a.spans && a.heldScope == nil {
			for _, part := range a.each() {
				left[part.sessionID] = v
			}
		}
	}
}

// settleTurn answers a task after its transaction, or leaves it to the scheduler.
func (g *group) settleTurn(t *task, v verdict, l *ledger) {
	switch {
	case v == held && t.Item.heldScope != nil:
		g.scopes.add(*t.Item.heldScope)
		g.leave(t, errScopeHeld)
	case v == held && t.Item.spans:
		g.leave(t, errSkipped)
	case v == held:
		var patience time.Duration
		if row := l.counters[t.Key]; row != nil {
			patience = row.patience
		}
		g.hold(t, patience)
	case v == deferred:
		if g.waits {
			g.runTurns([]*task{t})
		} else {
			g.Return(t)
		}
	default:
		g.done(t, t.Item.err)
	}
}

// skipSpanning lets the turns of several sessions leave the groups: a wait for one of
// these would hold up the others. It returns the rest.
func (g *group) skipSpanning(tasks []*task) (rest []*task) {
	for _, t := range tasks {
		if t.Item.spans {
			g.leave(t, errSkipped)
			continue
		}
		rest = append(rest, t)
	}
	return rest
}

// awaitTurns waits for the session of turns that change shared scopes, for its counter and
// its usage each in a transaction of its own, so that nobody waits for a row that it already
// has. Then it returns the turns to the groups: at most one group at a time
// changes shared scopes, and turns that were made beside it would compete with it.
func (g *group) awaitTurns(tasks []*task) {
	for attempt := 1; len(tasks) > 0; attempt++ {
		err := g.await(tasks)
		switch {
		case err == nil:
			for _, t := range tasks {
				g.Return(t)
			}
			return
		case conn.IsPassing(err) && g.ctx.Err() == nil && conn.Pause(g.ctx, attempt):
		case g.ctx.Err() != nil && g.Context().Err() == nil:
			return // evicted: the session is held
		default:
			g.failAll(tasks, err)
			return
		}
	}
}

func (g *group) await(tasks []*task) error {
	items := itemsOf(tasks)
	l := newLedger(flat(items))
	return g.conns.Run(g.ctx, conn.Reading, func(q db.DBTX) (err error) {
		ctx, stop := g.giveUp(q.(conn.Alone).Conn)
		defer func() { stop(err) }()
		if err := awaitCounters(ctx, q, sortedIDs(l.counters)...); err != nil {
			return err
		}
		if usages := sortedIDs(l.usages); len(usages) > 0 {
			if err := awaitUsages(ctx, q, usages...); err != nil {
				return err
			}
		}
		return nil
	})
}
