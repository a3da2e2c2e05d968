package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// plans is repo.Plans: reading here, making and moving in the files beside.
type plans struct{ *handle }

// planRow is a plan with its history.
type planRow struct {
	repo.Plan
	events []repo.PlanEvent
	// fence is the latest fence that was given for the plan's lease.
	fence int64
}

// planOf is the plan as a caller gets it.
func planOf(r *planRow) repo.Plan { return copyOf(&r.Plan) }

func (p plans) Get(ctx context.Context, id repo.ID) (repo.Plan, error) {
	return runOn(ctx, p.read, p.plan, id, func(_ *tables, r *planRow) (repo.Plan, error) { return planOf(r), nil })
}

func (p plans) List(ctx context.Context, filter repo.PlanFilter, page repo.Page) (repo.List[repo.Plan], error) {
	if is, err := rules.SelectsInView(p.options.view, &filter.Namespace); !is {
		return repo.List[repo.Plan]{}, err
	}
	list, err := rules.PlanList(p.options.view, filter, page)
	return run(ctx, unless(err, p.read), func(t *tables) (repo.List[repo.Plan], error) {
		return pageOf(list, t.selectPlans(list.Filter, list.After), func(a, b *planRow) int { return b.ID.Compare(a.ID) },
			planOf)
	})
}

// selectPlans looks at the session's plans, if the filter names one, else at all.
func (t *tables) selectPlans(filter repo.PlanFilter, after repo.ID) []*planRow {
	selects := func(r *planRow) bool {
		return r.ID.Compare(after) < 0 && (filter.Namespace == "" || filter.Namespace == r.Namespace) &&
			(filter.Action == "" || filter.Action == r.Action.String()) &&
			(filter.Phase == "" || filter.Phase == r.Phase) &&
			(filter.State == "" || filter.State == r.State) &&
			(filter.ParentID.IsZero() || filter.ParentID == r.ParentID) &&
			(filter.Project == "" || slices.ContainsFunc(r.Projects,
				func(l repo.ProjectLink) bool { return l.Project == filter.Project }))
	}
	if filter.SessionID.IsZero() {
		return t.plans.where(selects)
	}
	var found []*planRow
	if session := t.sessions.get(filter.SessionID); session != nil {
		for _, id := range session.planIDs {
			if r := t.plans.get(id); selects(r) {
				found = append(found, r)
			}
		}
	}
	return found
}

func (p plans) Counts(ctx context.Context, namespace string, page repo.Page) (repo.List[repo.PlanCount], error) {
	if is, err := rules.SelectsInView(p.options.view, &namespace); !is {
		return repo.List[repo.PlanCount]{}, err
	}
	list, err := rules.CountList(namespace, page)
	return run(ctx, unless(err, p.read), func(t *tables) (repo.List[repo.PlanCount], error) {
		counts := map[repo.PlanCount]repo.PlanCount{}
		for _, r := range t.plans.all() {
			key := repo.PlanCount{Namespace: r.Namespace, Stage: r.Stage}
			if namespace != "" && namespace != r.Namespace || compareCounts(key, list.After) <= 0 {
				continue
			}
			count := cmp.Or(counts[key], key)
			count.Count = min(count.Count+1, limits.MaxPlanCount)
			if since := rules.WaitsSince(r.Plan); r.State == repo.PlanQueued && !since.After(t.now()) &&
				(count.Oldest.IsZero() || since.Before(count.Oldest)) {
				count.Oldest = since
			}
			counts[key] = count
		}
		return pageOf(list, slices.Collect(maps.Values(counts)), compareCounts, same)
	})
}

func compareCounts(a, b repo.PlanCount) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Phase, b.Phase), cmp.Compare(a.State, b.State))
}

func (p plans) History(ctx context.Context, id repo.ID, from int64, limit int) ([]repo.PlanEvent, error) {
	limit, err := rules.CheckPage("from", from, limit)
	return runOn(ctx, unless(err, p.read), p.plan, id, func(_ *tables, r *planRow) ([]repo.PlanEvent, error) {
		count := int64(len(r.events))
		first := min(max(from, 1)-1, count)
		return append([]repo.PlanEvent{}, r.events[first:min(first+int64(limit), count)]...), nil
	})
}

func (p plans) Link(ctx context.Context, sessionID, planID repo.ID) error {
	return p.relink(ctx, sessionID, planID, (*sessionRow).link)
}

func (p plans) Unlink(ctx context.Context, sessionID, planID repo.ID) error {
	return p.relink(ctx, sessionID, planID, (*sessionRow).unlink)
}

func (p plans) relink(ctx context.Context, sessionID, planID repo.ID, change func(*sessionRow, repo.ID)) error {
	return exec(ctx, p.write, func(t *tables) error {
		session, err := p.editSession(t, sessionID)
		if err != nil {
			return err
		}
		if _, err := p.plan(t, planID); err != nil {
			return err
		}
		change(session, planID)
		return nil
	})
}
