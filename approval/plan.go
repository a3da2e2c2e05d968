package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// maxDelay is the most that a plan is delayed by: the store's own bound.
const maxDelay = 10 * 365 * 24 * time.Hour

// planOf returns the plan of a request, which a transaction of the whole store would find in any namespace.
func (a *Approvals) planOf(ctx context.Context, plans repo.Plans, r Request) (repo.Plan, error) {
	plan, err := plans.Get(ctx, r.PlanID)
	if err == nil && plan.Namespace != a.namespace {
		err = &repo.NotFoundError{Kind: "plan", ID: r.PlanID}
	}
	return plan, err
}

// block makes the plan of a request, which was changed just now, wait.
func (a *Approvals) block(ctx context.Context, tx repo.Repositories, r Request, fence int64) error {
	if r.PlanID.IsZero() {
		return nil
	}
	plan, err := a.planOf(ctx, tx.Plans(), r)
	if err != nil {
		return err
	}
	refused := &repo.RefusedError{Kind: "plan", ID: plan.ID}
	switch plan.State {
	case repo.PlanProcessing:
		_, err = tx.Plans().Transition(ctx, plan.ID, repo.TransitionSnooze, repo.Cause{
			Version: plan.Version, Actor: r.By, Fence: fence, Reason: fmt.Sprintf("waits for the approval %q", r.ID),
			Delay: min(r.Until.Sub(r.UpdatedAt), maxDelay),
		})
		return err
	case repo.PlanComplete:
		return nil
	case repo.PlanQueued:
		if !plan.NotBefore.Before(r.Until) || fence != 0 && plan.NotBefore.After(r.UpdatedAt) {
			return nil
		}
		refused.Reason = "is queued, and due before the approval expires"
	default:
		refused.Reason = "has ended"
	}
	return refused
}

// wake lets the plan of a decided request go on. A plan that is gone, or that another writer has moved, needs no
// waking.
func (a *Approvals) wake(ctx context.Context, tx repo.Repositories, r Request, by string) error {
	if r.PlanID.IsZero() {
		return nil
	}
	err := a.move(ctx, tx.Plans(), r, by)
	if _, gone := errors.AsType[*repo.TransitionConflictError](err); gone || errors.Is(err, repo.ErrNotFound) {
		return nil
	}
	return err
}

func (a *Approvals) move(ctx context.Context, plans repo.Plans, r Request, by string) error {
	plan, err := a.planOf(ctx, plans, r)
	if err != nil {
		return err
	}
	cause := repo.Cause{Version: plan.Version, Actor: by, Reason: fmt.Sprintf("the approval %q is %s", r.ID, r.Status)}
	switch {
	case plan.State == repo.PlanComplete:
		to, executes := repo.TransitionApply, len(plan.Phases) == 0 || slices.Contains(plan.Phases, repo.PhaseExecute)
		if r.Status != Approved {
			to = repo.TransitionCancel
		} else if plan.Phase == repo.PhaseStrategize && executes {
			to = repo.TransitionExecute
		}
		_, err = plans.Transition(ctx, plan.ID, to, cause)
	case plan.State == repo.PlanQueued && !plan.NotBefore.IsZero() && r.Status != Expired: // when it is due by itself
		if plan, err = plans.Transition(ctx, plan.ID, repo.TransitionStart, cause); err == nil {
			cause.Version = plan.Version
			_, err = plans.Transition(ctx, plan.ID, repo.TransitionSnooze, cause)
		}
	}
	return err
}
