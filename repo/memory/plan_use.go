package memory

import (
	"context"

	"github.com/seed-df90f812/agentstore/repo"
)

// Use checks and writes under one lock.
func (p *plans) Use(ctx context.Context, action string, use repo.UseAction) (repo.Plan, error) {
	name, err := repo.ParseActionName(action)
	if err != nil {
		return repo.Plan{}, err
	}
	if use, err = use.Normalize(); err != nil {
		return repo.Plan{}, err
	}
	v, err := p.at.write(ctx)
	if err != nil {
		return repo.Plan{}, err
	}
	defer p.at.unlock()
	if r := v.plans().get(use.ID); r != nil {
		if err := use.Conflict(name, r.plan); err != nil {
			return repo.Plan{}, err
		}
		if !use.SessionID.IsZero() {
			if v.find(use.SessionID) == nil {
				return repo.Plan{}, notFound(use.SessionID)
			}
			link(v, use.SessionID, use.ID)
		}
		return copyPlan(r.plan), nil
	}
	if !use.SessionID.IsZero() && v.find(use.SessionID) == nil {
		return repo.Plan{}, notFound(use.SessionID)
	}
	stored := v.actions().get(name.String())
	if stored == nil {
		return repo.Plan{}, &repo.ActionNotFound{Name: name}
	}
	if stored.State != repo.ActionAvailable {
		return repo.Plan{}, &repo.ActionUnavailable{Name: name, State: stored.State}
	}
	plan, err := use.Plan(*stored)
	if err != nil {
		return repo.Plan{}, err
	}
	if err := underParent(v, &plan); err != nil {
		return repo.Plan{}, err
	}
	plan.CreatedAt = v.now()
	plan.UpdatedAt = plan.CreatedAt
	plan = copyPlan(plan)
	v.plans().put(plan.ID, &planRecord{plan: plan, events: []repo.PlanEvent{{
		PlanID: plan.ID, Version: 1, Transition: repo.TransitionUse, To: plan.Stage, Actor: use.Actor, CreatedAt: plan.CreatedAt,
	}}})
	told(v, repo.EventPlanCreated, plan.CreatedAt, use.Actor, use.SessionID, plan.ID, `{"action":"`+name.String()+`"}`)
	if !stored.Reusable {
		archived := *stored
		archived.State = repo.ActionArchived
		archived.Version++
		archived.UpdatedAt = plan.CreatedAt
		v.actions().put(name.String(), &archived)
	}
	if !use.SessionID.IsZero() {
		link(v, use.SessionID, plan.ID)
	}
	return copyPlan(plan), nil
}

// underParent puts a child plan into its parent's tree.
func underParent(v view, plan *repo.Plan) error {
	if plan.ParentID.IsZero() {
		return nil
	}
	r := v.plans().get(plan.ParentID)
	if r == nil {
		return planNotFound(plan.ParentID)
	}
	parent := &r.plan
	if !parent.Live() {
		return parent.Refuse(repo.TransitionUse)
	}
	if parent.Depth == repo.MaxPlanDepth {
		return &repo.LimitExceeded{Kind: "depth", ID: parent.ID, Limit: repo.MaxPlanDepth}
	}
	if len(children(v, parent.ID)) >= repo.MaxChildPlans {
		return &repo.LimitExceeded{Kind: "children", ID: parent.ID, Limit: repo.MaxChildPlans}
	}
	plan.RootID, plan.Depth = parent.RootID, parent.Depth+1
	if plan.Namespace == "" {
		plan.Namespace = parent.Namespace
	}
	return nil
}

func children(v view, parentID repo.ID) []*planRecord {
	var found []*planRecord
	v.plans().each(func(_ repo.ID, r *planRecord) {
		if r.plan.ParentID == parentID {
			found = append(found, r)
		}
	})
	return found
}
