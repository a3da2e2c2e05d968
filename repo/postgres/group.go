package postgres

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// group is a batch of appends while it is committed.
type group struct {
	*batch
	// ctx is the batch's, or ends before it: the waiter is to give up its
	// connection.
	ctx  context.Context
	link link
	// waits: it is of one session, and waits for the counter row.
	waits bool
	// held are the sessions whose row a statement skipped: what else the group
	// has for them stays behind that.
	held map[repo.ID]bool
}

// commitGroup commits a group, which waits for no counter row. It has one
// statement for a session at a time: a session's other appends go back.
func (p *appender) commitGroup(b *batch) {
	g := &group{batch: b, ctx: b.Context(), link: p.link}
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
	g := &group{batch: b, link: p.link, waits: true}
	var cancel context.CancelFunc
	g.ctx, cancel = context.WithCancel(b.Turn())
	defer cancel()
	defer p.evictWhenCrowded(cancel)()
	g.run(statements(b.Tasks))
}

// statement is the appends to one session that one statement makes.
type statement struct {
	tasks    []*task
	checkIDs bool
}

func (s *statement) sessionID() repo.ID { return s.tasks[0].Key }
func (s *statement) expected() *int64   { return s.tasks[0].Item.expected }

// unsure reports whether an attempt at some of it may have been committed.
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

// statements joins what one statement can do: neighbours that expect no sequence
// and give no id twice.
func statements(tasks []*task) []*statement {
	var all []*statement
	var last *statement
	given := map[repo.ID]struct{}{} // by callers, in the last statement
	for _, t := range tasks {
		a := t.Item
		if last == nil || last.sessionID() != t.Key || last.expected() != nil || last.tasks[0].Item.single ||
			a.expected != nil || a.single || a.repeatable && givesAgain(given, a) {
			last = &statement{}
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
	g.Done(t)
}

// run sends statements as one transaction until each append has its answer, or
// its session is held.
func (g *group) run(statements []*statement) {
	for attempt := 1; len(statements) > 0; attempt++ {
		rows, err := g.send(statements)
		switch {
		case err == nil:
			// What is left are appends that their neighbours' stored ids kept
			// from being written. Alone, each gets its answer.
			statements = g.answer(statements, rows)
			attempt = 0
		case isRejection(err) && (len(statements) > 1 || len(statements[0].tasks) > 1):
			// One append spoiled the transaction of all: each by itself.
			for _, single := range split(statements...) {
				if !g.held[single.sessionID()] {
					g.run([]*statement{single})
				}
			}
			return
		case violates(err, uniqueMessageID) && attempt < maxAttempts:
			// The message was committed between the statement's beginning and
			// the lock. One that begins now sees it.
			statements[0].checkIDs = true
		case isPassing(err) && g.ctx.Err() == nil && pause(g.ctx, attempt):
			for _, s := range statements {
				s.checkIDs = s.checkIDs || s.unsure()
			}
		case g.ctx.Err() != nil && g.Context().Err() == nil:
			return // evicted: the session is held
		default:
			for _, s := range statements {
				for _, t := range s.tasks {
					g.done(t, db.MessageAppendRow{}, settled(afterDoubt(t.Item.unsure, err)))
				}
			}
			return
		}
	}
}

// answerRow is what the database says of a statement; nil: there is no such
// session.
type answerRow struct {
	db.MessageAppendRow
	held bool
}

// send sends the statements as one transaction. All appends outside of a
// caller's transaction are sent here.
func (g *group) send(statements []*statement) (rows []*answerRow, err error) {
	err = g.link.run(g.ctx, committing, func(q db.DBTX) (err error) {
		if g.waits {
			rows, err = g.sendWaiting(q, statements)
		} else {
			rows, err = sendJoined(g.ctx, q, statements)
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
func (g *group) sendWaiting(q db.DBTX, statements []*statement) ([]*answerRow, error) {
	ctx, stop := g.giveUp(q.(alone).conn)
	var err error
	defer func() { stop(err) }()
	params := make([]db.MessageAppendParams, len(statements))
	for i, s := range statements {
		params[i] = s.params()
	}
	var found []*db.MessageAppendRow
	found, err = sendAppends(ctx, q, params)
	if err != nil {
		return nil, err
	}
	rows := make([]*answerRow, len(found))
	for i, row := range found {
		if row != nil {
			rows[i] = &answerRow{MessageAppendRow: *row}
		}
	}
	return rows, nil
}

// answerTime bounds how long an evicted waiter's statement has for its answer.
const answerTime = 5 * time.Second

// giveUp has the server cancel what the waiter sends on the connection when it is
// evicted: the server's answer says that nothing was written, and the connection
// stays. It returns the statement's context, and what is called with its error.
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
			// The request may still be on its way, to whatever is sent next.
			_ = conn.Close(ctx)
		}
	}
}

// answer gives each append its row, and returns the statements to be run again.
func (g *group) answer(statements []*statement, rows []*answerRow) (again []*statement) {
	for i, s := range statements {
		row := rows[i]
		switch {
		case row != nil && row.held:
			if g.held == nil {
				g.held = map[repo.ID]bool{}
			}
			g.held[s.sessionID()] = true
			for _, t := range s.tasks {
				t.Item.skipped = true
			}
		case s.unsure() && s.mayFitLater(row):
			for _, t := range s.tasks {
				g.done(t, db.MessageAppendRow{}, &storeError{repo.ErrUnknownOutcome, errLateAttempt})
			}
		case row == nil:
			for _, t := range s.tasks {
				g.done(t, db.MessageAppendRow{}, pgx.ErrNoRows)
			}
		case row.CreatedAt == nil && isKnown(row.MessageAppendRow) && len(s.tasks) > 1:
			again = append(again, g.alone(s)...)
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

// alone has each append of a statement be one by itself: here, where a session
// may have several statements, else in later groups.
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

// errLateAttempt: nothing was written, but by an attempt whose answer was lost
// it may be.
var errLateAttempt = errors.New("an earlier attempt may still be committed")

// mayFitLater reports an answer that a later state may reverse: that there is no
// session, or not yet as many messages as were expected. An attempt whose
// connection broke may be on its way to the server, and find that state. (One
// that is not reversed: sequences only grow, and what is stored stays.)
func (s *statement) mayFitLater(row *answerRow) bool {
	if row == nil {
		return true
	}
	expected := s.expected()
	return row.CreatedAt == nil && !isKnown(row.MessageAppendRow) && expected != nil && *expected > row.NextSequence
}

// split makes a statement of each append.
func split(statements ...*statement) []*statement {
	var singles []*statement
	for _, s := range statements {
		for _, t := range s.tasks {
			singles = append(singles, &statement{tasks: []*task{t}, checkIDs: t.Item.repeatable || t.Item.unsure})
		}
	}
	return singles
}

// isRejection reports an error that some append of a group caused and that says
// nothing about the others.
func isRejection(err error) bool {
	return errors.Is(err, repo.ErrInvalid) || errors.Is(err, repo.ErrConflict)
}
