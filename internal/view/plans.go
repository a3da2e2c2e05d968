package view

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// actions is repo.Actions.
type actions struct {
	view  *view
	below repo.Actions
}

func (a actions) Create(ctx context.Context, action repo.NewAction) (repo.Action, error) {
	name, err := a.view.action(action.Name)
	if _, other := err.(*repo.NotFoundError); other { //nolint:errorlint // it is not wrapped
		err = &repo.InvalidError{Field: "action", Reason: "has a namespace that is not that of the store"}
	}
	if err != nil {
		return repo.Action{}, err
	}
	action.Name = name
	return a.below.Create(ctx, action)
}

func (a actions) Get(ctx context.Context, name string) (repo.Action, error) {
	name, err := a.view.action(name)
	if err != nil {
		return repo.Action{}, err
	}
	return a.below.Get(ctx, name)
}

func (a actions) List(ctx context.Context, filter repo.ActionFilter, page repo.Page) (list repo.List[repo.Action], err error) {
	if is, err := a.view.selects(&filter.Namespace); !is {
		return list, err
	}
	return a.below.List(ctx, filter, page)
}

func (a actions) Update(ctx context.Context, name string, version int64, definition repo.ActionDefinition) (repo.Action, error) {
	name, err := a.view.action(name)
	if err != nil {
		return repo.Action{}, err
	}
	return a.below.Update(ctx, name, version, definition)
}

func (a actions) Archive(ctx context.Context, name string) (repo.Action, error) {
	name, err := a.view.action(name)
	if err != nil {
		return repo.Action{}, err
	}
	return a.below.Archive(ctx, name)
}

func (a actions) Delete(ctx context.Context, name string) error {
	name, err := a.view.action(name)
	if err != nil {
		return err
	}
	return a.below.Delete(ctx, name)
}

// plans is repo.Plans.
type plans struct {
	view  *view
	below repo.Plans
}

func (p plans) Get(ctx context.Context, id repo.ID) (repo.Plan, error) {
	plan, err := p.below.Get(ctx, id)
	if err = p.view.found("plan", id, plan.Namespace, err); err != nil {
		return repo.Plan{}, err
	}
	return plan, nil
}

func (p plans) List(ctx context.Context, filter repo.PlanFilter, page repo.Page) (list repo.List[repo.Plan], err error) {
	if is, err := p.view.selects(&filter.Namespace); !is {
		return list, err
	}
	if filter.Action != "" {
		filter.Action = p.view.qualified(filter.Action)
	}
	return p.below.List(ctx, filter, page)
}

func (p plans) History(ctx context.Context, id repo.ID, from int64, limit int) ([]repo.PlanEvent, error) {
	return plan(ctx, p.view, id, func(in repo.ID) ([]repo.PlanEvent, error) { return p.below.History(ctx, in, from, limit) })
}

func (p plans) Use(ctx context.Context, action string, use repo.UseAction) (repo.Plan, error) {
	if err := p.view.own("namespace", &use.Namespace); err != nil {
		return repo.Plan{}, err
	}
	name, err := p.view.action(action)
	if err != nil {
		return repo.Plan{}, err
	}
	ask := func(session, parent repo.ID) (repo.Plan, error) {
		use.SessionID, use.ParentID = session, parent
		used, err := p.below.Use(ctx, name, use)
		return used, p.view.found("plan", used.ID, used.Namespace, err)
	}
	return p.of(ctx, use.SessionID, use.ParentID, ask)
}

func (p plans) Transition(ctx context.Context, id repo.ID, transition repo.Transition, cause repo.Cause) (repo.Plan, error) {
	return plan(ctx, p.view, id, func(in repo.ID) (repo.Plan, error) { return p.below.Transition(ctx, in, transition, cause) })
}

func (p plans) Claim(ctx context.Context, claim repo.Claim) ([]repo.ClaimedPlan, error) {
	if _, err := rules.NormalizeClaim(claim); err != nil {
		return nil, err
	}
	for i, namespace := range claim.Namespaces {
		if err := p.view.own(fmt.Sprintf("namespaces[%d]", i), &namespace); err != nil {
			return nil, err
		}
	}
	if claim.AllNamespaces = false; len(claim.Namespaces) == 0 { // all of the view
		claim.Namespaces = []string{p.view.namespace}
	}
	claim.Actions = slices.Clone(claim.Actions)
	for i := range claim.Actions {
		claim.Actions[i] = p.view.qualified(claim.Actions[i])
	}
	claimed, err := p.below.Claim(ctx, claim)
	for _, c := range claimed {
		p.view.learn("plan", c.Plan.ID)
	}
	return claimed, err
}

func (p plans) Counts(ctx context.Context, namespace string, page repo.Page) (list repo.List[repo.PlanCount], err error) {
	if is, err := p.view.selects(&namespace); !is {
		return list, err
	}
	return p.below.Counts(ctx, namespace, page)
}

func (p plans) SetLimit(ctx context.Context, limit repo.PlanLimit) error {
	if err := p.view.own("namespace", &limit.Namespace); err != nil {
		return err
	}
	if limit.Action != "" {
		limit.Action = p.view.qualified(limit.Action)
	}
	return p.below.SetLimit(ctx, limit)
}

func (p plans) Limits(ctx context.Context, page repo.Page) (repo.List[repo.PlanLimit], error) {
	return p.below.Limits(ctx, page)
}

func (p plans) Delete(ctx context.Context, id repo.ID, conditions ...repo.DeleteIf) error {
	_, err := plan(ctx, p.view, id, func(in repo.ID) (struct{}, error) { return struct{}{}, p.below.Delete(ctx, in, conditions...) })
	return err
}

// Sweep finds the plans of all namespaces that have ended for everybody.
func (p plans) Sweep(ctx context.Context, limit int) (int, error) { return p.below.Sweep(ctx, limit) }

func (p plans) Progress(ctx context.Context, id repo.ID, progress repo.Progress) (repo.Plan, error) {
	return plan(ctx, p.view, id, func(in repo.ID) (repo.Plan, error) { return p.below.Progress(ctx, in, progress) })
}

func (p plans) Link(ctx context.Context, sessionID, planID repo.ID) error {
	_, err := p.of(ctx, sessionID, planID, func(session, plan repo.ID) (repo.Plan, error) { return repo.Plan{}, p.below.Link(ctx, session, plan) })
	return err
}

func (p plans) Unlink(ctx context.Context, sessionID, planID repo.ID) error {
	_, err := p.of(ctx, sessionID, planID, func(session, plan repo.ID) (repo.Plan, error) { return repo.Plan{}, p.below.Unlink(ctx, session, plan) })
	return err
}

// of asks the store below for a session and a plan. Zero: for none.
func (p plans) of(ctx context.Context, sessionID, planID repo.ID, ask func(session, plan repo.ID) (repo.Plan, error)) (repo.Plan, error) {
	of := func(session repo.ID) (repo.Plan, error) {
		if planID.IsZero() {
			return ask(session, planID)
		}
		return plan(ctx, p.view, planID, func(in repo.ID) (repo.Plan, error) { return ask(session, in) })
	}
	if sessionID.IsZero() {
		return of(sessionID)
	}
	return session(ctx, p.view, sessionID, of)
}
