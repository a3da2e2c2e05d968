package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// group is a batch of appends that is being committed.
type group struct {
	*batch
	*appender
	// ctx is the batch's, or ends earlier if the waiter must give up its
	// connection.
	ctx context.Context
	// waits: the batch is of one session, and waits for its counter row.
	waits bool
	// awaits: the group waits briefly for scopes that others lock, too.
	awaits bool
	// held are the sessions whose row a statement skipped. Their further appends in
	// the group have to wait, too.
	held map[repo.ID]bool
	// news is what was not told yet.
	news []news
}

// commitGroup commits a group, which never waits for a counter row. It has one
// statement for each session: the session's other appends return to the scheduler.
func (p *appender) commitGroup(b *batch) {
	g := &group{batch: b, appender: p, ctx: b.Context()}
	if hasTurn(b.Tasks) {
		// Its transaction takes several appends to a session, whatever they expect. A
		// group that waits has only turns that change shared scopes, so that it delays
		// no other append. A pool that has no connection to spare has no such group.
		g.awaits = !p.patient && slices.ContainsFunc(b.Tasks, func(t *task) bool { return t.Item.shares() })
		g.runTurns(b.Tasks)
		return
	}
	all := statements(b.Tasks)
	first := all[:0]
	for _, s := range all {
		if len(first) > 0 && first[len(first)-1].sessionID() == s.sessionID() {
			for _, t := range s.tasks {
				b.Return(t)
			}
			continue
		}
		first = append(first, s)
	}
	g.run(first)
}

// commitWaiting commits one session's appends, and waits for its counter row.
func (p *appender) commitWaiting(b *batch) {
	g := &group{batch: b, appender: p, waits: true}
	var cancel context.CancelFunc
	g.ctx, cancel = context.WithCancel(b.Turn())
	defer cancel()
	defer p.evictWhenCrowded(cancel)()
	if slices.ContainsFunc(b.Tasks, func(t *task) bool { return t.Item.shares() }) {
		g.awaitTurns(g.skipSpanning(b.Tasks))
		return
	}
	if !hasTurn(b.Tasks) {
		if all := statements(b.Tasks); len(all) == 1 {
			g.run(all)
			return
		}
	}
	g.runTurns(b.Tasks)
}

func (g *group) done(t *task, err error) {
	if t.Item.err = err; err == nil {
		g.news = append(g.news, t.Item.news()...)
	}
	g.Done(t)
}

// announce tells those who follow sessions what was committed, all of it at once.
func (g *group) announce() {
	g.tell(g.news...)
	g.news = g.news[:0]
}

// run sends statements as one transaction until each append has its answer, or
// its session is held.
func (g *group) run(statements []*statement) {
	for attempt := 1; len(statements) > 0; attempt++ {
		answers, err := g.send(statements)
		switch {
		case err == nil:
			statements = g.answer(statements, answers)
			attempt = 0
		case conn.IsRejection(err) && (len(statements) > 1 || len(statements[0].tasks) > 1):
			// One append aborted the transaction of all: send each separately.
			for _, single := range split(statements) {
				if !g.held[single.sessionID()] {
					g.run([]*statement{single})
				}
			}
			return
		case conn.IsPassing(err) && !conn.IsRejection(err) && g.ctx.Err() == nil && conn.Pause(g.ctx, attempt):
			for _, s := range statements {
				s.checkIDs = s.checkIDs || s.unsure()
			}
		case g.ctx.Err() != nil && g.Context().Err() == nil:
			return // evicted: the session is held
		default:
			for _, s := range statements {
				g.failAll(s.tasks, err)
			}
			return
		}
	}
}

