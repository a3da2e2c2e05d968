package postgres

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// Transition reads the plan, applies the rules of the lifecycle, and moves the plan if
// it has not changed since it was read: with other plans if it can (plan_moves.go),
// otherwise alone.
func (p *plans) Transition(ctx context.Context, id repo.ID, transition repo.Transition,
	cause repo.Cause,
) (repo.Plan, error) {
	cause, err := rules.NormalizeCause(cause, transition)
	if err = p.checkPlan(ctx, id, err); err != nil {
		return repo.Plan{}, err
	}
	if transition == repo.TransitionCancel {
		return p.cancel(ctx, id, cause)
	}
	one := &moving{id: id, transition: transition, cause: cause}
	if err = p.exec.transition(ctx, one); err == nil && !one.done {
		err = p.moveAlone(ctx, one)
	}
	if err != nil {
		return repo.Plan{}, err
	}
	if one.moves {
		p.tellMoved(one.stored.State, one.moved, cause)
	}
	return one.moved, nil
}

// tellMoved tells callers that wait for plans, and this plan's worker, unless the worker itself gave its fence.
func (p *plans) tellMoved(from repo.PlanState, moved repo.Plan, cause repo.Cause) {
	if moved.State == repo.PlanQueued {
		p.exec.changed(queued(moved.Namespace)...)
	} else if pool, ok := p.exec.(*pooled); ok {
		pool.live.claimEnded(moved.Namespace)
	}
	if from == repo.PlanProcessing && cause.Fence == 0 {
		p.exec.changed(freed(repo.PlanLease(moved.ID))...)
	}
}

// moveAlone makes a transition that no group has made.
func (p *plans) moveAlone(ctx context.Context, one *moving) error {
	stored, err := p.Get(ctx, one.id)
	if err != nil {
		return err
	}
	err = one.decide(stored)
	switch {
	case err != nil:
		return cmp.Or(p.admit(ctx, one.id, one.cause.Fence), err)
	case !one.moves:
		return p.exec.sees(ctx, func(q db.DBTX) error { return queries.PlanHold(ctx, q, convert.UUID(one.id)) })
	}
	err = p.move(ctx, one)
	if err == nil && !one.done && one.cause.Fence > 0 && p.admit(ctx, one.id, one.cause.Fence) == nil {
		err = p.move(ctx, one) // the plan may not have known of the fence
	}
	if err != nil || one.done {
		return err
	}
	one.moves = false
	one.moved, err = p.overtaken(ctx, one.id, one.transition, one.cause)
	return err
}

// move sends a transition, and waits for the plan. It is not done if that has changed since it was read, or if the
// fence is not the latest that it knows of.
func (p *plans) move(ctx context.Context, one *moving) error {
	if rules.NeedsLiveParent(one.stored, one.transition) {
		return p.moveBelowLive(ctx, one)
	}
	return p.exec.write(ctx, func(q db.DBTX) error { return sendMoves(ctx, q, true, one) })
}

// moveBelowLive moves a plan whose parent must be live. It locks the tree first. A
// cancellation of the parent takes the same lock: it comes either before, and is seen
// here, or after, and cancels this plan too.
func (p *plans) moveBelowLive(ctx context.Context, one *moving) error {
	err := p.exec.atomically(ctx, func(q db.DBTX) error {
		if _, err := queries.PlanLockTree(ctx, q, convert.UUID(one.id)); err != nil {
			return err
		}
		parent, err := getPlan(ctx, q, one.stored.ParentID)
		if err != nil {
			return err
		}
		if err := rules.CheckParent(parent, one.id, one.transition); err != nil {
			return &conn.Answer{Err: err}
		}
		return sendMoves(ctx, q, true, one)
	})
	if conn.IsNoRows(err) {
		return nil // it was deleted
	}
	return err
}

// overtaken returns the answer for a plan that another caller moved meanwhile, or
// whose lease it has.
func (p *plans) overtaken(ctx context.Context, id repo.ID, transition repo.Transition,
	cause repo.Cause,
) (repo.Plan, error) {
	current, err := p.Get(ctx, id)
	if err != nil {
		return repo.Plan{}, err
	}
	if cause.Version == 0 && rules.IsThere(current, transition) {
		return current, nil
	}
	return repo.Plan{}, cmp.Or[error](p.admit(ctx, id, cause.Fence), rules.Refuse(current, transition, cause))
}

