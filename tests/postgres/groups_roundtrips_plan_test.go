package postgres

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Actions, plans and the audit trail have budgets, too, whatever the size of their
// data.
func TestRoundTripsOfPlans(t *testing.T) {
	t.Parallel()
	store, tracer := openTraced(t)
	session := pgtest.NewSession(t, store)
	definition := repo.ActionDefinition{
		Reusable:   true,
		Arguments:  []repo.Argument{{Name: "a", Type: repo.ArgumentString}, {Name: "b", Type: repo.ArgumentList}},
		Invariants: []string{"one", "two"},
	}
	create := func(ctx context.Context) error {
		return second(store.Actions().Create(ctx, repo.NewAction{Name: "a", ActionDefinition: definition}))
	}
	var ids []repo.ID
	used := func(change func(*repo.UseAction)) func(context.Context) error {
		return func(ctx context.Context) error {
			use := repo.UseAction{
				Projects:   []repo.ProjectLink{{Project: "p"}, {Project: "q"}},
				Arguments:  []repo.ArgumentValue{{Name: "a", Value: json.RawMessage(`"x"`)}},
				Invariants: []repo.PlanInvariant{{Text: "three"}},
			}
			change(&use)
			plan, err := store.Plans().Use(ctx, "a", use)
			ids = append(ids, plan.ID)
			return err
		}
	}
	plain := used(func(*repo.UseAction) {})
	keyed := used(func(u *repo.UseAction) { u.Key = "k" })
	keyedInSession := used(func(u *repo.UseAction) { u.Key, u.SessionID = "k", session })
	moved := func(transition repo.Transition) func(context.Context) error {
		return func(ctx context.Context) error {
			return second(store.Plans().Transition(ctx, ids[0], transition, repo.Cause{Reason: "x"}))
		}
	}
	listed := func(filter func() repo.PlanFilter) func(context.Context) error {
		return func(ctx context.Context) error {
			page, err := store.Plans().List(ctx, filter(), repo.Page{Limit: 100})
			if err == nil && len(page.Items) == 0 {
				t.Error("a list is empty")
			}
			return err
		}
	}
	entries := make([]repo.AuditEntry, 1000)
	for i := range entries {
		entries[i].Type = events.ToolInvoked
	}
	operations := []budgeted{
		{"create an action", 1, create},
		{"create it again", 2, create},
		// the action, the plan
		{"use", 2, plain},
		{"use with a key", 2, keyed},
		// the action, the plan, the existing plan
		{"use with the key again", 3, keyed},
		// the session too
		{"use for a session", 3, used(func(u *repo.UseAction) { u.SessionID = session })},
		{"use for a session, with a key", 3, keyedInSession},
		// the link, too
		{"use for a session, with the key again", 5, keyedInSession},
		// the action; begin, lock, parent, children, plan, commit
		{"use below a plan", 7, used(func(u *repo.UseAction) { u.ParentID = ids[0] })},
		// read, move
		{"start", 2, moved(repo.TransitionStart)},
		{"complete", 2, moved(repo.TransitionComplete)},
		{"execute", 2, moved(repo.TransitionExecute)},
		{"execute again", 1, moved(repo.TransitionExecute)},
		{"link", 1, func(ctx context.Context) error { return store.Plans().Link(ctx, session, ids[0]) }},
		{"unlink", 1, func(ctx context.Context) error { return store.Plans().Unlink(ctx, session, ids[0]) }},
	}
	for range 120 { // more than a page
		operations = append(operations, budgeted{"use again", 2, plain})
	}
	wantRoundTrips(t, tracer, append(operations, []budgeted{
		{"list 100 plans, whole", 1, listed(func() repo.PlanFilter { return repo.PlanFilter{} })},
		{"list by stage", 1, listed(func() repo.PlanFilter { return repo.PlanFilter{State: repo.PlanQueued} })},
		{"list by session", 1, listed(func() repo.PlanFilter { return repo.PlanFilter{SessionID: session} })},
		{"list by project", 1, listed(func() repo.PlanFilter { return repo.PlanFilter{Project: "p"} })},
		{"list children", 1, listed(func() repo.PlanFilter { return repo.PlanFilter{ParentID: ids[0]} })},
		// begin, lock, read, cancel, read, commit
		{"cancel", 6, moved(repo.TransitionCancel)},
		{"record 1,000", 1, func(ctx context.Context) error { return store.Audit().Record(ctx, entries...) }},
		{"list entries", 1, func(ctx context.Context) error {
			return second(store.Audit().List(ctx, repo.AuditFilter{Type: events.ToolInvoked}, repo.Page{Limit: 1000}))
		}},
	}...))
}
