package postgres

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// group is a batch of appends that is being committed.
type group struct {
	*batch
	// ctx is the batch's, or ends earlier if the waiter must give up its
	// connection.
	ctx   context.Context
	conns conns
	// waits: the batch is of one session, and waits for its counter row.
	waits bool
	// patient and setsLevel are the appender's.
	patient   bool
	setsLevel *atomic.Bool
	// awaits: the group waits briefly for scopes that others lock, too.
	awaits bool
	// held are the sessions whose row a statement skipped. Their further appends in
	// the group have to wait, too.
	held map[repo.ID]bool
	// tell says what is new, and news is what was not told yet.
	tell func(...news)
	news []news
}

// commitGroup commits a group, which never waits for a counter row. It has one
// statement for each session: the session's other appends return to the scheduler.
func (p *appender) commitGroup(b *batch) {
	g := &group{batch: b, ctx: b.Context(), conns: p.conns, tell: p.tell, patient: p.patient, setsLevel: &p.setsLevel}
	if hasTurn(b.Tasks) {
		// Its transaction takes several appends to a session, whatever they expect. A
		// group that waits has only turns that change shared scopes, so that it delays
		// no other append. A pool that has no connection to spare has no such group.
		g.awaits = !p.patient && slices.ContainsFunc(b.Tasks, func(t *task) bool { return t.Item.shares() && t.Item.skipped.IsZero() })
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
	g := &group{batch: b, conns: p.conns, tell: p.tell, waits: true}
	var cancel context.CancelFunc
	g.ctx, cancel = context.WithCancel(b.Turn())
	defer cancel()
	defer p.evictWhenCrowded(cancel)()
	switch {
	case slices.ContainsFunc(b.Tasks, func(t *task) bool { return t.Item.shares() }):
		g.awaitTurns(g.skipSpanning(b.Tasks))
		return
	case hasTurn(b.Tasks):
		g.runTurns(b.Tasks)
		return
	}
	g.run(statements(b.Tasks))
}

// statement has the appends to one session that one statement makes.
type statement struct {
	tasks []*task
	// fence is the token that all have. 0: none.
	fence    int64
	checkIDs bool
}

func (s *statement) sessionID() repo.ID { return s.tasks[0].Key }
func (s *statement) expected() *int64   { return s.tasks[0].Item.expected }

// unsure reports whether an earlier attempt at one of the appends may have been
// committed.
func (s *statement) unsure() bool {
	return slices.ContainsFunc(s.tasks, func(t *task) bool { return t.Item.unsure })
}

func (s *statement) params() db.MessageAppendParams {
	appends := make([]*appending, len(s.tasks))
	for i, t := range s.tasks {
		appends[i] = t.Item
	}
	return appendParams(s.sessionID(), s.expected(), s.checkIDs, appends...)
}

// size is the number of messages.
func (s *statement) size() (size int) {
	for _, t := range s.tasks {
		size += len(t.Item.messages)
	}
	return size
}

// statements joins consecutive appends that one statement can make: those that expect
// no sequence, have the same token and give no id twice.
func statements(tasks []*task) []*statement {
	var all []*statement
	var last *statement
	given := map[repo.ID]struct{}{} // by callers, in the last statement
	for _, t := range tasks {
		a := t.Item
		if last == nil || last.sessionID() != t.Key || last.expected() != nil || last.tasks[0].Item.single ||
			a.expected != nil || a.single || a.fence != last.fence || a.repeatable && givesAgain(given, a) {
			last = &statement{fence: a.fence}
			all = append(all, last)
			clear(given)
		}
		last.tasks = append(last.tasks, t)
		last.checkIDs = last.checkIDs || a.repeatable || a.unsure
		if a.repeatable {
			for i := range a.messages {
				given[a.messages[i].ID] = struct{}{}
			}
		}
	}
	return all
}

func givesAgain(given map[repo.ID]struct{}, a *appending) bool {
	return slices.ContainsFunc(a.messages, func(m repo.NewMessage) bool {
		_, again := given[m.ID]
		return again
	})
}

func (g *group) done(t *task, row db.MessageAppendRow, err error) {
	t.Item.row, t.Item.err = row, err
	if err == nil {
		g.news = append(g.news, t.Item.news(row)...)
	}
	g.Done(t)
}

// announce tells those who follow sessions what was committed, all of it at once.
func (g *group) announce() {
	g.tell(g.news...)
	g.news = g.news[:0]
}

// failed answers all appends of a statement with an error.
func (g *group) failed(s *statement, err error) {
	for _, t := range s.tasks {
		g.done(t, db.MessageAppendRow{}, err)
	}
}

// run sends statements as one transaction until each append has its answer, or
// its session is held.
func (g *group) run(statements []*statement) {
	for attempt := 1; len(statements) > 0; attempt++ {
		rows, err := g.send(statements)
		switch {
		case err == nil:
			// The remaining appends were not written because of stored ids of
			// others in the statement. Alone, each gets its answer.
			statements = g.answer(statements, rows)
			attempt = 0
		case isRejection(err) && (len(statements) > 1 || len(statements[0].tasks) > 1):
			// One append aborted the transaction of all: send each separately.
			for _, single := range split(statements...) {
				if !g.held[single.sessionID()] {
					g.run([]*statement{single})
				}
			}
			return
		case violates(err, uniqueMessageID) && attempt < maxAttempts:
			// The message was committed after the statement began and before it
			// got the lock. A new statement sees it.
			statements[0].checkIDs = true
		case isPassing(err) && !isRejection(err) && g.ctx.Err() == nil && pause(g.ctx, attempt):
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

// answerRow is the database's answer to a statement. Nil: there is no such session.
type answerRow struct {
	db.MessageAppendRow
	held bool
	// patience is how long a held row is worth trying for: as long as the attempts
	// that larger pools make of such a wait. Zero: as long as the context.
	patience time.Duration
}

// patienceOf returns the patience for a lock timeout in milliseconds.
func patienceOf(lockTimeout int64) time.Duration {
	return maxAttempts * time.Duration(lockTimeout) * time.Millisecond
}

// send sends the statements as one transaction. All appends outside of a
// caller's transaction are sent here.
func (g *group) send(statements []*statement) (rows []*answerRow, err error) {
	err = g.conns.run(g.ctx, committing, func(q db.DBTX) (err error) {
		if g.waits {
			rows, err = g.sendWaiting(q, statements)
		} else {
			rows, err = g.sendGroup(q.(alone), statements)
		}
		return err
	})
	unsure := errors.Is(err, repo.ErrUnknownOutcome)
	for _, s := range statements {
		for _, t := range s.tasks {
			t.Item.unsure = t.Item.unsure || unsure
		}
	}
	return rows, afterDoubt(slices.ContainsFunc(statements, (*statement).unsure), err)
}

// sendWaiting sends the statements of one session, which wait for its counter row.
func (g *group) sendWaiting(q db.DBTX, statements []*statement) (_ []*answerRow, err error) {
	ctx, stop := g.giveUp(q.(alone).conn)
	defer func() { stop(err) }()
	params := make([]db.MessageAppendParams, len(statements))
	for i, s := range statements {
		params[i] = s.params()
	}
	return sendAppends(ctx, q, params)
}

// answerTime bounds the wait for the answer to an evicted waiter's statement.
const answerTime = 5 * time.Second

// giveUp has the server cancel a waiter's statement when the waiter is evicted: the
// server's answer says that nothing was written, and the connection stays open. It
// returns the statement's context, and a function to be called with its error.
func (g *group) giveUp(conn *pgx.Conn) (ctx context.Context, stop func(error)) {
	ctx, cancel := context.WithCancel(g.Context())
	ended := make(chan struct{})
	unless := context.AfterFunc(g.ctx, func() {
		defer close(ended)
		if g.Context().Err() != nil {
			return // all callers have gone: ctx ends, too
		}
		timed, free := context.WithTimeout(ctx, answerTime)
		defer free()
		_ = conn.PgConn().CancelRequest(timed)
		<-timed.Done()
		cancel()
	})
	return ctx, func(err error) {
		cancel()
		if unless() {
			return
		}
		<-ended
		if !hasCode(err, queryCanceled) {
			// The request may still be on its way, and cancel the next statement.
			_ = conn.Close(ctx)
		}
	}
}

// answer gives each append its row, and returns the statements to be run again.
func (g *group) answer(statements []*statement, rows []*answerRow) (again []*statement) {
	defer g.announce()
	for i, s := range statements {
		row := rows[i]
		switch {
		case row != nil && row.held:
			for _, t := range s.tasks {
				g.hold(t, row.patience)
			}
		case s.unsure() && s.mayFitLater(row):
			g.failed(s, &storeError{repo.ErrUnknownOutcome, errLateAttempt})
		case row == nil:
			g.failed(s, pgx.ErrNoRows)
		case row.CreatedAt == nil && isKnown(row.MessageAppendRow) && len(s.tasks) > 1:
			again = append(again, g.alone(s)...)
		case isRefused(row.MessageAppendRow):
			g.failed(s, s.tasks[0].Item.fenced(row.MessageAppendRow))
		default:
			own := row.MessageAppendRow
			for _, t := range s.tasks {
				g.done(t, own, nil)
				own.NextSequence += int64(len(t.Item.messages))
			}
		}
	}
	return again
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
		g.done(t, db.MessageAppendRow{}, settled(afterDoubt(t.Item.unsure, &storeError{repo.ErrContention, errLockTimeout})))
	}
}

// alone makes a statement of each append: in this batch if a session may have several
// statements in it, otherwise in later groups.
func (g *group) alone(s *statement) []*statement {
	if g.waits {
		return split(s)
	}
	for _, t := range s.tasks {
		t.Item.single = true
		g.Return(t)
	}
	return nil
}

var errLockTimeout = errors.New("a row was locked for longer than the lock timeout")

// errLateAttempt: this attempt wrote nothing, but one whose answer was lost may write
// later.
var errLateAttempt = errors.New("an earlier attempt may still be committed")

// mayFitLater reports an answer that a later state may reverse: that there is no
// session, that it has fewer messages than expected, or that a write needs a token. An attempt whose connection
// broke may still be on its way to the server, and find that state. (Other answers are
// final, because sequences only grow and messages are kept.)
func (s *statement) mayFitLater(row *answerRow) bool {
	if row == nil {
		return true
	}
	if isRefused(row.MessageAppendRow) {
		return s.fence == 0 // the session may take such writes later
	}
	expected := s.expected()
	return row.CreatedAt == nil && !isKnown(row.MessageAppendRow) && expected != nil && *expected > row.NextSequence
}

// split makes a statement of each append.
func split(statements ...*statement) []*statement {
	var singles []*statement
	for _, s := range statements {
		for _, t := range s.tasks {
			singles = append(singles, &statement{tasks: []*task{t}, fence: t.Item.fence, checkIDs: t.Item.repeatable || t.Item.unsure})
		}
	}
	return singles
}

// circumstances are SQLSTATE classes, and one SQLSTATE, of errors that are caused by the
// connection, the transaction, the server or the moment, not by the appends.
var circumstances = []string{"08", "0A", "25", "26", "40", "53", "55", "57", "58", "XX", duplicatePrepared}

// isRejection reports an error that one append of a group, or a trigger of the owner's
// on it, has caused and would cause again. It says nothing about the other appends.
func isRejection(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && !endsConnection(pgErr) && !slices.Contains(circumstances, class(pgErr)) && !slices.Contains(circumstances, pgErr.Code)
}
