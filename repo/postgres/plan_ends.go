package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// Delete locks the plan's tree first, so that no plan is added to it meanwhile.
func (p *plans) Delete(ctx context.Context, id repo.ID, conditions ...repo.DeleteIf) error {
	only, err := rules.PlanDeleteIf(conditions)
	if err = p.checkPlan(ctx, id, err); err != nil {
		return err
	}
	err = p.exec.atomically(ctx, func(q db.DBTX) error {
		root, err := conn.After(ctx, q, func(q db.DBTX) error { return queries.HoldGate(ctx, q) },
			func(q db.DBTX) (pgtype.UUID, error) { return queries.PlanLockTree(ctx, q, convert.UUID(id)) })
		if err != nil {
			return err
		}
		params := db.PlanDeleteParams{ID: convert.UUID(id), RootID: root, IdleSince: convert.UnlessZero(only.IdleSince)}
		row, err := queries.PlanDelete(ctx, q, params)
		var unfit error
		if row.Version > 0 { // otherwise there is no such plan
			unfit = rules.PlanDeletable(id, only, row.Version, row.UpdatedAt.UTC())
		}
		switch {
		case err != nil:
			return err
		case row.Held.Valid:
			return &conn.Answer{Err: rules.Held(row.Held.Bytes)}
		case unfit != nil:
			return &conn.Answer{Err: unfit}
		case row.Busy.Valid:
			return &conn.Answer{Err: rules.PlanIsBusy(row.Busy.Bytes)}
		case row.Deleted == 0:
			return &conn.Answer{Err: planNotFound(id)}
		}
		return nil
	})
	return conn.OrMissing(err, planNotFound(id))
}

func (p *plans) Sweep(ctx context.Context, limit int) (swept int, err error) {
	limit, err = rules.CheckSweep(limit)
	if err != nil {
		return 0, err
	}
	var ready []string
	err = p.exec.write(ctx, func(q db.DBTX) error {
		swept, ready, err = sweepPlans(ctx, q, limit)
		return err
	})
	if err != nil {
		return 0, err
	}
	p.exec.changed(queued(ready...)...)
	return swept, nil
}

// sweepPlans ends and deletes up to limit plans of each kind. It returns in which namespaces it has
// queued some.
func sweepPlans(ctx context.Context, q db.DBTX, limit int) (swept int, queued []string, err error) {
	p := &conn.Pipeline{}
	if _, alone := q.(conn.Alone); alone {
		p.Add(func(q db.DBTX) error { return queries.PlanByIndex(ctx, q) })
	}
	p.Add(func(q db.DBTX) error {
		row, err := queries.PlanExpire(ctx, q, db.PlanExpireParams{
			MaxRows: int32(limit), LeaseNamespace: convert.LeaseNamespace, GraceSeconds: limits.ExpiredGrace.Seconds(),
		})
		swept, queued = int(row.Ended), row.Queued
		return err
	})
	p.Add(func(q db.DBTX) error {
		deleted, err := queries.PlanDeleteKept(ctx, q, int32(limit))
		swept += int(deleted)
		return err
	})
	return swept, queued, p.Send(ctx, q)
}

// planSweepPause is how long a sweep waits after a claim.
const planSweepPause = 10 * time.Second

// planSweeper sweeps plans by the way, in its own time.
type planSweeper struct{ sweeper }

func newPlanSweeper(p *pooled) *planSweeper {
	return &planSweeper{newSweeper(planSweepPause, limits.DefaultSweep,
		func(ctx context.Context, limit int) (bool, error) {
			var swept int
			var ready []string
			err := p.conns.Run(ctx, conn.Committing, func(q db.DBTX) (err error) {
				swept, ready, err = sweepPlans(ctx, q, limit)
				return err
			})
			p.changed(queued(ready...)...)
			return swept > 0, err
		})}
}
