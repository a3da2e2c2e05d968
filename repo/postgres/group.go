package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// group is the appends of one transaction.
type group struct {
	waiters  []*waiter
	messages int
	bytes    int

	// ctx ends when every caller has gone, so that a server that does not answer
	// cannot hold the lane for nobody.
	ctx     context.Context
	cancel  context.CancelFunc
	callers atomic.Int64 // and one for the lane, until the group is sealed

	// unsure: some attempt may have been committed.
	unsure bool
}

func newGroup() *group {
	g := &group{}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.callers.Store(1)
	return g
}

func (g *group) full() bool { return g.messages >= groupMessages || g.bytes >= groupBytes }

// add takes an append into the group, unless it was withdrawn. The caller is
// counted first: it may desert from the moment it is taken.
func (g *group) add(w *waiter) bool {
	w.group = g
	g.callers.Add(1)
	if !w.state.CompareAndSwap(waiting, taken) {
		g.callers.Add(-1)
		return false
	}
	g.waiters = append(g.waiters, w)
	g.messages += len(w.messages)
	for i := range w.messages {
		m := &w.messages[i]
		g.bytes += len(m.Content) + len(m.Metadata) + len(m.Payload)
	}
	return true
}

// seal says that the group is complete.
func (g *group) seal() { g.desert() }

// desert says that a caller has gone.
func (g *group) desert() {
	if g.callers.Add(-1) == 0 {
		g.cancel()
	}
}

// statement is the appends to one session that one statement makes.
type statement struct {
	waiters  []*waiter
	checkIDs bool
}

func (s *statement) params() db.MessageAppendParams {
	first := s.waiters[0]
	appends := make([]*appending, len(s.waiters))
	for i, w := range s.waiters {
		appends[i] = w.appending
	}
	return appendParams(first.sessionID, first.expected, s.checkIDs, appends...)
}

// size is the number of messages.
func (s *statement) size() (size int) {
	for _, w := range s.waiters {
		size += len(w.messages)
	}
	return size
}

// statements orders the group by session, so that groups of several processes
// lock in one order, and joins what can be: neighbours that expect no sequence
// and give no id twice.
func (g *group) statements() []*statement {
	slices.SortStableFunc(g.waiters, func(a, b *waiter) int {
		return bytes.Compare(a.sessionID[:], b.sessionID[:])
	})
	var all []*statement
	var last *statement
	given := map[repo.ID]struct{}{} // by callers, in the last statement
	for _, w := range g.waiters {
		if last == nil || last.waiters[0].sessionID != w.sessionID || last.waiters[0].expected != nil ||
			w.expected != nil || w.repeatable && givesAgain(given, w) {
			last = &statement{}
			all = append(all, last)
			clear(given)
		}
		last.waiters = append(last.waiters, w)
		if w.repeatable {
			last.checkIDs = true
			for i := range w.messages {
				given[w.messages[i].ID] = struct{}{}
			}
		}
	}
	return all
}

func givesAgain(given map[repo.ID]struct{}, w *waiter) bool {
	return slices.ContainsFunc(w.messages, func(m repo.NewMessage) bool {
		_, again := given[m.ID]
		return again
	})
}

// commit commits the group and answers every waiter.
func (g *group) commit(link link) {
	defer g.cancel()
	g.run(link, g.statements())
}

// run sends statements as one transaction until each waiter has its answer.
func (g *group) run(link link, statements []*statement) {
	for attempt := 1; len(statements) > 0; attempt++ {
		rows, err := g.send(link, statements)
		switch {
		case err == nil:
			// What is left are appends that their neighbours' stored ids kept
			// from being written. Alone, each gets its answer.
			statements = g.answer(statements, rows)
			attempt = 0
		case isRejection(err) && (len(statements) > 1 || len(statements[0].waiters) > 1):
			// One append spoiled the transaction of all: each by itself.
			for _, single := range g.split(statements...) {
				g.run(link, []*statement{single})
			}
			return
		case violates(err, uniqueMessageID) && attempt < maxAttempts:
			// The message was committed while this statement waited for the
			// lock. One that begins now sees it.
			statements[0].checkIDs = true
		case isPassing(err) && g.ctx.Err() == nil && pause(g.ctx, attempt):
			for _, s := range statements {
				s.checkIDs = s.checkIDs || g.unsure
			}
		default:
			for _, s := range statements {
				for _, w := range s.waiters {
					w.answer(db.MessageAppendRow{}, settled(err))
				}
			}
			return
		}
	}
}

// send sends the statements, joined to one where that is possible.
func (g *group) send(link link, statements []*statement) (rows []*db.MessageAppendRow, err error) {
	join := canJoin(statements) && !link.apart.Load()
	err = link.run(g.ctx, committing, func(q db.DBTX) (err error) {
		if join {
			rows, err = sendJoined(g.ctx, q, statements)
			return err
		}
		params := make([]db.MessageAppendParams, len(statements))
		for i, s := range statements {
			params[i] = s.params()
		}
		rows, err = sendAppends(g.ctx, q, params)
		return err
	})
	if join && hasCode(err, featureNotSupported) {
		link.apart.Store(true)
		return g.send(link, statements)
	}
	if errors.Is(err, repo.ErrUnknownOutcome) {
		g.unsure = true
	}
	return rows, afterDoubt(g.unsure, err)
}

// answer gives each waiter its row, and returns the statements to be run again.
func (g *group) answer(statements []*statement, rows []*db.MessageAppendRow) (again []*statement) {
	for i, s := range statements {
		row := rows[i]
		switch {
		case g.unsure && s.mayFitLater(row):
			for _, w := range s.waiters {
				w.answer(db.MessageAppendRow{}, &storeError{repo.ErrUnknownOutcome, errLateAttempt})
			}
		case row == nil:
			for _, w := range s.waiters {
				w.answer(db.MessageAppendRow{}, pgx.ErrNoRows)
			}
		case row.CreatedAt == nil && isKnown(*row) && len(s.waiters) > 1:
			again = append(again, g.split(s)...)
		default:
			own := *row
			for _, w := range s.waiters {
				w.answer(own, nil)
				own.NextSequence += int64(len(w.messages))
			}
		}
	}
	return again
}

// errLateAttempt: nothing was written, but by an attempt whose answer was lost
// it may be.
var errLateAttempt = errors.New("an earlier attempt may still arrive")

// mayFitLater reports an answer that a later state may reverse: that there is no
// session, or not yet as many messages as were expected. An attempt whose
// connection broke may be on its way to the server, and find that state. (One
// that is not reversed: sequences only grow, and what is stored stays.)
func (s *statement) mayFitLater(row *db.MessageAppendRow) bool {
	if row == nil {
		return true
	}
	expected := s.waiters[0].expected
	return row.CreatedAt == nil && !isKnown(*row) && expected != nil && *expected > row.NextSequence
}

// split makes a statement of each append.
func (g *group) split(statements ...*statement) []*statement {
	var singles []*statement
	for _, s := range statements {
		for _, w := range s.waiters {
			singles = append(singles, &statement{waiters: []*waiter{w}, checkIDs: w.repeatable || g.unsure})
		}
	}
	return singles
}

// isRejection reports an error that some append of a group caused and that says
// nothing about the others.
func isRejection(err error) bool {
	return errors.Is(err, repo.ErrInvalid) || errors.Is(err, repo.ErrConflict)
}
