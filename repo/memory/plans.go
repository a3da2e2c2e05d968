package memory

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
)

// plans is repo.Plans: reading here, making and moving in the files beside.
type plans struct{ at access }

// planRecord is a plan with its history.
type planRecord struct {
	plan   repo.Plan
	events []repo.PlanEvent
}

// moved is the record after a transition.
func (r *planRecord) moved(plan repo.Plan, event repo.PlanEvent) *planRecord {
	// Clipped, so that the append copies: others read the old one.
	return &planRecord{plan: plan, events: append(slices.Clip(r.events), event)}
}

func planNotFound(id repo.ID) error { return &repo.NotFoundError{Kind: "plan", ID: id} }

func copyPlan(p repo.Plan) repo.Plan {
	p.Projects = slices.Clone(p.Projects)
	p.Invariants = slices.Clone(p.Invariants)
	p.Arguments = slices.Clone(p.Arguments)
	for i := range p.Arguments {
		p.Arguments[i].Value = bytes.Clone(p.Arguments[i].Value)
	}
	p.AutomationSnapshot = bytes.Clone(p.AutomationSnapshot)
	p.ErrorDetails = bytes.Clone(p.ErrorDetails)
	p.LastCompletedStep = copyPointer(p.LastCompletedStep)
	return p
}

func (p *plans) Get(ctx context.Context, id repo.ID) (repo.Plan, error) {
	v, err := p.at.read(ctx)
	if err != nil {
		return repo.Plan{}, err
	}
	defer p.at.unlock()
	r := v.plans().get(id)
	if r == nil {
		return repo.Plan{}, planNotFound(id)
	}
	return copyPlan(r.plan), nil
}

func (p *plans) List(ctx context.Context, filter repo.PlanFilter, page repo.Page) (repo.PlanPage, error) {
	filter, err := filter.Normalize()
	if err != nil {
		return repo.PlanPage{}, err
	}
	limit, err := repo.CheckLimit(page.Limit)
	if err != nil {
		return repo.PlanPage{}, err
	}
	after, err := filter.Place(page.After)
	if err != nil {
		return repo.PlanPage{}, err
	}
	v, err := p.at.read(ctx)
	if err != nil {
		return repo.PlanPage{}, err
	}
	found := selectPlans(v, filter, after)
	p.at.unlock()
	slices.SortFunc(found, func(a, b *planRecord) int { return b.plan.ID.Compare(a.plan.ID) })
	result := repo.PlanPage{Plans: make([]repo.Plan, 0, min(len(found), limit))}
	for _, r := range found[:min(len(found), limit)] {
		result.Plans = append(result.Plans, copyPlan(r.plan))
	}
	if len(found) > limit {
		result.Next = filter.CursorAfter(result.Plans[limit-1].ID)
	}
	return result, nil
}

func selectPlans(v view, filter repo.PlanFilter, after repo.ID) []*planRecord {
	var found []*planRecord
	visit := func(id repo.ID, r *planRecord) {
		plan := &r.plan
		if id.Compare(after) < 0 &&
			(filter.Namespace == "" || filter.Namespace == plan.Namespace) &&
			(filter.Phase == "" || filter.Phase == plan.Phase) &&
			(filter.State == "" || filter.State == plan.State) &&
			(filter.ParentID.IsZero() || filter.ParentID == plan.ParentID) &&
			(filter.Project == "" || slices.ContainsFunc(plan.Projects, func(l repo.ProjectLink) bool { return l.Project == filter.Project })) {
			found = append(found, r)
		}
	}
	if filter.SessionID.IsZero() {
		v.plans().each(visit)
		return found
	}
	if linked := v.links().get(filter.SessionID); linked != nil {
		for _, id := range *linked {
			visit(id, v.plans().get(id))
		}
	}
	return found
}

func (p *plans) History(ctx context.Context, id repo.ID, from int64, limit int) ([]repo.PlanEvent, error) {
	if err := repo.CheckSequence("from", from); err != nil {
		return nil, err
	}
	limit, err := repo.CheckLimit(limit)
	if err != nil {
		return nil, err
	}
	v, err := p.at.read(ctx)
	if err != nil {
		return nil, err
	}
	defer p.at.unlock()
	r := v.plans().get(id)
	if r == nil {
		return nil, planNotFound(id)
	}
	count := int64(len(r.events))
	first := min(max(from, 1)-1, count)
	return append([]repo.PlanEvent{}, r.events[first:min(first+int64(limit), count)]...), nil
}

// linkedPlans are a session's plans, as they are now. Nil: none.
func linkedPlans(v view, sessionID repo.ID) []repo.LinkedPlan {
	ids := v.links().get(sessionID)
	if ids == nil || len(*ids) == 0 {
		return nil
	}
	linked := make([]repo.LinkedPlan, len(*ids))
	for i, id := range *ids {
		linked[i] = repo.LinkedPlan{ID: id, Stage: v.plans().get(id).plan.Stage}
	}
	return linked
}

func (p *plans) Link(ctx context.Context, sessionID, planID repo.ID) error {
	return p.relink(ctx, sessionID, planID, link)
}

func (p *plans) Unlink(ctx context.Context, sessionID, planID repo.ID) error {
	return p.relink(ctx, sessionID, planID, func(v view, sessionID, planID repo.ID) {
		if ids := v.links().get(sessionID); ids != nil {
			left := slices.DeleteFunc(slices.Clone(*ids), func(id repo.ID) bool { return id == planID })
			v.links().put(sessionID, &left)
		}
	})
}

func (p *plans) relink(ctx context.Context, sessionID, planID repo.ID, change func(view, repo.ID, repo.ID)) error {
	v, err := p.at.write(ctx)
	if err != nil {
		return err
	}
	defer p.at.unlock()
	if v.find(sessionID) == nil {
		return notFound(sessionID)
	}
	if v.plans().get(planID) == nil {
		return planNotFound(planID)
	}
	change(v, sessionID, planID)
	return nil
}

// link keeps a session's plans in the order of their ids.
func link(v view, sessionID, planID repo.ID) {
	var ids []repo.ID
	if stored := v.links().get(sessionID); stored != nil {
		ids = slices.Clone(*stored)
	}
	if at, found := slices.BinarySearchFunc(ids, planID, repo.ID.Compare); !found {
		ids = slices.Insert(ids, at, planID)
		v.links().put(sessionID, &ids)
	}
}
