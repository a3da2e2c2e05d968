package memory

import (
	"context"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func (p plans) Transition(ctx context.Context, id repo.ID, transition repo.Transition,
	cause repo.Cause,
) (repo.Plan, error) {
	cause, err := rules.NormalizeCause(cause, transition)
	return runOn(ctx, unless(err, p.write), p.plan, id, func(t *tables, r *planRow) (repo.Plan, error) {
		if _, moves, err := rules.Moved(r.Plan, transition, cause); err == nil && !moves {
			return planOf(r), nil // it is there
		}
		r, err := t.checkPlan(r, cause.Fence)
		if err != nil {
			return repo.Plan{}, err
		}
		moved, _, err := rules.Moved(r.Plan, transition, cause)
		if err != nil {
			return repo.Plan{}, err
		}
		if rules.NeedsLiveParent(r.Plan, transition) {
			if err := rules.CheckParent(t.plans.get(r.ParentID).Plan, id, transition); err != nil {
				return repo.Plan{}, err
			}
		}
		t.movePlan(r, moved, transition, cause)
		if transition == repo.TransitionCancel {
			t.cancelBelow(id, cause)
		}
		after := planOf(t.plans.get(id))
		after.Moved = true
		return after, nil
	})
}

// movePlan stores a plan that was moved, and its event.
func (t *tables) movePlan(r *planRow, moved repo.Plan, transition repo.Transition, cause repo.Cause) {
	moved.UpdatedAt = t.now()
	if delay := rules.DelayOf(moved, transition, cause); delay > 0 {
		moved.NotBefore = moved.UpdatedAt.Add(delay).Truncate(time.Microsecond)
	}
	if moved.State == repo.PlanCancelled {
		moved.CancelledAt = moved.UpdatedAt
	}
	event := repo.PlanEvent{
		PlanID: moved.ID, Version: moved.Version, Transition: transition, From: r.Stage, To: moved.Stage,
		Actor: cause.Actor, Reason: cause.Reason, CreatedAt: moved.UpdatedAt,
	}
	// Clipped, so that the append copies: others read the old ones.
	t.putPlan(&planRow{Plan: moved, events: append(slices.Clip(r.events), event), fence: r.fence})
	t.recordEvent(moved.UpdatedAt, repo.AuditEntry{
		Type: rules.Event(transition, moved.Stage), Namespace: moved.Namespace, Actor: cause.Actor, PlanID: moved.ID,
		Details: rules.Details(transition, r.Stage, moved.Stage, moved.Version),
	})
}

// cancelBelow cancels the live descendants of a plan.
func (t *tables) cancelBelow(id repo.ID, cause repo.Cause) {
	cause.Version = 0 // it was the cancelled plan's own
	for _, r := range t.children(id) {
		if moved, moves, err := rules.Moved(r.Plan, repo.TransitionCancel, cause); err == nil && moves {
			t.movePlan(r, moved, repo.TransitionCancel, cause)
		}
		t.cancelBelow(r.ID, cause)
	}
}

func (t *tables) children(parentID repo.ID) []*planRow {
	return t.plans.where(func(r *planRow) bool { return r.ParentID == parentID })
}

func (p plans) Progress(ctx context.Context, id repo.ID, progress repo.Progress) (repo.Plan, error) {
	return runOn(ctx, unless(rules.CheckProgress(progress), p.write), p.plan, id,
		func(t *tables, r *planRow) (repo.Plan, error) {
			r, err := t.checkPlan(r, progress.Fence)
			if err != nil {
				return repo.Plan{}, err
			}
			if r.State != repo.PlanProcessing {
				return repo.Plan{}, rules.Refuse(r.Plan, repo.TransitionProgress, repo.Cause{})
			}
			changed := *r
			if progress.CompletedStep != nil {
				changed.LastCompletedStep = rules.ClonePointer(progress.CompletedStep)
			}
			set(&changed.LastCheckpointID, progress.CheckpointID)
			changed.UpdatedAt = t.now()
			t.putPlan(&changed)
			return planOf(&changed), nil
		})
}
