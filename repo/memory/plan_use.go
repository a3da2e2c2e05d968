package memory

import (
	"context"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// Use checks and writes under one lock.
func (p plans) Use(ctx context.Context, action string, use repo.UseAction) (repo.Plan, error) {
	name, use, err := rules.NormalizeUse(action, use)
	if err != nil {
		return repo.Plan{}, err
	}
	return run(ctx, p.write, func(t *tables) (_ repo.Plan, err error) {
		known := t.plans.get(use.ID)
		if known != nil {
			if err := rules.UseConflict(use, name, known.Plan); err != nil {
				return repo.Plan{}, err
			}
		}
		var session *sessionRow
		if !use.SessionID.IsZero() {
			if session, err = t.editSession(use.SessionID); err != nil {
				return repo.Plan{}, err
			}
		}
		if known == nil {
			if known, err = t.makePlan(name, use); err != nil {
				return repo.Plan{}, err
			}
		}
		if session != nil {
			session.link(use.ID)
		}
		return planOf(known), nil
	})
}

// makePlan stores a new plan.
func (t *tables) makePlan(name repo.ActionName, use repo.UseAction) (*planRow, error) {
	action, err := t.action(name)
	if err != nil {
		return nil, err
	}
	plan, err := rules.NewPlan(use, *action)
	if err != nil {
		return nil, err
	}
	if err := t.putUnderParent(&plan); err != nil {
		return nil, err
	}
	plan.CreatedAt = t.now()
	plan.UpdatedAt = plan.CreatedAt
	r := &planRow{Plan: copyPlan(plan), events: []repo.PlanEvent{{
		PlanID: plan.ID, Version: 1, Transition: repo.TransitionUse, To: plan.Stage, Actor: use.Actor, CreatedAt: plan.CreatedAt,
	}}}
	t.putPlan(r)
	t.recordEvent(plan.CreatedAt, repo.AuditEntry{
		Type: repo.EventPlanCreated, Actor: use.Actor, SessionID: use.SessionID, PlanID: plan.ID,
		Details: rules.UseDetails(name),
	})
	if !action.Reusable {
		t.archive(*action, plan.CreatedAt)
	}
	return r, nil
}

// putUnderParent puts a child plan into its parent's tree.
func (t *tables) putUnderParent(plan *repo.Plan) error {
	if plan.ParentID.IsZero() {
		return nil
	}
	parent, err := t.plan(plan.ParentID)
	if err != nil {
		return err
	}
	return rules.PutBelow(plan, parent.Plan, int64(len(t.children(parent.ID))))
}