// send sends the statements as one transaction. They find the counter rows by the hints, if
// there are any. Only a batch that waits, and has no hint, waits for the row.
func (g *group) send(statements []*statement) (answers []*written, err error) {
	for _, s := range statements {
		s.hint = g.hints.of(s.sessionID())
	}
	err = g.conns.Run(g.ctx, conn.Committing, func(q db.DBTX) (err error) {
		if g.waits && !statements[0].hint.Valid {
			answers, err = g.sendWaiting(q, statements[0])
			return err
		}
		// These check the level themselves, so that none has to be set before them.
		guarded := db.DBTX(q.(conn.Alone).Conn)
		if g.setsLevel.Load() {
			guarded = q
		}
		answers, err = sendAppends(g.ctx, guarded, statements)
		return err
	})
	unsure := errors.Is(err, repo.ErrUnknownOutcome)
	for _, s := range statements {
		for _, a := range s.appends {
			a.unsure = a.unsure || unsure
		}
	}
	return answers, conn.AfterDoubt(slices.ContainsFunc(statements, (*statement).unsure), err)
}

// sendWaiting sends the statement of one session, which waits for its counter row.
func (g *group) sendWaiting(q db.DBTX, s *statement) (_ []*written, err error) {
	ctx, stop := g.giveUp(q.(conn.Alone).Conn)
	defer func() { stop(err) }()
	answer, err := sendLocked(ctx, q, s, conn.AtReadCommitted)
	return []*written{answer}, err
}

// answer gives those that were written their answer. It returns the statements to be sent
// again, without the hint that was wrong. The other appends are left to the scheduler, if
// their session is likely to be held, or decided on one by one.
func (g *group) answer(statements []*statement, answers []*written) (again []*statement) {
	var rest []*task
	places := make([]place, 0, len(statements))
	for i, s := range statements {
		switch answer := answers[i]; {
		case answer != nil:
			places = append(places, answer.place)
			s.written(answer.first, answer.createdAt)
			for _, t := range s.tasks {
				g.done(t, nil)
			}
		case s.hint.Valid || g.waits && g.hints.of(s.sessionID()).Valid:
			g.hints.forget(s.sessionID())
			again = append(again, s)
		case s.isPlain() && !g.waits:
			for _, t := range s.tasks {
				g.hold(t, 0)
			}
		default:
			rest = append(rest, s.tasks...)
		}
	}
	g.hints.learn(places...)
	g.announce()
	if len(rest) > 0 {
		g.runTurns(rest)
	}
	return again
}

// answerTime bounds the wait for the answer to an evicted waiter's statement.
const answerTime = 5 * time.Second

// giveUp has the server cancel a waiter's statement when the waiter is evicted: the
// server's answer says that nothing was written, and the connection stays open. It
// returns the statement's context, and a function to be called with its error.
func (g *group) giveUp(pg *pgx.Conn) (ctx context.Context, stop func(error)) {
	ctx, cancel := context.WithCancel(g.Context())
	ended := make(chan struct{})
	unless := context.AfterFunc(g.ctx, func() {
		defer close(ended)
		if g.Context().Err() != nil {
			return // all callers have gone: ctx ends, too
		}
		timed, free := context.WithTimeout(ctx, answerTime)
		defer free()
		_ = pg.PgConn().CancelRequest(timed)
		<-timed.Done()
		cancel()
	})
	return ctx, func(err error) {
		cancel()
		if unless() {
			return
		}
		<-ended
		if !conn.HasCode(err, conn.QueryCanceled) {
			// The request may still be on its way, and cancel the next statement.
			_ = pg.Close(ctx)
		}
	}
}

// hold leaves an append whose session's row was skipped to the scheduler, unless it was
// tried for longer than patience.
func (g *group) hold(t *task, patience time.Duration) {
	if g.held == nil {
		g.held = map[repo.ID]bool{}
	}
	g.held[t.Key] = true
	if t.Item.skipped.IsZero() {
		t.Item.skipped = time.Now()
	} else if g.patient && patience > 0 && time.Since(t.Item.skipped) >= patience {
		g.done(t, conn.Settled(conn.AfterDoubt(t.Item.unsure, &conn.Error{Sentinel: repo.ErrContention, Cause: conn.ErrLockTimeout})))
	}
}
