package memory

import (
	"context"

	"github.com/seed-df90f812/agentstore/repo"
)

func (p *plans) Transition(ctx context.Context, id repo.ID, transition repo.Transition, cause repo.Cause) (repo.Plan, error) {
	cause, err := cause.Normalize(transition)
	if err != nil {
		return repo.Plan{}, err
	}
	v, err := p.at.write(ctx)
	if err != nil {
		return repo.Plan{}, err
	}
	defer p.at.unlock()
	r := v.plans().get(id)
	if r == nil {
		return repo.Plan{}, planNotFound(id)
	}
	moved, moves, err := r.plan.Moved(transition, cause)
	if err != nil {
		return repo.Plan{}, err
	}
	if !moves {
		return copyPlan(r.plan), nil
	}
	if r.plan.NeedsLiveParent(transition) {
		if parent := &v.plans().get(r.plan.ParentID).plan; !parent.Live() {
			return repo.Plan{}, parent.RefuseChild(id, transition)
		}
	}
	p.store(v, r, moved, transition, cause)
	if transition == repo.TransitionCancel {
		p.cancelBelow(v, id, cause)
	}
	return copyPlan(v.plans().get(id).plan), nil
}

// store stores a plan that was moved, and its event.
func (p *plans) store(v view, r *planRecord, moved repo.Plan, transition repo.Transition, cause repo.Cause) {
	moved.UpdatedAt = v.now()
	if moved.State == repo.StateCancelled {
		moved.CancelledAt = moved.UpdatedAt
	}
	moved = copyPlan(moved)
	v.plans().put(moved.ID, r.moved(moved, repo.PlanEvent{
		PlanID: moved.ID, Version: moved.Version, Transition: transition, From: r.plan.Stage, To: moved.Stage,
		Actor: cause.Actor, Reason: cause.Reason, CreatedAt: moved.UpdatedAt,
	}))
	details := transition.Details(r.plan.Stage, moved.Stage, moved.Version)
	told(v, transition.Event(moved.Stage), moved.UpdatedAt, cause.Actor, repo.ID{}, moved.ID, string(details))
}

// cancelBelow cancels the live descendants of a plan.
func (p *plans) cancelBelow(v view, id repo.ID, cause repo.Cause) {
	cause.Version = 0 // it was the cancelled plan's own
	for _, r := range children(v, id) {
		if moved, moves, err := r.plan.Moved(repo.TransitionCancel, cause); err == nil && moves {
			p.store(v, r, moved, repo.TransitionCancel, cause)
		}
		p.cancelBelow(v, r.plan.ID, cause)
	}
}

func (p *plans) Progress(ctx context.Context, id repo.ID, progress repo.Progress) (repo.Plan, error) {
	if err := progress.Validate(); err != nil {
		return repo.Plan{}, err
	}
	v, err := p.at.write(ctx)
	if err != nil {
		return repo.Plan{}, err
	}
	defer p.at.unlock()
	r := v.plans().get(id)
	if r == nil {
		return repo.Plan{}, planNotFound(id)
	}
	if r.plan.State != repo.StateProcessing {
		return repo.Plan{}, r.plan.Refuse(repo.TransitionProgress)
	}
	changed := r.plan
	if progress.CompletedStep != nil {
		changed.LastCompletedStep = copyPointer(progress.CompletedStep)
	}
	if progress.CheckpointID != nil {
		changed.LastCheckpointID = *progress.CheckpointID
	}
	changed.UpdatedAt = v.now()
	v.plans().put(id, &planRecord{plan: changed, events: r.events})
	return copyPlan(changed), nil
}