// cancel locks the plan's tree first, so that no plan is added to it meanwhile.
func (p *plans) cancel(ctx context.Context, id repo.ID, cause repo.Cause) (repo.Plan, error) {
	var after repo.Plan
	var cancelled []pgtype.UUID
	err := p.exec.atomically(ctx, func(q db.DBTX) error {
		root, err := queries.PlanLockTree(ctx, q, convert.UUID(id))
		if err != nil {
			return err
		}
		if err := admitPlan(ctx, q, id, cause.Fence); err != nil {
			return err
		}
		stored, err := getPlan(ctx, q, id)
		if err != nil {
			return err
		}
		if _, _, err := rules.Moved(stored, repo.TransitionCancel, cause); err != nil {
			return &conn.Answer{Err: err}
		}
		cancelled, err = queries.PlanCancel(ctx, q, db.PlanCancelParams{
			ID:        convert.UUID(id),
			RootID:    root,
			FromPhase: string(stored.Phase),
			FromState: string(stored.State),
			Version:   stored.Version,
			Actor:     convert.Nullable(cause.Actor),
			Reason:    cause.Reason,
		})
		if err != nil {
			return err
		}
		if after, err = getPlan(ctx, q, id); err != nil {
			return err
		}
		if len(cancelled) == 0 { // a worker moved it meanwhile
			return &conn.Answer{Err: rules.Refuse(after, repo.TransitionCancel, cause)}
		}
		return nil
	})
	if err != nil {
		return repo.Plan{}, conn.OrMissing(err, planNotFound(id))
	}
	after.Moved = true
	for _, id := range cancelled {
		p.exec.changed(freed(repo.PlanLease(id.Bytes))...)
	}
	if pool, ok := p.exec.(*pooled); ok {
		pool.live.claimEnded(after.Namespace)
	}
	return after, nil
}

func getPlan(ctx context.Context, q db.DBTX, id repo.ID) (repo.Plan, error) {
	row, err := queries.PlanGet(ctx, q, convert.UUID(id))
	if err != nil {
		return repo.Plan{}, err
	}
	return convert.Plan(row)
}

func (p *plans) Progress(ctx context.Context, id repo.ID, progress repo.Progress) (repo.Plan, error) {
	if err := p.checkPlan(ctx, id, rules.CheckProgress(progress)); err != nil {
		return repo.Plan{}, err
	}
	row, err := p.progress(ctx, id, progress)
	if errors.Is(err, errNotMoved) && progress.Fence > 0 && p.admit(ctx, id, progress.Fence) == nil {
		row, err = p.progress(ctx, id, progress) // the plan may not have known of the fence
	}
	if errors.Is(err, errNotMoved) {
		return p.notProcessing(ctx, id, progress.Fence)
	}
	if err != nil {
		return repo.Plan{}, err
	}
	return convert.Plan(row)
}

// progress returns errNotMoved if the plan is not processing, or if the fence is not the
// latest that it knows of.
func (p *plans) progress(ctx context.Context, id repo.ID, progress repo.Progress) (row db.Plan, err error) {
	err = p.exec.writeByID(ctx, func(q db.DBTX) (err error) {
		row, err = queries.PlanProgress(ctx, q, db.PlanProgressParams{
			ID:            convert.UUID(id),
			CompletedStep: progress.CompletedStep,
			SetCheckpoint: progress.CheckpointID != nil,
			CheckpointID:  convert.Optional(progress.CheckpointID),
			Fence:         progress.Fence,
		})
		if conn.IsNoRows(err) {
			return &conn.Answer{Err: errNotMoved}
		}
		return err
	})
	return row, err
}

// notProcessing returns the error for progress of a plan that is not processing, or whose
// lease another owner has.
func (p *plans) notProcessing(ctx context.Context, id repo.ID, fence int64) (repo.Plan, error) {
	stored, err := p.Get(ctx, id)
	if err != nil {
		return repo.Plan{}, p.exec.unread(err)
	}
	return repo.Plan{}, cmp.Or[error](p.admit(ctx, id, fence), rules.Refuse(stored, repo.TransitionProgress, repo.Cause{}))
}
