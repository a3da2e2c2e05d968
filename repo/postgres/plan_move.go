package postgres

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// Transition reads the plan, lets the lifecycle decide, and moves it if it still
// is where it was read.
func (p *plans) Transition(ctx context.Context, id repo.ID, transition repo.Transition, cause repo.Cause) (repo.Plan, error) {
	cause, err := cause.Normalize(transition)
	if err != nil {
		return repo.Plan{}, err
	}
	if transition == repo.TransitionCancel {
		return p.cancel(ctx, id, cause)
	}
	stored, err := p.Get(ctx, id)
	if err != nil {
		return repo.Plan{}, err
	}
	moved, moves, err := stored.Moved(transition, cause)
	if err != nil {
		return repo.Plan{}, err
	}
	if !moves {
		return stored, p.exec.sees(ctx, func(q db.DBTX) error { return queries.PlanHold(ctx, q, toUUID(id)) })
	}
	var row db.PlanTransitionRow
	params := transitionParams(stored, moved, transition, cause)
	if stored.NeedsLiveParent(transition) {
		row, err = p.moveBelowLive(ctx, stored, transition, params)
	} else {
		row, err = run(ctx, p.exec.write, queries.PlanTransition, params)
	}
	if isNoRows(err) {
		return p.overtaken(ctx, id, transition)
	}
	if err != nil {
		return repo.Plan{}, err
	}
	moved.UpdatedAt = row.UpdatedAt.UTC()
	moved.LastCompletedStep, moved.LastCheckpointID = row.LastCompletedStep, fromNullable(row.LastCheckpointID)
	return moved, nil
}

func transitionParams(stored, moved repo.Plan, transition repo.Transition, cause repo.Cause) db.PlanTransitionParams {
	return db.PlanTransitionParams{
		ID:             toUUID(stored.ID),
		FromPhase:      string(stored.Phase),
		FromState:      string(stored.State),
		Version:        stored.Version,
		ToPhase:        string(moved.Phase),
		ToState:        string(moved.State),
		Transition:     string(transition),
		ErrorMessage:   toNullable(moved.ErrorMessage),
		ErrorDetails:   toText(moved.ErrorDetails),
		ReversionCount: int32(moved.ReversionCount),
		Actor:          toNullable(cause.Actor),
		Reason:         toNullable(cause.Reason),
		EventType:      string(transition.Event(moved.Stage)),
		Details:        string(transition.Details(stored.Stage, moved.Stage, moved.Version)),
	}
}

// moveBelowLive moves a plan whose parent must be live. It locks the tree first:
// cancelling the parent takes the same lock, so that it either comes before, and
// is seen here, or after, and takes the plan along.
func (p *plans) moveBelowLive(
	ctx context.Context, stored repo.Plan, transition repo.Transition, params db.PlanTransitionParams,
) (row db.PlanTransitionRow, err error) {
	err = p.exec.atomically(ctx, func(q db.DBTX) error {
		if _, err := queries.PlanLockTree(ctx, q, toUUID(stored.ID)); err != nil {
			return err
		}
		parent, err := getPlan(ctx, q, stored.ParentID)
		if err != nil {
			return err
		}
		if !parent.Live() {
			return &answer{parent.RefuseChild(stored.ID, transition)}
		}
		row, err = queries.PlanTransition(ctx, q, params)
		return err
	})
	return row, err
}

// overtaken answers a caller whose plan another one moved meanwhile.
func (p *plans) overtaken(ctx context.Context, id repo.ID, transition repo.Transition) (repo.Plan, error) {
	current, err := p.Get(ctx, id)
	if err != nil {
		return repo.Plan{}, err
	}
	if to, allowed := transition.To(current.Stage); allowed && to == current.Stage {
		return current, nil
	}
	return repo.Plan{}, current.Refuse(transition)
}

// cancel locks the plan's tree first, so that it does not grow meanwhile.
func (p *plans) cancel(ctx context.Context, id repo.ID, cause repo.Cause) (repo.Plan, error) {
	var after repo.Plan
	err := p.exec.atomically(ctx, func(q db.DBTX) error {
		root, err := queries.PlanLockTree(ctx, q, toUUID(id))
		if err != nil {
			return err
		}
		stored, err := getPlan(ctx, q, id)
		if err != nil {
			return err
		}
		if _, _, err := stored.Moved(repo.TransitionCancel, cause); err != nil {
			return &answer{err}
		}
		cancelled, err := queries.PlanCancel(ctx, q, db.PlanCancelParams{
			ID:        toUUID(id),
			RootID:    root,
			FromPhase: string(stored.Phase),
			FromState: string(stored.State),
			Version:   stored.Version,
			Actor:     toNullable(cause.Actor),
			Reason:    cause.Reason,
		})
		if err != nil {
			return err
		}
		if after, err = getPlan(ctx, q, id); err != nil {
			return err
		}
		if len(cancelled) == 0 { // a worker moved it meanwhile
			return &answer{after.Refuse(repo.TransitionCancel)}
		}
		return nil
	})
	if isNoRows(err) {
		return repo.Plan{}, planNotFound(id)
	}
	if err != nil {
		return repo.Plan{}, err
	}
	return after, nil
}

func getPlan(ctx context.Context, q db.DBTX, id repo.ID) (repo.Plan, error) {
	row, err := queries.PlanGet(ctx, q, toUUID(id))
	if err != nil {
		return repo.Plan{}, err
	}
	return planOf(row)
}

func (p *plans) Progress(ctx context.Context, id repo.ID, progress repo.Progress) (repo.Plan, error) {
	if err := progress.Validate(); err != nil {
		return repo.Plan{}, err
	}
	var row db.PlanProgressRow
	err := p.exec.writeByID(ctx, func(q db.DBTX) (err error) {
		row, err = queries.PlanProgress(ctx, q, db.PlanProgressParams{
			ID:            toUUID(id),
			CompletedStep: progress.CompletedStep,
			SetCheckpoint: progress.CheckpointID != nil,
			CheckpointID:  optional(progress.CheckpointID),
		})
		if isNoRows(err) {
			return &answer{errNotMoved}
		}
		return err
	})
	if errors.Is(err, errNotMoved) {
		return p.notProcessing(ctx, id)
	}
	if err != nil {
		return repo.Plan{}, err
	}
	return planOf(progressed(row))
}

// notProcessing answers a caller whose plan had no progress to note.
func (p *plans) notProcessing(ctx context.Context, id repo.ID) (repo.Plan, error) {
	stored, err := p.Get(ctx, id)
	if err != nil {
		return repo.Plan{}, p.exec.unread(err)
	}
	return repo.Plan{}, stored.Refuse(repo.TransitionProgress)
}

// progressed is the plan as it was found, with what a plan changes as it is now.
func progressed(row db.PlanProgressRow) db.PlanDetail {
	plan := row.PlanDetail
	plan.Phase, plan.State, plan.Version = row.Phase, row.State, row.Version
	plan.ErrorMessage, plan.ErrorDetails, plan.ReversionCount = row.ErrorMessage, row.ErrorDetails, row.ReversionCount
	plan.LastCompletedStep, plan.LastCheckpointID = row.LastCompletedStep, row.LastCheckpointID
	plan.CancelledAt, plan.CancelReason, plan.UpdatedAt = row.CancelledAt, row.CancelReason, row.UpdatedAt
	return plan
}
