package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/follow"
	"github.com/seed-df90f812/agentstore/repo/removal"
)

func (s *sessions) Delete(ctx context.Context, id repo.ID, conditions ...repo.DeleteIf) (repo.DeletedSession, error) {
	only, err := rules.DeleteIf(conditions)
	if err = s.checkSession(ctx, id, err); err != nil {
		return repo.DeletedSession{}, err
	}
	d := &removal.Deletion{ID: id, If: only}
	var remains bool
	err = s.exec.atomically(ctx, func(q db.DBTX) error {
		_, err := conn.After(ctx, q,
			func(q db.DBTX) error { return queries.HoldGate(ctx, q) },
			func(q db.DBTX) (int64, error) { return queries.SessionLockWhole(ctx, q, convert.UUID(id)) })
		if err != nil {
			return err
		}
		if remains, err = s.deleteLocked(ctx, q, d); err == nil && d.Err != nil {
			err = &conn.Answer{Err: d.Err}
		}
		return err
	})
	if err != nil {
		return repo.DeletedSession{}, s.orMissing(err, id)
	}
	s.deleted(remains, d)
	return d.Deleted, nil
}

// deleteLocked deletes sessions that are locked, behind HoldGate. remains: something is left for a sweep.
func (s *sessions) deleteLocked(ctx context.Context, q db.DBTX, all ...*removal.Deletion) (remains bool, err error) {
	p := &conn.Pipeline{}
	ids := convert.Each(all, func(d *removal.Deletion) pgtype.UUID { return convert.UUID(d.ID) })
	conn.Do(ctx, p, queries.StateOfSessionLock, ids)
	rows := make([]db.SessionDeleteRow, len(all))
	for i, d := range all {
		params := db.SessionDeleteParams{
			ID: convert.UUID(d.ID), IfVersion: convert.UnlessZero(d.If.Version), IdleSince: convert.UnlessZero(d.If.IdleSince),
			IfMessages: d.If.Messages, Audited: s.audited,
		}
		conn.Ask(ctx, p, &rows[i], queries.SessionDelete, params)
	}
	p.Add(func(q db.DBTX) (err error) {
		remains, err = queries.SessionRemains(ctx, q)
		return err
	})
	if err := p.Send(ctx, q); err != nil {
		return false, err
	}
	for i, d := range all {
		row := rows[i]
		if d.Err = rules.Deletable(d.ID, d.If, row.Held, rules.InUse(row.InUse), row.Version, row.NextSequence,
			row.ActiveAt.UTC()); d.Err != nil {
			continue
		}
		var kept int64
		if row.Forked {
			if kept, err = queries.ForkKept(ctx, q, convert.UUID(d.ID)); err != nil {
				return false, err
			}
		}
		d.Deleted = repo.DeletedSession{
			Messages: row.Messages - kept, Kept: kept,
			Plans: convert.LinkedPlans(s.view, row.Plans), StateKeys: row.StateKeys,
		}
		remains = remains || row.HasStreams
	}
	return remains, nil
}

// deleted tells of sessions that were deleted.
func (s *sessions) deleted(remains bool, all ...*removal.Deletion) {
	var changed []news
	for _, d := range all {
		if d.Err == nil {
			_ = s.exec.noted(convert.SessionNotFound(d.ID)) // which it is from now on
			changed = append(changed, grown(d.ID, follow.Look))
		}
	}
	s.exec.changed(changed...)
	if remains {
		(&streams{s.base}).sweep()
	}
}

// DeleteTogether implements removal.Together.
func (r *remover) DeleteTogether(ctx context.Context, all []removal.Deletion) error {
	for i := range all {
		only, err := rules.DeleteIf([]repo.DeleteIf{all[i].If})
		if err != nil {
			return err
		}
		all[i].If = only
	}
	var chosen []*removal.Deletion
	var remains bool
	err := r.exec.atomically(ctx, func(q db.DBTX) error {
		ids := convert.Each(all, func(d removal.Deletion) pgtype.UUID { return convert.UUID(d.ID) })
		found, err := conn.After(ctx, q,
			func(q db.DBTX) error { return queries.HoldGate(ctx, q) },
			func(q db.DBTX) ([]db.SessionLockFreeRow, error) { return queries.SessionLockFree(ctx, q, ids) })
		if err != nil {
			return err
		}
		locked := map[repo.ID]bool{}
		for _, row := range found {
			locked[row.SessionID.Bytes] = row.Locked
		}
		chosen = nil
		for i := range all {
			d := &all[i]
			switch ours, exists := locked[d.ID]; {
			case !exists:
				d.Err = convert.SessionNotFound(d.ID)
			case !ours:
				d.Err = repo.ErrContention
			default:
				chosen = append(chosen, d)
			}
			delete(locked, d.ID) // named twice, it is gone
		}
		remains, err = r.sessions.deleteLocked(ctx, q, chosen...)
		return err
	})
	if err == nil {
		r.sessions.deleted(remains, chosen...)
	}
	return err
}
