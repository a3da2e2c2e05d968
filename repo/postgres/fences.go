package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// A session's counter row and a plan's row have the latest token of their lease, which a
// write compares in the statement that locks the row anyway. Whoever acquires the lease
// tells them, if they exist by then. So a token that is larger than what they know is
// refused at first. Then they catch up with the lease, and the write is tried again.

func (c *counterRow) fenceOf(session repo.ID) rules.Fence {
	return rules.Fence{Key: repo.SessionLease(session), Latest: c.fence, Only: c.fencedOnly}
}

// refusal returns the error of a turn that was not accepted. If it is for want of a token, or for an expected
// sequence that is to come, an earlier attempt may arrive when the session takes writes without one, or is there.
func (a *turn) refusal(err error) error {
	fenced, isFenced := errors.AsType[*repo.FencedError](err)
	conflict, isConflict := errors.AsType[*repo.SequenceConflictError](err)
	if a.Unsure && (isFenced && fenced.Fence == 0 || isConflict && conflict.Kind == "session" && conflict.Expected > conflict.Next) {
		return &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: conn.ErrLateAttempt}
	}
	return err
}

// isAhead reports a write that was refused because its token is larger than what the
// session or plan knew of.
func isAhead(err error) bool {
	fenced, is := errors.AsType[*repo.FencedError](err)
	return is && fenced.Fence > fenced.Latest
}

// catchUp tells a session of the lease whose token it did not know. It returns nil if the
// write may be tried again.
func catchUp(ctx context.Context, q db.DBTX, refused error) error {
	fenced, _ := errors.AsType[*repo.FencedError](refused)
	id, err := repo.ParseID(fenced.Key.Name)
	if err != nil {
		return err
	}
	row, err := queries.FenceCatchUpSession(ctx, q, db.FenceCatchUpSessionParams{SessionID: toUUID(id), Namespace: leaseNamespace})
	switch {
	case conn.IsNoRows(err):
		return nil // a new attempt finds no session
	case err != nil:
		return err
	case row.Fence == fenced.Fence:
		return nil
	}
	return &conn.Answer{Err: &repo.FencedError{Key: fenced.Key, Fence: fenced.Fence, Latest: row.Fence}}
}

// catchUp tells the session of a turn of its lease. Its row is locked.
func (l *ledger) catchUp(ctx context.Context, q db.DBTX, a *turn) error {
	counter := l.counters[a.SessionID]
	if counter == nil || a.Fence <= counter.fence {
		return nil
	}
	row, err := queries.FenceCatchUpSession(ctx, q, db.FenceCatchUpSessionParams{SessionID: toUUID(a.SessionID), Namespace: leaseNamespace})
	if err != nil {
		return err
	}
	counter.fence, counter.hint = row.Fence, row.Hint
	return nil
}

// acquire acquires a lease, and tells the session or plan that it names. It returns the
// lease of whoever has it then.
func acquire(ctx context.Context, q db.DBTX, lease repo.NewLease) (row db.LeaseGetRow, err error) {
	namespace, name := leaseRow(lease.Key)
	get := db.LeaseGetParams{Namespace: namespace, Kind: lease.Key.Kind, Name: name}
	take := db.LeaseTakeParams{
		Namespace: get.Namespace, Kind: get.Kind, Name: get.Name, Owner: lease.Owner, TtlSeconds: lease.TTL.Seconds(),
	}
	lock := db.LeaseLockParams{Namespace: get.Namespace, Kind: get.Kind, Name: get.Name, Owner: lease.Owner}
	steps := []func(db.DBTX) error{
		func(q db.DBTX) error { return queries.LeaseMake(ctx, q, db.LeaseMakeParams(get)) },
		func(q db.DBTX) error { return queries.LeaseLock(ctx, q, lock) },
		func(q db.DBTX) error { return queries.LeaseTake(ctx, q, take) },
	}
	switch id, _ := repo.ParseID(lease.Key.Name); lease.Key.Kind {
	case repo.LeaseOfSession:
		take.SessionID = toUUID(id)
		told := db.FenceSessionParams{SessionID: take.SessionID, Namespace: get.Namespace, Owner: lease.Owner}
		steps = slices.Insert(steps, 0, func(q db.DBTX) error {
			return queries.FenceLockSession(ctx, q, db.FenceLockSessionParams{SessionID: told.SessionID, Namespace: told.Namespace})
		})
		steps = append(steps, func(q db.DBTX) error { return queries.FenceSession(ctx, q, told) })
	case repo.LeaseOfPlan:
		take.PlanID = toUUID(id)
		told := db.FencePlanParams{PlanID: take.PlanID, Namespace: get.Namespace, Owner: lease.Owner}
		steps = slices.Insert(steps, 0, func(q db.DBTX) error {
			return queries.FenceLockPlan(ctx, q, db.FenceLockPlanParams{PlanID: told.PlanID, Namespace: told.Namespace})
		})
		steps = append(steps, func(q db.DBTX) error { return queries.FencePlan(ctx, q, told) })
	}
	p := &conn.Pipeline{Steps: steps}
	p.Add(func(q db.DBTX) (err error) {
		row, err = queries.LeaseGet(ctx, q, get)
		return err
	})
	for {
		// No row: whoever was seen to hold it by the first statement has released it since.
		if err := p.Send(ctx, q); !conn.IsNoRows(err) {
			return row, err
		}
	}
}

// admit returns the error of a token that is not the latest of a plan's, or nil. Zero: none
// was given. The plan catches up with its lease.
func (p *plans) admit(ctx context.Context, id repo.ID, token int64) error {
	if token == 0 {
		return nil
	}
	err := p.exec.read(ctx, func(q db.DBTX) error { return admitPlan(ctx, q, id, token) })
	return conn.OrMissing(err, planNotFound(id))
}

// admitPlan is admit in a transaction, which keeps the plan locked.
func admitPlan(ctx context.Context, q db.DBTX, id repo.ID, token int64) error {
	if token == 0 {
		return nil
	}
	latest, err := queries.FenceCatchUpPlan(ctx, q, db.FenceCatchUpPlanParams{PlanID: toUUID(id), Namespace: leaseNamespace})
	if err != nil {
		return err
	}
	if err := (rules.Fence{Key: repo.PlanLease(id), Latest: latest}).Check(token); err != nil {
		return &conn.Answer{Err: err}
	}
	return nil
}
