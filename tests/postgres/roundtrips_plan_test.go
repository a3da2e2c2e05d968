package postgres

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Actions, plans and the audit trail have budgets, too, whatever the size of their
// data.
func TestRoundTripsOfPlans(t *testing.T) {
	t.Parallel()
	tracer := &roundTrips{}
	store := pgtest.NewStore(t, agentstore.Options{Tracer: tracer, MaxConns: 1})
	session := pgtest.NewSession(t, store)
	definition := repo.ActionDefinition{
		Reusable:   true,
		Arguments:  []repo.Argument{{Name: "a", Type: repo.ArgumentString}, {Name: "b", Type: repo.ArgumentList}},
		Invariants: []string{"one", "two"},
	}
	use := repo.UseAction{
		Projects:   []repo.ProjectLink{{Project: "p"}, {Project: "q"}},
		Arguments:  []repo.ArgumentValue{{Name: "a", Value: json.RawMessage(`"x"`)}},
		Invariants: []repo.PlanInvariant{{Text: "three"}},
	}
	create := func(ctx context.Context) error {
		_, err := store.Actions().Create(ctx, repo.NewAction{Name: "a", ActionDefinition: definition})
		return err
	}
	var ids []repo.ID
	again := func(change func(*repo.UseAction)) func(context.Context) error {
		return func(ctx context.Context) error {
			given := use
			change(&given)
			_, err := store.Plans().Use(ctx, "a", given)
			return err
		}
	}
	used := func(change func(*repo.UseAction)) func(context.Context) error {
		return func(ctx context.Context) error {
			given := use
			change(&given)
			plan, err := store.Plans().Use(ctx, "a", given)
			ids = append(ids, plan.ID)
			return err
		}
	}
	moved := func(transition repo.Transition) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := store.Plans().Transition(ctx, ids[0], transition, repo.Cause{Reason: "x"})
			return err
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
	type operation struct {
		name   string
		budget int64
		run    func(ctx context.Context) error
	}
	operations := []operation{
		{"create an action", 1, create},
		{"create it again", 2, create},
		{"get an action", 1, func(ctx context.Context) error { _, err := store.Actions().Get(ctx, "a"); return err }},
		{"list actions", 1, func(ctx context.Context) error {
			_, err := store.Actions().List(ctx, repo.ActionFilter{}, repo.Page{})
			return err
		}},
		// begin, lock, update, commit
		{"update an action", 4, func(ctx context.Context) error { _, err := store.Actions().Update(ctx, "a", 0, definition); return err }},
		// the action, the plan
		{"use", 2, used(func(*repo.UseAction) {})},
		{"use with a key", 2, used(func(u *repo.UseAction) { u.Key = "k" })},
		// the action, the plan, the existing plan
		{"use with the key again", 3, again(func(u *repo.UseAction) { u.Key = "k" })},
		// the session too
		{"use for a session", 3, used(func(u *repo.UseAction) { u.SessionID = session })},
		{"use for a session, with a key", 3, used(func(u *repo.UseAction) { u.Key, u.SessionID = "k", session })},
		// the link, too
		{"use for a session, with the key again", 5, again(func(u *repo.UseAction) { u.Key, u.SessionID = "k", session })},
		// the action; begin, lock, parent, children, plan, commit
		{"use below a plan", 7, used(func(u *repo.UseAction) { u.ParentID = ids[0] })},
		{"get a plan, whole", 1, func(ctx context.Context) error { _, err := store.Plans().Get(ctx, ids[0]); return err }},
		{"history", 1, func(ctx context.Context) error { _, err := store.Plans().History(ctx, ids[0], 0, 100); return err }},
		// read, move
		{"start", 2, moved(repo.TransitionStart)},
		{"progress", 1, func(ctx context.Context) error {
			_, err := store.Plans().Progress(ctx, ids[0], repo.Progress{})
			return err
		}},
		{"complete", 2, moved(repo.TransitionComplete)},
		{"execute", 2, moved(repo.TransitionExecute)},
		{"execute again", 1, moved(repo.TransitionExecute)},
		{"link", 1, func(ctx context.Context) error { return store.Plans().Link(ctx, session, ids[0]) }},
		{"unlink", 1, func(ctx context.Context) error { return store.Plans().Unlink(ctx, session, ids[0]) }},
	}
	for range 120 { // more than a page
		operations = append(operations, operation{"use again", 2, used(func(*repo.UseAction) {})})
	}
	operations = append(operations,
		operation{"list 100 plans, whole", 1, listed(func() repo.PlanFilter { return repo.PlanFilter{} })},
		operation{"list by stage", 1, listed(func() repo.PlanFilter { return repo.PlanFilter{State: repo.PlanQueued} })},
		operation{"list by session", 1, listed(func() repo.PlanFilter { return repo.PlanFilter{SessionID: session} })},
		operation{"list by project", 1, listed(func() repo.PlanFilter { return repo.PlanFilter{Project: "p"} })},
		operation{"list children", 1, listed(func() repo.PlanFilter { return repo.PlanFilter{ParentID: ids[0]} })},
		// begin, lock, read, cancel, read, commit
		operation{"cancel", 6, moved(repo.TransitionCancel)},
		operation{"record", 1, func(ctx context.Context) error { return store.Audit().Record(ctx, entries[0]) }},
		operation{"record 1,000", 1, func(ctx context.Context) error { return store.Audit().Record(ctx, entries...) }},
		operation{"list entries", 1, func(ctx context.Context) error {
			_, err := store.Audit().List(ctx, repo.AuditFilter{Type: events.ToolInvoked}, repo.Page{Limit: 1000})
			return err
		}},
		operation{"count entries", 1, func(ctx context.Context) error {
			_, _, err := store.Audit().Count(ctx, repo.AuditFilter{}, 0)
			return err
		}},
	)
	for _, operation := range operations {
		before := tracer.count.Load()
		if err := operation.run(t.Context()); err != nil {
			t.Fatalf("%s: %v", operation.name, err)
		}
		if got := tracer.count.Load() - before; got != operation.budget {
			t.Errorf("%s: %d round trips, budget %d", operation.name, got, operation.budget)
		}
	}
}
