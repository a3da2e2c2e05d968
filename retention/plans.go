package retention

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/internal/pages"
	"github.com/seed-df90f812/agentstore/repo"
)

// DeleteWithPlans deletes a session, and cancels the live plans that are linked to it, and the plans below them: all in
// one transaction. A plan's worker learns of it at its next call. cause needs a Reason, and has no Version and no
// Fence. In a view the plans of other namespaces stay. Sessions().Delete alone leaves all plans as they are.
//
// Errors: as of Sessions().Delete, and InvalidError for a cause that a cancellation refuses. Then nothing is
// changed.
func DeleteWithPlans(
	ctx context.Context, store repo.Store, id repo.ID, cause repo.Cause, conditions ...repo.DeleteIf,
) (deleted repo.DeletedSession, err error) {
	switch {
	case cause.Reason == "": // also for a session without plans
		return deleted, &repo.InvalidError{Field: "cause.reason", Reason: "is empty"}
	case cause.Version != 0 || cause.Fence != 0:
		return deleted, &repo.InvalidError{Field: "cause", Reason: "has a version or a fence, which are of one plan"}
	}
	err = store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		deleted, err = tx.Sessions().Delete(ctx, id, conditions...)
		if err != nil {
			return err
		}
		for _, plan := range deleted.Plans {
			if err := cancel(ctx, tx.Plans(), plan.ID, plan.Stage, cause); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		deleted = repo.DeletedSession{}
	}
	return deleted, err
}

// cancel cancels a plan, and what is live below it. A plan that is gone by then, with the plans below it, counts as
// cancelled.
func cancel(ctx context.Context, plans repo.Plans, id repo.ID, stage repo.Stage, cause repo.Cause) error {
	if stage.Live() {
		_, err := plans.Transition(ctx, id, repo.TransitionCancel, cause)
		if errors.Is(err, repo.ErrNotFound) {
			return nil
		}
		conflict, ended := errors.AsType[*repo.TransitionConflictError](err)
		if !ended || conflict.Live() {
			return err
		}
	}
	list := func(page repo.Page) (repo.List[repo.Plan], error) {
		return plans.List(ctx, repo.PlanFilter{ParentID: id}, page)
	}
	return pages.Items(list, func(below repo.Plan) error { return cancel(ctx, plans, below.ID, below.Stage, cause) })
}
