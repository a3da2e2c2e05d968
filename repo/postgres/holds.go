package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

func (s *sessions) AddHold(ctx context.Context, hold repo.LegalHold) error {
	if err := s.checkSession(ctx, hold.SessionID, rules.CheckLegalHold(s.view, hold, false)); err != nil {
		return err
	}
	params := db.HoldInsertParams{
		Namespace: hold.Namespace, Owner: hold.Owner, SessionID: convert.UUID(hold.SessionID),
		Reason: hold.Reason,
	}
	return s.exec.noted(s.exec.atomically(ctx, func(q db.DBTX) error {
		inserted, err := conn.After(ctx, q,
			func(q db.DBTX) error { return queries.HoldChange(ctx, q) },
			func(q db.DBTX) (int64, error) { return queries.HoldInsert(ctx, q, params) })
		if err != nil || inserted > 0 || hold.SessionID.IsZero() {
			return err
		}
		if exists, err := queries.SessionExists(ctx, q, params.SessionID); err != nil || exists {
			return err
		}
		return &conn.Answer{Err: convert.SessionNotFound(hold.SessionID)}
	}))
}

func (s *sessions) RemoveHold(ctx context.Context, hold repo.LegalHold) error {
	if err := s.checkSession(ctx, hold.SessionID, rules.CheckLegalHold(s.view, hold, true)); err != nil {
		return err
	}
	return s.exec.write(ctx, func(q db.DBTX) error {
		return queries.HoldDelete(ctx, q, db.HoldDeleteParams{
			Namespace: hold.Namespace, Owner: hold.Owner,
			SessionID: convert.UUID(hold.SessionID),
		})
	})
}

func (s *sessions) Holds(ctx context.Context, page repo.Page) (repo.List[repo.LegalHold], error) {
	list, err := rules.HoldList(s.view, page)
	return listed(s.exec.read, list, err, func(by way) ([]db.SessionHold, error) {
		return run(ctx, by, queries.HoldList, db.HoldListParams{
			AfterNamespace: list.After.Namespace, AfterOwner: list.After.Owner,
			AfterSessionID: convert.UUID(list.After.SessionID),
			// one extra row tells whether there is a next page
			View: convert.Nullable(s.view), MaxRows: int32(list.Limit) + 1,
		})
	}, func(row db.SessionHold) (repo.LegalHold, error) {
		return repo.LegalHold{
			SessionID: row.SessionID.Bytes, Namespace: row.Namespace, Owner: row.Owner, Reason: row.Reason,
			CreatedAt: row.CreatedAt.UTC(),
		}, nil
	})
}

// RemoveDeleted removes one batch.
func (s *sessions) RemoveDeleted(ctx context.Context, limit int) (removed int64, more bool, err error) {
	if limit, err = rules.CheckStreamRemoval(limit); err != nil {
		return 0, false, err
	}
	err = s.exec.write(ctx, func(q db.DBTX) (err error) {
		removed, more, err = removeDeleted(ctx, q, limit)
		return err
	})
	return removed, more, err
}

// removeDeleted removes up to limit rows of the remains of a deleted session.
func removeDeleted(ctx context.Context, q db.DBTX, limit int) (removed int64, more bool, err error) {
	return removedBatch(queries.SessionRemove(ctx, q, int64(limit)))
}

func removedBatch(removed int64, err error) (int64, bool, error) {
	if conn.IsNoRows(err) {
		return 0, false, nil
	}
	return removed, err == nil, err
}
