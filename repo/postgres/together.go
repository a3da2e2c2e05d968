package postgres

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// Turns that are made together are one item of a group. It is queued under the first of
// its sessions. A group locks the rows of all of them, decides on the parts one after the
// other, and takes back what it has decided if one is refused.
//
// If one of the rows is locked elsewhere, the item leaves the groups, since in its queue
// it would hold up the sessions that are free. Its caller submits it again, after pauses
// that grow, and holds no row meanwhile. Rows for which others queue may never be found
// free all at once. So every other time a caller waits for the row that was skipped
// alone, and then for all of them, in the order that all transactions have, each for a
// short time. Only few callers at a time do that. If others queue for a session, it would
// be theirs again by then: so the caller waits its turn, and keeps the row. That is out
// of order, but groups do not wait for sessions, and nobody's wait for the others is long.

var (
	// errSkipped: a row is locked elsewhere. The turns were not made.
	errSkipped = errors.New("a row of turns that are made together is locked elsewhere")
	// errApart: a message is stored already. Only a transaction that compares it before it
	// commits can make the turns.
	errApart = errors.New("turns that are made together need a transaction of their own")
)

// newTogether returns the append of several turns.
func newTogether(parts []*appending) *appending {
	whole := &appending{sessionID: parts[0].sessionID, parts: parts}
	for _, part := range parts {
		whole.spans = whole.spans || part.sessionID != parts[0].sessionID
		if part.sessionID.Compare(whole.sessionID) < 0 {
			whole.sessionID = part.sessionID
		}
	}
	return whole
}

// each returns the parts of turns that are made together, or the one append.
func (a *appending) each() []*appending {
	if a.parts == nil {
		return []*appending{a}
	}
	return a.parts
}

// flat returns the parts of all.
func flat(items []*appending) []*appending {
	if !slices.ContainsFunc(items, func(a *appending) bool { return a.parts != nil }) {
		return items
	}
	var parts []*appending
	for _, a := range items {
		parts = append(parts, a.each()...)
	}
	return parts
}

// doubt notes that an attempt may have been committed.
func (a *appending) doubt() {
	a.unsure = true
	for _, part := range a.parts {
		part.unsure = true
	}
}

// mayConflict reports whether a message of a part is stored, perhaps with other values.
func (a *appending) mayConflict() bool {
	return slices.ContainsFunc(a.parts, func(part *appending) bool { return part.outcome.known && part.repeatable })
}

// decideWhole decides on the next append, turn, or turns that are made together: all of
// these, or none.
func (l *ledger) decideWhole(a *appending) verdict {
	if a.parts == nil {
		return l.decide(a)
	}
	a.err, a.missing, a.heldScope, a.awaited, a.keeps = nil, nil, nil, nil, false
	l.undo, l.undoes = nil, true
	defer func() { l.undo, l.undoes = nil, false }()
	whole := answered
	var absent error
	for _, part := range a.parts {
		v := l.decide(part)
		switch {
		case v == accepted:
			whole = accepted
		case v == answered && part.err == nil:
		case v == answered && (absent != nil || part.creates && conn.IsNoRows(part.err)):
			// The transaction that creates the session decides. It begins when no row is held
			// for which it would wait with those that it has.
			absent = cmp.Or(absent, sessionNotFound(part.sessionID))
		default:
			l.takeBack()
			a.err = conn.OrMissing(part.err, sessionNotFound(part.sessionID))
			if v == held {
				a.awaited, a.keeps = l.awaiting(part)
				a.heldScope, a.patience = part.heldScope, l.patience(a)
			}
			if errors.Is(part.err, errNoScope) {
				a.missing, a.patience = l.missing(a.parts), l.patience(a)
			}
			return v
		}
	}
	if absent != nil || a.mayConflict() {
		l.takeBack()
		a.err = cmp.Or(absent, errApart)
		return answered
	}
	return whole
}

// note keeps the value of a variable of the ledger that is about to change, and put that
// of a map's entry, which it changes.
func note[T any](l *ledger, variable *T) {
	if l.undoes {
		was := *variable
		l.undo = append(l.undo, func() { *variable = was })
	}
}

func put[K comparable, V any](l *ledger, entries map[K]V, key K, value V) {
	if l.undoes {
		was, found := entries[key]
		l.undo = append(l.undo, func() {
			if found {
				entries[key] = was
			} else {
				delete(entries, key)
			}
		})
	}
	entries[key] = value
}

// takeBack undoes what the parts decided so far have changed.
func (l *ledger) takeBack() {
	for _, undo := range slices.Backward(l.undo) {
		undo()
	}
}

// missing returns the scopes that have no rows. Those of sessions that do not exist are
// left out: nobody can create them, and the session is what the caller hears of.
func (l *ledger) missing(parts []*appending) (missing []repo.Scope) {
	seen := map[repo.Scope]bool{}
	for _, part := range parts {
		if part.turn == nil || l.counters[part.sessionID] == nil {
			continue
		}
		for _, scope := range part.turn.State.Scopes {
			if l.scopes[scope.Scope] == nil && !seen[scope.Scope] {
				seen[scope.Scope] = true
				missing = append(missing, scope.Scope)
			}
		}
	}
	return missing
}

