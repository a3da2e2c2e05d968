package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/follow"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/write"
)

func (s *sessions) Redact(ctx context.Context, id repo.ID, sequences []int64, by repo.Cause) error {
	sequences, err := rules.NormalizeRedaction(sequences, by)
	if err = s.checkSession(ctx, id, err); err != nil {
		return err
	}
	var changed []news
	err = s.exec.atomically(ctx, func(q db.DBTX) (err error) {
		changed, err = s.redact(ctx, q, id, sequences, by)
		return err
	})
	if err != nil {
		return s.orMissing(err, id)
	}
	if len(changed) > 0 {
		s.exec.changed(changed...)
		(&streams{s.base}).sweep()
	}
	return nil
}

// redact locks the session, so that it stays, and with it the messages that it has of others.
func (s *sessions) redact(ctx context.Context, q db.DBTX, id repo.ID, sequences []int64,
	by repo.Cause,
) ([]news, error) {
	p, next, rows := &conn.Pipeline{}, int64(0), []db.RedactFindRow{}
	p.Add(func(q db.DBTX) error { return queries.HoldGate(ctx, q) })
	conn.Ask(ctx, p, &next, queries.SessionLock, convert.UUID(id))
	conn.Ask(ctx, p, &rows, queries.RedactFind, db.RedactFindParams{
		ID: convert.UUID(id), Sequences: sequences, View: convert.Nullable(s.view),
	})
	if err := p.Send(ctx, q); err != nil {
		return nil, err
	}
	of, err := rules.Redactions(id, sequences, convert.Each(rows, func(row db.RedactFindRow) rules.Redactable {
		return rules.Redactable{
			Owner: row.Owner.Bytes, Sequence: row.Sequence, Done: row.Done, Held: row.Held, Foreign: row.Elsewhere,
		}
	}))
	if err != nil {
		return nil, &conn.Answer{Err: err}
	}
	// In one order, so that forks that redact the same wait for each other, instead of being in each other's way.
	for _, owner := range slices.SortedFunc(maps.Keys(of), repo.ID.Compare) {
		if of[owner], err = queries.RedactMessages(ctx, q, db.RedactMessagesParams{
			Owner: convert.UUID(owner), Sequences: of[owner],
		}); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(of, func(_ repo.ID, some []int64) bool { return len(some) == 0 }) // a fork's call did it meanwhile
	if len(of) == 0 {
		return nil, nil
	}
	return s.tellRedacted(ctx, q, id, rules.RedactionNews(id, of), by)
}

// tellRedacted ends what streams the messages, and tells the followers and the audit trail.
func (s *sessions) tellRedacted(ctx context.Context, q db.DBTX, id repo.ID, told map[repo.ID][]int64,
	by repo.Cause,
) (changed []news, err error) {
	ids := convert.UUIDs(slices.SortedFunc(maps.Keys(told), repo.ID.Compare))
	p, streams := &conn.Pipeline{}, []pgtype.UUID{}
	conn.Ask(ctx, p, &streams, queries.RedactStreams, ids)
	conn.Do(ctx, p, queries.RedactParts, ids)
	conn.Do(ctx, p, queries.RedactRecord, db.RedactRecordParams{
		ID: convert.UUID(id), Actor: by.Actor, Details: string(rules.RedactionDetails(told[id], by.Reason)),
	})
	if err := p.Send(ctx, q); err != nil {
		return nil, err
	}
	changed = convert.Each(streams, func(id pgtype.UUID) news { return grown(id.Bytes, follow.Look) })
	for _, of := range ids {
		turn := write.NewTurn(rules.RedactionTurn(of.Bytes, told[of.Bytes]))
		if err := write.InTx(ctx, q, turn); err == nil {
			changed = append(changed, newsOfTurn(turn)...)
		} else if of.Bytes == id || !errors.Is(err, repo.ErrNotFound) { // another one may be deleted
			return nil, err
		}
	}
	return changed, nil
}
