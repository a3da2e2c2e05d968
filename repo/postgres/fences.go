package postgres

import (
	"context"
	"slices"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// A session's counter row and a plan's row have the latest fence of their lease, which a
// write compares in the statement that locks the row anyway. An acquisition of the lease
// tells them, if they exist by then. So a fence that is larger than what they know is
// refused at first. Then they catch up with the lease, and the write is tried again.

// acquire acquires a lease, and tells the session or plan that it names. It returns the
// lease of its holder then.
func acquire(ctx context.Context, q db.DBTX, lease repo.NewLease) (row db.LeaseGetRow, err error) {
	namespace, name := leaseRow(lease.Key)
	get := db.LeaseGetParams{Namespace: namespace, Kind: lease.Key.Kind, Name: name}
	free := db.LeaseLockParams{Namespace: namespace, Kind: get.Kind, Name: name, Owner: lease.Owner}
	take := db.LeaseTakeParams{
		Namespace: namespace, Kind: get.Kind, Name: name, Owner: lease.Owner, TtlSeconds: lease.TTL.Seconds(),
	}
	lock, tell := &conn.Pipeline{}, &conn.Pipeline{}
	switch id, _ := repo.ParseID(lease.Key.Name); lease.Key.Kind {
	case repo.LeaseOfSession:
		take.SessionID = convert.UUID(id)
		told := db.FenceSessionParams{SessionID: take.SessionID, Namespace: namespace, Owner: lease.Owner}
		conn.Do(ctx, lock, queries.FenceLockSession, db.FenceLockSessionParams{
			SessionID: told.SessionID,
			Namespace: namespace,
		})
		conn.Do(ctx, tell, queries.FenceSession, told)
	case repo.LeaseOfPlan:
		take.PlanID = convert.UUID(id)
		told := db.FencePlanParams{PlanID: take.PlanID, Namespace: namespace, Owner: lease.Owner}
		conn.Do(ctx, lock, queries.FenceLockPlan, db.FenceLockPlanParams{PlanID: told.PlanID, Namespace: namespace})
		conn.Do(ctx, tell, queries.FencePlan, told)
	}
	conn.Do(ctx, lock, queries.LeaseMake, db.LeaseMakeParams(get))
	conn.Do(ctx, lock, queries.LeaseLock, free)
	conn.Do(ctx, lock, queries.LeaseTake, take)
	conn.Ask(ctx, tell, &row, queries.LeaseGet, get)
	p := &conn.Pipeline{Steps: slices.Concat(lock.Steps, tell.Steps)}
	for {
		// No row: the holder that the first statement saw has released it since.
		if err := p.Send(ctx, q); !conn.IsNoRows(err) {
			return row, err
		}
	}
}

// admit returns the error of a fence that is not the latest of a plan's, or nil. Zero: none
// was given. The plan catches up with its lease.
func (p *plans) admit(ctx context.Context, id repo.ID, fence int64) error {
	if fence == 0 {
		return nil
	}
	err := p.exec.read(ctx, func(q db.DBTX) error { return admitPlan(ctx, q, id, fence) })
	return conn.OrMissing(err, planNotFound(id))
}

// admitPlan is admit in a transaction, which keeps the plan locked.
func admitPlan(ctx context.Context, q db.DBTX, id repo.ID, fence int64) error {
	if fence == 0 {
		return nil
	}
	latest, err := queries.FenceCatchUpPlan(ctx, q, db.FenceCatchUpPlanParams{
		PlanID:    convert.UUID(id),
		Namespace: convert.LeaseNamespace,
	})
	if err != nil {
		return err
	}
	if err := (rules.Fence{Key: repo.PlanLease(id), Latest: latest}).Check(fence); err != nil {
		return &conn.Answer{Err: err}
	}
	return nil
}