// patience returns how long the turns may find rows locked: see patienceOf.
func (l *ledger) patience(a *appending) time.Duration {
	for _, part := range a.parts {
		if row := l.counters[part.sessionID]; row != nil {
			return row.patience
		}
	}
	return 0
}

// awaiting returns a function that waits for a row of a turn's that was skipped, and
// whether that is a session's counter.
func (l *ledger) awaiting(a *appending) (wait func(context.Context, db.DBTX) error, counter bool) {
	session := toUUID(a.sessionID)
	if row := l.counters[a.sessionID]; row != nil && row.held {
		return func(ctx context.Context, q db.DBTX) error { return awaitCounters(ctx, q, session) }, true
	}
	if a.turn == nil {
		return nil, false
	}
	for _, scope := range a.turn.State.Scopes {
		if row := l.scopes[scope.Scope]; row != nil && row.held {
			return func(ctx context.Context, q db.DBTX) error { return awaitScope(ctx, q, scope.Scope) }, false
		}
	}
	return func(ctx context.Context, q db.DBTX) error { return awaitUsages(ctx, q, session) }, false
}

func awaitCounters(ctx context.Context, q db.DBTX, ids ...pgtype.UUID) error {
	_, err := queries.TurnLockCounters(ctx, q, ids, true)
	return err
}

func awaitUsages(ctx context.Context, q db.DBTX, ids ...pgtype.UUID) error {
	_, err := queries.TurnLockUsages(ctx, locking(q, true), ids)
	return err
}

func awaitScope(ctx context.Context, q db.DBTX, scope repo.Scope) error {
	_, err := queries.TurnLockScopes(ctx, locking(q, true), lockParams([]repo.Scope{scope}))
	return err
}

// leave lets turns leave the groups, for a row that is locked elsewhere.
func (g *group) leave(t *task, why error) {
	if t.Item.skipped.IsZero() {
		t.Item.skipped = time.Now()
	}
	g.done(t, why)
}

// longestSkip bounds the pauses of a caller whose rows are locked elsewhere.
const longestSkip = 100 * time.Millisecond

// goOn continues the turns of which a group has skipped a row for the skips-th time. It
// returns errSkipped if they should be submitted again.
func (p *pooled) goOn(ctx context.Context, a *appending, skips int) error {
	if a.patience > 0 && time.Since(a.skipped) >= a.patience {
		return &conn.Error{Sentinel: repo.ErrContention, Cause: conn.ErrLockTimeout}
	}
	if skips%2 == 0 && !p.appender.patient {
		select {
		case p.appender.apart <- struct{}{}:
			err := p.appendApart(ctx, a)
			<-p.appender.apart
			if !conn.HasCode(err, conn.LockNotAvailable) && (!conn.IsPassing(err) || ctx.Err() != nil) {
				return err
			}
		default: // others are at it
		}
	}
	longest := min(time.Millisecond<<min(skips, 10), longestSkip)
	timer := time.NewTimer(longest/2 + rand.N(longest/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return conn.Translate(ctx, ctx.Err(), conn.Unsent)
	case <-timer.C:
		return errSkipped
	}
}

// appendApart makes turns together in a transaction of their own, which waits for each
// row for a short time.
func (p *pooled) appendApart(ctx context.Context, whole *appending) error {
	err := p.conns.Run(ctx, conn.Reading, func(q db.DBTX) error {
		wait := &conn.Pipeline{} // alone: nobody waits for a row that this one has
		if whole.awaited != nil && !whole.keeps {
			wait.Add(func(q db.DBTX) error { return queries.TurnLimitWait(ctx, q) })
			wait.Add(func(q db.DBTX) error { return whole.awaited(ctx, q) })
			if err := wait.Send(ctx, q); err != nil {
				return err
			}
		}
		tx, err := q.(conn.Alone).Conn.BeginTx(ctx, conn.ReadCommitted)
		if err != nil {
			return err
		}
		defer conn.Rollback(ctx, tx)
		if whole.awaited != nil && whole.keeps {
			wait.Add(func(q db.DBTX) error { return queries.TurnLimitQueue(ctx, q) })
			wait.Add(func(q db.DBTX) error { return whole.awaited(ctx, q) })
			if err := wait.Send(ctx, tx); err != nil {
				return err
			}
		}
		if err := appendAll(ctx, tx, whole.parts, briefly); err != nil {
			return err
		}
		switch {
		case whole.mayConflict():
			return &conn.Answer{Err: errApart}
		case ctx.Err() != nil:
			return ctx.Err()
		case tx.Conn().IsClosed(): // surely not committed
			return conn.ErrClosedBetween
		}
		if err := tx.Commit(ctx); err != nil {
			return &conn.Answer{Err: conn.Translate(ctx, err, conn.Committing)}
		}
		return nil
	})
	if errors.Is(err, repo.ErrUnknownOutcome) {
		whole.doubt()
	}
	return conn.AfterDoubt(whole.unsure, err)
}
