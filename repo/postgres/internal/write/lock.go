package write

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// waiting says which locks a transaction waits for. The others it skips. It may create
// the rows of scopes that do not exist, and waits then for others that do. brief bounds
// each wait.
type waiting struct{ sessions, scopes, creates, brief bool }

// awaits reports whether a scope is waited for. Briefly, a session's own is not: that is waited for like a counter.
func (w waiting) awaits(scope repo.Scope) bool { return w.scopes && (!w.brief || scope.Name != "") }

// How long a lock is waited for, as the setting has it: in a group, and for the first row of a transaction, while it
// holds no other lock.
const (
	briefly = "20ms"
	queued  = "250ms"
)

// lock adds the statements that lock the rows, in an order that all transactions have.
func (l *ledger) lock(ctx context.Context, p *conn.Pipeline, waits waiting) {
	limit := func() {
		if waits.brief {
			limitWait(ctx, p, briefly, &l.lockTimeout)
		}
	}
	if waits.sessions {
		limit()
	}
	l.lockCounters(ctx, p, waits.sessions)
	l.lockUsages(ctx, p, waits.sessions)
	if waits.scopes && !waits.sessions && len(l.scopes) > 0 {
		limit() // only now, so that the setting is what the counters' statement returns
	}
	l.lockScopes(ctx, p, waits)
	l.lockWork(ctx, p, waits.sessions)
}

// limitWait adds the statement that bounds the rest of the transaction's waits. was, if it is not nil, gets the setting
// before that, unless it has it already.
func limitWait(ctx context.Context, p *conn.Pipeline, bound string, was **int64) {
	p.Add(func(q db.DBTX) error {
		row, err := queries.TurnLimitWait(ctx, q, bound)
		if was != nil && *was == nil && err == nil {
			*was = &row.Was
		}
		return err
	})
}

func (l *ledger) lockCounters(ctx context.Context, p *conn.Pipeline, waits bool) {
	sessions := sortedIDs(l.counters)
	if len(sessions) > 0 && waits {
		p.Add(func(q db.DBTX) error { return queries.TurnAwaitCounters(ctx, q, sessions) })
	}
	if len(sessions) > 0 {
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnLockCounters(ctx, q, db.TurnLockCountersParams{
				SessionIds: sessions,
				Hints:      convert.Each(sessions, func(id pgtype.UUID) pgtype.TID { return l.hintOf(id.Bytes) }),
			})
			for _, row := range rows {
				if row.Locked && waits {
					continue // it was deleted during the wait
				}
				l.begun = row.Now
				l.counters[row.SessionID.Bytes] = &counterRow{
					next: row.NextSequence, stored: row.NextSequence, follows: row.Follows, wasFollows: row.Follows,
					locked: row.Locked, hint: row.Hint, updated: row.UpdatedAt, fence: row.Fence, fencedOnly: row.FencedOnly,
					patience: conn.PatienceOf(row.LockTimeout),
				}
				l.otherLevel = l.otherLevel || row.OtherLevel
			}
			return err
		})
	}
}

// hintOf returns where a row may be.
func (l *ledger) hintOf(key repo.ID) pgtype.TID {
	if l.hints == nil {
		return pgtype.TID{}
	}
	return l.hints.Of(key)
}

func (l *ledger) lockUsages(ctx context.Context, p *conn.Pipeline, waits bool) {
	sessions := sortedIDs(l.usages)
	if len(sessions) > 0 && waits {
		p.Add(func(q db.DBTX) error { return queries.TurnAwaitUsages(ctx, q, sessions) })
	}
	if len(sessions) > 0 {
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnLockUsages(ctx, q, sessions)
			for _, row := range rows {
				l.usages[row.SessionID.Bytes] = &usageRow{
					total:  convert.Usage(row.InputTokens, row.OutputTokens, row.CostNanos),
					budget: (*repo.Cost)(row.BudgetNanos),
				}
			}
			return err
		})
	}
}

func (l *ledger) lockScopes(ctx context.Context, p *conn.Pipeline, waits waiting) {
	scopes := sortedScopes(l.scopes)
	switch {
	case len(scopes) == 0:
		return
	case waits.creates:
		LockScopes(ctx, p, scopes)
	case waits.scopes:
		awaited := slices.DeleteFunc(sortedScopes(l.scopes), func(s repo.Scope) bool { return !waits.awaits(s) })
		p.Add(func(q db.DBTX) error { return l.awaitScopes(ctx, q, awaited) })
	}
	l.findScopes(ctx, p, scopes, waits)
}

// create makes the rows of scopes that have none, unless the turn's session does not exist, or is locked. It waits
// briefly for another transaction that does. A scope that has got values meanwhile, which were not read, is left as one
// without a row.
func (l *ledger) create(ctx context.Context, pg *pgx.Conn, turns []*Turn) error {
	rows := map[repo.Scope]*scopeRow{}
	for _, a := range turns {
		for _, s := range a.State.Scopes {
			if counter := l.counters[a.SessionID]; l.scopes[s.Scope] == nil &&
				(a.SessionID.IsZero() || counter != nil && !counter.locked) {
				rows[s.Scope] = nil
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	missing := sortedScopes(rows)
	p := &conn.Pipeline{}
	limitWait(ctx, p, briefly, &l.lockTimeout)
	LockScopes(ctx, p, missing)
	l.findScopes(ctx, p, missing, waiting{scopes: true})
	err := p.Send(ctx, pg)
	for _, scope := range missing {
		if row := l.scopes[scope]; row != nil && row.version > 0 {
			l.scopes[scope] = nil
		}
	}
	return err
}

// findScopes adds the statement that locks rows and returns what they have.
func (l *ledger) findScopes(ctx context.Context, p *conn.Pipeline, scopes []repo.Scope, waits waiting) {
	p.Add(func(q db.DBTX) error {
		rows, err := queries.TurnLockScopes(ctx, q, l.scopesAt(scopes))
		for _, row := range rows {
			if row.Locked && waits.awaits(scopes[row.Place-1]) {
				continue // it was erased during the wait
			}
			l.scopes[scopes[row.Place-1]] = &scopeRow{
				id: row.ID, version: row.Version, stored: row.Version, hint: row.Hint, locked: row.Locked,
			}
			if l.lockTimeout == nil {
				l.lockTimeout = &row.LockTimeout
			}
			if row.Now.After(l.now) {
				l.now = row.Now
			}
		}
		return err
	})
}

func (l *ledger) awaitScopes(ctx context.Context, q db.DBTX, scopes []repo.Scope) error {
	return queries.TurnAwaitScopes(ctx, q, db.TurnAwaitScopesParams(l.scopesAt(scopes)))
}

// sortedScopes returns the scopes in the order in which they are locked.
func sortedScopes(rows map[repo.Scope]*scopeRow) []repo.Scope {
	return slices.SortedFunc(maps.Keys(rows), rules.CompareScopes)
}

func sortedIDs[Row any](rows map[repo.ID]*Row) []pgtype.UUID {
	return convert.UUIDs(slices.SortedFunc(maps.Keys(rows), repo.ID.Compare))
}
