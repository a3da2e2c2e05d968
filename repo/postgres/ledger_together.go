package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// decideWhole decides on the next append, turn, or turns that are made together: all of
// these, or none.
func (l *ledger) decideWhole(w write) (verdict, error) {
	a, several := w.(*together)
	if !several {
		return l.decide(w.turns()[0])
	}
	a.met = barrier{}
	l.undo, l.undoes = nil, true
	defer func() { l.undo, l.undoes = nil, false }()
	whole := answered
	var absent error
	for _, part := range a.parts {
		v, err := l.decide(part)
		switch {
		case v == accepted:
			whole = accepted
		case v == answered && err == nil:
		case v == answered && (absent != nil || part.creates && conn.IsNoRows(err)):
			// The transaction that creates the session decides. It begins when no row is held
			// for which it would wait with those that it has.
			absent = cmp.Or(absent, sessionNotFound(part.sessionID))
		default:
			l.takeBack()
			if v == held {
				a.met.awaited, a.met.keeps = l.awaiting(part)
				a.met.heldScope, a.met.patience = part.met.heldScope, l.patience(a)
			}
			if errors.Is(err, errNoScope) {
				a.met.missing, a.met.patience = l.missing(a.parts), l.patience(a)
			}
			return v, conn.OrMissing(err, sessionNotFound(part.sessionID))
		}
	}
	if absent != nil || a.mayConflict() {
		l.takeBack()
		return answered, cmp.Or(absent, errApart)
	}
	return whole, nil
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
func (l *ledger) missing(parts []*turn) (missing []repo.Scope) {
	seen := map[repo.Scope]bool{}
	for _, part := range parts {
		if part.more == nil || l.counters[part.sessionID] == nil {
			continue
		}
		for _, scope := range part.more.State.Scopes {
			if l.scopes[scope.Scope] == nil && !seen[scope.Scope] {
				seen[scope.Scope] = true
				missing = append(missing, scope.Scope)
			}
		}
	}
	return missing
}

// patience returns how long the turns may find rows locked: see patienceOf.
func (l *ledger) patience(a *together) time.Duration {
	for _, part := range a.parts {
		if row := l.counters[part.sessionID]; row != nil {
			return row.patience
		}
	}
	return 0
}

// patienceOf returns how long a session may be found locked.
func (l *ledger) patienceOf(session repo.ID) time.Duration {
	if row := l.counters[session]; row != nil {
		return row.patience
	}
	return 0
}

// awaiting returns a function that waits for a row of a turn's that was skipped, and
// whether that is a session's counter.
func (l *ledger) awaiting(a *turn) (wait func(context.Context, db.DBTX) error, counter bool) {
	session := toUUID(a.sessionID)
	if row := l.counters[a.sessionID]; row != nil && row.held {
		return func(ctx context.Context, q db.DBTX) error {
			return queries.TurnAwaitCounters(ctx, q, []pgtype.UUID{session})
		}, true
	}
	if a.more == nil {
		return nil, false
	}
	for _, scope := range a.more.State.Scopes {
		if row := l.scopes[scope.Scope]; row != nil && row.held {
			return func(ctx context.Context, q db.DBTX) error { return awaitScopes(ctx, q, []repo.Scope{scope.Scope}) }, false
		}
	}
	return func(ctx context.Context, q db.DBTX) error {
		return queries.TurnAwaitUsages(ctx, q, []pgtype.UUID{session})
	}, false
}
