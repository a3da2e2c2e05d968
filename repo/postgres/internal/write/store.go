package write

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/hints"
)

// write adds the statements that write what was accepted. It reports false if that is
// nothing.
func (l *ledger) write(ctx context.Context, p *conn.Pipeline) bool {
	l.writeMessages(ctx, p)
	l.writeBranches(ctx, p)
	l.writeTurns(ctx, p)
	l.writeState(ctx, p)
	l.writeUsages(ctx, p)
	l.writeWork(ctx, p)
	return len(p.Steps) > 0
}

// writeMessages adds the statements that write the messages. The time is the lock's, which no other transaction has
// had since.
func (l *ledger) writeMessages(ctx context.Context, p *conn.Pipeline) {
	if len(l.sessions) == 0 {
		return
	}
	advance := db.MessageAdvanceParams{Now: l.begun}
	var messages convert.Messages
	var firsts []int64
	for _, session := range l.sessions {
		counter, owner := l.counters[session], convert.UUID(session)
		advance.SessionIds, advance.Hints = append(advance.SessionIds, owner), append(advance.Hints, counter.hint)
		advance.NextSequences = append(advance.NextSequences, counter.next)
		firsts = append(firsts, counter.stored)
		for _, a := range counter.appends {
			a.Outcome.CreatedAt = &counter.updated
			messages.Follow(a.Outcome.Follows)
			for i := range a.Messages {
				messages.Add(owner, a.Outcome.First+int64(i), counter.updated, &a.Messages[i])
			}
		}
	}
	p.Add(func(q db.DBTX) error {
		rows, err := queries.MessageAdvance(ctx, q, advance)
		for _, row := range rows {
			session := repo.ID(row.SessionID.Bytes)
			counter := l.counters[session]
			l.places = append(l.places, hints.Place[repo.ID]{
				Key: session, Hint: row.Hint, First: counter.stored,
				Next: counter.next,
			})
		}
		return err
	})
	p.Add(func(q db.DBTX) error {
		_, err := queries.MessageInsert(ctx, q, messages.MessageInsertParams)
		return err
	})
	check := db.MessageCheckParams{
		SessionIds: advance.SessionIds, Firsts: firsts, NextSequences: advance.NextSequences, Hints: advance.Hints,
	}
	p.Add(func(q db.DBTX) error { return queries.MessageCheck(ctx, q, check) })
}

// writeBranches adds the statements that note which sessions were rewound. Adding messages has set their counters to
// follow the last one.
func (l *ledger) writeBranches(ctx context.Context, p *conn.Pipeline) {
	if len(l.branching) > 0 {
		p.Add(func(q db.DBTX) error { return queries.TurnBranch(ctx, q, convert.UUIDs(l.branching)) })
	}
	var sessions []pgtype.UUID
	var follows []int64
	for id, counter := range l.counters {
		if counter == nil || counter.locked {
			continue
		}
		was := counter.wasFollows
		if len(counter.appends) > 0 {
			was = nil
		}
		if convert.Follows(counter.next, was) != convert.Follows(counter.next, counter.follows) {
			to := int64(convert.TheOneBefore)
			if counter.follows != nil {
				to = *counter.follows
			}
			sessions, follows = append(sessions, convert.UUID(id)), append(follows, to)
		}
	}
	if len(sessions) > 0 {
		p.Add(func(q db.DBTX) error {
			return queries.TurnRewind(ctx, q, db.TurnRewindParams{SessionIds: sessions, Follows: follows})
		})
	}
}

func (l *ledger) writeTurns(ctx context.Context, p *conn.Pipeline) {
	if len(l.inserted) == 0 {
		return
	}
	var params db.TurnInsertParams
	for _, a := range l.inserted {
		params.SessionIds = append(params.SessionIds, convert.UUID(a.SessionID))
		params.Ids = append(params.Ids, a.ID)
		params.Digests = append(params.Digests, a.Digest[:])
		params.FirstSequences = append(params.FirstSequences, a.Outcome.First)
		params.MessageCounts = append(params.MessageCounts, int32(len(a.Messages)))
		params.PlanIds = append(params.PlanIds, convert.OptionalUUID(a.PlanID))
	}
	p.Add(func(q db.DBTX) error { return queries.TurnInsert(ctx, q, params) })
}

