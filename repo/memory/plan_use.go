package memory

import (
	"cmp"
	"context"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// Use checks and writes under one lock.
func (p plans) Use(ctx context.Context, action string, use repo.UseAction) (repo.Plan, error) {
	name, use, err := rules.NormalizeUse(p.options.view, action, use)
	return run(ctx, unless(err, p.write), func(t *tables) (repo.Plan, error) {
		session, err := p.editSession(t, use.SessionID)
		if err != nil && !use.SessionID.IsZero() {
			return repo.Plan{}, err
		}
		known := t.usedPlan(name, use)
		if known == nil {
			known, err = p.makePlan(ctx, t, name, use)
		} else if err = rules.UseConflict(use, name, known.Plan); err == nil {
			known, err = p.plan(t, known.ID)
		}
		if err != nil {
			return repo.Plan{}, err
		}
		if session != nil {
			session.link(known.ID)
		}
		return planOf(known), nil
	})
}

// planKey is the key of a use in its session or, without one, in its namespace.
type planKey struct {
	session        repo.ID
	namespace, key string
}

func keyOfPlan(session repo.ID, namespace, key string) planKey {
	if !session.IsZero() {
		namespace = ""
	}
	return planKey{session, namespace, key}
}

// usedPlan returns the plan that has the use's key. Nil: there is none.
func (t *tables) usedPlan(name repo.ActionName, use repo.UseAction) *planRow {
	if use.Key == "" {
		return nil
	}
	namespace := cmp.Or(use.Namespace, name.Namespace)
	if use.SessionID.IsZero() && use.Namespace == "" && !use.ParentID.IsZero() {
		parent := t.plans.get(use.ParentID)
		if parent == nil {
			return nil
		}
		namespace = parent.Namespace
	}
	return named(&t.planKeys, keyOfPlan(use.SessionID, namespace, use.Key), &t.plans)
}

// makePlan stores a new plan, a child in its parent's tree.
func (p plans) makePlan(ctx context.Context, t *tables, name repo.ActionName, use repo.UseAction) (*planRow, error) {
	action, err := t.action(name)
	if err != nil {
		return nil, err
	}
	plan, err := rules.NewPlan(ctx, repo.NewID(), use, *action)
	if err == nil && !plan.ParentID.IsZero() {
		var parent *planRow
		if parent, err = p.plan(t, plan.ParentID); err == nil {
			err = rules.PutBelow(&plan, parent.Plan, int64(len(t.children(parent.ID))))
		}
	}
	if err != nil {
		return nil, err
	}
	return t.insertPlan(plan, *action, use), nil
}

func (t *tables) insertPlan(plan repo.Plan, action repo.Action, use repo.UseAction) *planRow {
	plan.CreatedAt = t.now()
	plan.UpdatedAt = plan.CreatedAt
	plan.Deadline = rules.DeadlineOf(plan, action.MaxAge)
	r := &planRow{Plan: plan, events: []repo.PlanEvent{{
		PlanID: plan.ID, Version: 1, Transition: repo.TransitionUse, To: plan.Stage, Actor: use.Actor,
		CreatedAt: plan.CreatedAt,
	}}}
	t.putPlan(r)
	if plan.Key != "" {
		t.planKeys.put(keyOfPlan(plan.SessionID, plan.Namespace, plan.Key), &r.ID)
	}
	t.recordEvent(plan.CreatedAt, repo.AuditEntry{
		Type: events.PlanCreated, Namespace: plan.Namespace, Actor: use.Actor, SessionID: use.SessionID, PlanID: plan.ID,
		Details: rules.UseDetails(action.Name),
	})
	if !action.Reusable {
		t.archive(action, plan.CreatedAt)
	}
	return r
}
