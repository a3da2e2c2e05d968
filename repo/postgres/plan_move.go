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
func (p *plans) Transition(ctx context.Context, id repo.ID, transition repo.Transition, cause repo.Cause) (repo.Plan, error) {
	cause, err := rules.NormalizeCause(cause, transition)
	if err = p.checkPlan(ctx, id, err); err != nil {
		return repo.Plan{}, err
	}
	if transition == repo.TransitionCancel {
		return p.cancel(ctx, id, cause)
	}
	one := &moving{id: id, transition: transition, cause: cause}
	if err := p.exec.transition(ctx, one); err != nil {
		return repo.Plan{}, err
	}
	if !one.done {
		return p.moveAlone(ctx, id, transition, cause)
	}
	if one.moves {
		p.tellMoved(repo.PlanState(one.params.FromState), one.moved, cause)
	}
	return one.moved, nil
}

// tellMoved tells those who wait for plans, and whoever works on this one. Who gave its fence is that.
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

func (p *plans) moveAlone(ctx context.Context, id repo.ID, transition repo.Transition, cause repo.Cause) (repo.Plan, error) {
	stored, err := p.Get(ctx, id)
	if err != nil {
		return repo.Plan{}, err
	}
	moved, moves, err := rules.Moved(stored, transition, cause)
	if err != nil {
		return repo.Plan{}, cmp.Or(p.admit(ctx, id, cause.Fence), err)
	}
	if !moves {
		return stored, p.exec.sees(ctx, func(q db.DBTX) error { return queries.PlanHold(ctx, q, convert.UUID(id)) })
	}
	params := transitionParams(stored, moved, transition, cause)
	row, err := p.move(ctx, stored, transition, params)
	if conn.IsNoRows(err) && cause.Fence > 0 && p.admit(ctx, id, cause.Fence) == nil {
		row, err = p.move(ctx, stored, transition, params) // the plan may not have known of the fence
	}
	if conn.IsNoRows(err) {
		return p.overtaken(ctx, id, transition, cause)
	}
	if err != nil {
		return repo.Plan{}, err
	}
	afterMove(&moved, row)
	p.tellMoved(stored.State, moved, cause)
	return moved, nil
}

// afterMove sets what the database decides.
func afterMove(moved *repo.Plan, row db.PlanTransitionRow) {
	moved.UpdatedAt = row.UpdatedAt.UTC()
	moved.NotBefore = convert.FromTime(row.NotBefore)
	moved.Moved = true
	moved.LastCompletedStep, moved.LastCheckpointID = row.LastCompletedStep, convert.FromNullable(row.LastCheckpointID)
}

func transitionParams(stored, moved repo.Plan, transition repo.Transition, cause repo.Cause) db.PlanTransitionParams {
	return db.PlanTransitionParams{
		ID:             convert.UUID(stored.ID),
		FromPhase:      string(stored.Phase),
		FromState:      string(stored.State),
		Version:        stored.Version,
		ToPhase:        string(moved.Phase),
		ToState:        string(moved.State),
		Transition:     string(transition),
		ErrorMessage:   convert.Nullable(moved.ErrorMessage),
		ErrorDetails:   convert.JSONText(moved.ErrorDetails),
		ReversionCount: int32(moved.ReversionCount),
		Attempt:        int32(moved.Attempt),
		DelayMicros:    rules.DelayOf(moved, transition, cause).Microseconds(),
		Deadline:       convert.ToTime(moved.Deadline),
		Actor:          convert.Nullable(cause.Actor),
		Reason:         convert.Nullable(cause.Reason),
		EventType:      rules.Event(transition, moved.Stage),
		Details:        string(rules.Details(transition, stored.Stage, moved.Stage, moved.Version)),
		Fence:          cause.Fence,
	}
}

// move sends a transition. It returns pgx.ErrNoRows if the plan has changed since it was
// read, or if the fence is not the latest that it knows of.
func (p *plans) move(
	ctx context.Context, stored repo.Plan, transition repo.Transition, params db.PlanTransitionParams,
) (db.PlanTransitionRow, error) {
	if rules.NeedsLiveParent(stored, transition) {
		return p.moveBelowLive(ctx, stored, transition, params)
	}
	return run(ctx, p.exec.write, queries.PlanTransition, params)
}

// moveBelowLive moves a plan whose parent must be live. It locks the tree first. A
// cancellation of the parent takes the same lock: it comes either before, and is seen
// here, or after, and cancels this plan too.
func (p *plans) moveBelowLive(
	ctx context.Context, stored repo.Plan, transition repo.Transition, params db.PlanTransitionParams,
) (row db.PlanTransitionRow, err error) {
	err = p.exec.atomically(ctx, func(q db.DBTX) error {
		if _, err := queries.PlanLockTree(ctx, q, convert.UUID(stored.ID)); err != nil {
			return err
		}
		parent, err := getPlan(ctx, q, stored.ParentID)
		if err != nil {
			return err
		}
		if err := rules.CheckParent(parent, stored.ID, transition); err != nil {
			return &conn.Answer{Err: err}
		}
		row, err = queries.PlanTransition(ctx, q, params)
		return err
	})
	return row, err
}

// overtaken returns the answer for a plan that somebody else moved meanwhile, or whose
// lease somebody else has.
func (p *plans) overtaken(ctx context.Context, id repo.ID, transition repo.Transition, cause repo.Cause) (repo.Plan, error) {
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
	return convert.Plan(progressed(row))
}

// progress returns errNotMoved if the plan is not processing, or if the fence is not the
// latest that it knows of.
func (p *plans) progress(ctx context.Context, id repo.ID, progress repo.Progress) (row db.PlanProgressRow, err error) {
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
// lease somebody else has.
func (p *plans) notProcessing(ctx context.Context, id repo.ID, fence int64) (repo.Plan, error) {
	stored, err := p.Get(ctx, id)
	if err != nil {
		return repo.Plan{}, p.exec.unread(err)
	}
	return repo.Plan{}, cmp.Or[error](p.admit(ctx, id, fence), rules.Refuse(stored, repo.TransitionProgress, repo.Cause{}))
}

// progressed returns the plan with the changeable columns as the statement left them.
// The view's row has them as they were before.
func progressed(row db.PlanProgressRow) db.Plan {
	plan := row.Plan
	plan.Phase, plan.State, plan.Version = row.Phase, row.State, row.Version
	plan.ErrorMessage, plan.ErrorDetails, plan.ReversionCount = row.ErrorMessage, row.ErrorDetails, row.ReversionCount
	plan.LastCompletedStep, plan.LastCheckpointID = row.LastCompletedStep, row.LastCheckpointID
	plan.CancelledAt, plan.CancelReason, plan.UpdatedAt = row.CancelledAt, row.CancelReason, row.UpdatedAt
	return plan
}