func (l *ledger) writeState(ctx context.Context, p *conn.Pipeline) {
	scopes := db.TurnAdvanceScopesParams{Now: l.now}
	changed := map[pgtype.UUID]hints.Place[repo.ID]{}
	for scope, row := range l.scopes {
		if row != nil && row.changed {
			scopes.Ids, scopes.Hints = append(scopes.Ids, row.id), append(scopes.Hints, row.hint)
			scopes.Versions = append(scopes.Versions, row.version)
			changed[row.id] = hints.Place[repo.ID]{Key: keyOf(scope, ""), First: row.stored, Next: row.version}
		}
	}
	if len(scopes.Ids) == 0 {
		return
	}
	p.Add(func(q db.DBTX) error {
		rows, err := queries.TurnAdvanceScopes(ctx, q, scopes)
		for _, row := range rows {
			place := changed[row.ID]
			place.Hint = row.Hint
			l.places = append(l.places, place)
		}
		return err
	})
	var set db.TurnSetValuesParams
	var keys []repo.ID
	var removed struct {
		scopes []pgtype.UUID
		keys   []string
	}
	for at, w := range l.writes {
		scope := l.scopes[at.scope].id
		if w.Value == nil {
			removed.scopes, removed.keys = append(removed.scopes, scope), append(removed.keys, at.key)
			continue
		}
		set.ScopeIds, set.Keys = append(set.ScopeIds, scope), append(set.Keys, at.key)
		set.KeyValues, set.Versions = append(set.KeyValues, string(w.Value)), append(set.Versions, w.Version)
		keys = append(keys, keyOf(at.scope, at.key))
		if hint, found := l.found[at]; found {
			set.Hints = append(set.Hints, hint)
		} else if hint := l.hintOf(keys[len(keys)-1]); hint.Valid {
			set.Hints = append(set.Hints, hint)
		}
	}
	if len(set.Keys) > 0 {
		p.Add(func(q db.DBTX) error {
			rows, err := queries.TurnSetValues(ctx, q, set)
			for _, row := range rows {
				l.places = append(l.places, hints.Place[repo.ID]{Key: keys[row.Place-1], Hint: row.Hint})
			}
			return err
		})
	}
	if len(removed.keys) > 0 {
		p.Add(func(q db.DBTX) error {
			return queries.TurnRemoveValues(ctx, q, db.TurnRemoveValuesParams{ScopeIds: removed.scopes, Keys: removed.keys})
		})
	}
}

func (l *ledger) writeUsages(ctx context.Context, p *conn.Pipeline) {
	if len(l.used) == 0 {
		return
	}
	var added db.TurnInsertUsagesParams
	for _, a := range l.used {
		u := a.Usage
		added.SessionIds, added.Ids = append(added.SessionIds, convert.UUID(a.SessionID)),
			append(added.Ids, convert.UUID(u.ID))
		added.InputTokens = append(added.InputTokens, u.InputTokens)
		added.OutputTokens = append(added.OutputTokens, u.OutputTokens)
		added.CostNanos = append(added.CostNanos, int64(u.Cost))
	}
	var totals db.TurnSetUsagesParams
	for session, row := range l.usages {
		if row != nil && row.changed {
			totals.SessionIds = append(totals.SessionIds, convert.UUID(session))
			totals.InputTokens = append(totals.InputTokens, row.total.InputTokens)
			totals.OutputTokens = append(totals.OutputTokens, row.total.OutputTokens)
			totals.CostNanos = append(totals.CostNanos, int64(row.total.Cost))
		}
	}
	p.Add(func(q db.DBTX) error { return queries.TurnInsertUsages(ctx, q, added) })
	p.Add(func(q db.DBTX) error { return queries.TurnSetUsages(ctx, q, totals) })
}
