package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

func (p *plans) SetLimit(ctx context.Context, limit repo.PlanLimit) error {
	limit, err := rules.NormalizeLimit(p.view, limit)
	if err != nil {
		return err
	}
	err = p.exec.writeByID(ctx, func(q db.DBTX) error {
		return queries.PlanLimitSet(ctx, q, db.PlanLimitSetParams{
			Namespace: limit.Namespace, ActionName: limit.Action, AtOnce: int32(max(limit.AtOnce, -1)),
		})
	})
	if err == nil {
		p.exec.changed(queued(limit.Namespace)...) // more may be allowed now
	}
	return err
}

func (p *plans) Limits(ctx context.Context, page repo.Page) (repo.List[repo.PlanLimit], error) {
	list, err := rules.LimitList(p.view, page)
	return listed(p.exec.read, list, err, func(by way) ([]db.PlanLimitListRow, error) {
		return run(ctx, by, queries.PlanLimitList, db.PlanLimitListParams{
			Namespace: list.After.Namespace, ActionName: list.After.Action, MaxRows: int32(list.Limit + 1),
			View: convert.Nullable(p.view),
		})
	}, func(row db.PlanLimitListRow) (repo.PlanLimit, error) {
		return repo.PlanLimit{
			Namespace: row.Namespace, Action: row.ActionName, AtOnce: int(row.AtOnce),
			Claimed: int(row.Claimed),
		}, nil
	})
}
