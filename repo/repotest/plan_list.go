package repotest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func planListTests() []test {
	return []test{
		onPlans("Missing", testPlanMissing),
		onPlans("Filters", testPlanFilters),
		onPlans("Cursors", testPlanCursors),
		onPlans("Links", testPlanLinks),
		onPlans("SessionDelete", testPlanSessionDelete),
		onPlans("Export", testPlanExport),
	}
}

func testPlanMissing(t *testing.T, r repo.Repositories) {
	for _, id := range []repo.ID{{}, repo.NewID()} {
		_, err := r.Plans().Get(t.Context(), id)
		wantNotFound(t, err, "plan", id)
	}
}

func walkPlans(t *testing.T, r repo.Repositories, filter repo.PlanFilter, limit int) []repo.Plan {
	t.Helper()
	var all []repo.Plan
	for page := (repo.Page{Limit: limit}); ; {
		got, err := r.Plans().List(t.Context(), filter, page)
		must(t, got, err)
		if len(got.Items) > limit {
			t.Fatalf("a page has %d plans, the limit is %d", len(got.Items), limit)
		}
		all = append(all, got.Items...)
		if page.After = got.Next; page.After == "" {
			return all
		}
	}
}

// Each filter selects, alone and with others, in pages of every size.
func testPlanFilters(t *testing.T, r repo.Repositories) {
	name, namespace, project := createAction(t, r, fullDefinition()), spaceOf(r), randomName()
	session, other := create(t, r.Sessions()), create(t, r.Sessions())
	use := func(change func(*repo.UseAction), route ...repo.Transition) repo.ID {
		given := repo.UseAction{Namespace: namespace, Arguments: []repo.ArgumentValue{value("branch", `"b"`)}}
		change(&given)
		id := usePlan(t, r, name, given).ID
		move(t, r, id, route...)
		return id
	}
	nothing := func(*repo.UseAction) {}
	parent := use(nothing, repo.TransitionStart)
	sessions := map[repo.ID]repo.ID{}
	for i, route := range [][]repo.Transition{
		{}, {repo.TransitionStart}, {repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute}, {repo.TransitionCancel}, {repo.TransitionStart},
	} {
		use(func(u *repo.UseAction) { u.ParentID = parent }, route...)
		use(func(u *repo.UseAction) {
			u.Projects = []repo.ProjectLink{{Project: project}, {Project: project, Alias: "again"}, {Project: "x"}}
		}, route...)
		sessions[use(func(u *repo.UseAction) { u.SessionID = session }, route...)] = session
		use(func(u *repo.UseAction) {
			u.Namespace, u.Projects = namespace+"2", []repo.ProjectLink{{Project: project}}
		}, route...)
		if i == 0 {
			use(func(u *repo.UseAction) { u.SessionID = other })
		}
	}
	var all []repo.Plan
	for _, n := range []string{namespace, namespace + "2"} {
		all = append(all, walkPlans(t, r, repo.PlanFilter{Namespace: n}, 1000)...)
	}
	slices.SortFunc(all, func(a, b repo.Plan) int { return b.ID.Compare(a.ID) })
	if len(all) != 22 {
		t.Fatalf("%d plans", len(all))
	}
	for _, p := range all[:3] {
		wantPlan(t, getPlan(t, r, p.ID), p)
	}
	for _, narrow := range []repo.PlanFilter{{}, {ParentID: parent}, {SessionID: session}, {Project: project}, {Project: randomName()}} {
		for _, n := range []string{namespace, namespace + "2", ""} {
			if n == "" && narrow == (repo.PlanFilter{}) {
				continue // the default namespace, which other tests use
			}
			for _, stage := range []repo.Stage{
				{},
				{Phase: repo.PhaseStrategize},
				{State: repo.PlanProcessing},
				{State: repo.PlanQueued},
				{Phase: repo.PhaseExecute, State: repo.PlanQueued},
				{Phase: repo.PhaseApply},
			} {
				filter := narrow
				filter.Namespace, filter.Phase, filter.State = n, stage.Phase, stage.State
				wantPlansListed(t, r, filter, slices.DeleteFunc(slices.Clone(all), func(p repo.Plan) bool { return !selects(filter, p, sessions[p.ID]) }))
			}
		}
	}
}

// selects reports whether a filter selects a plan, which is of a session.
func selects(filter repo.PlanFilter, p repo.Plan, session repo.ID) bool {
	return (filter.Namespace == "" || p.Namespace == filter.Namespace) &&
		(filter.Phase == "" || p.Phase == filter.Phase) && (filter.State == "" || p.State == filter.State) &&
		(filter.ParentID.IsZero() || p.ParentID == filter.ParentID) &&
		(filter.SessionID.IsZero() || session == filter.SessionID) &&
		(filter.Project == "" || slices.ContainsFunc(p.Projects, func(l repo.ProjectLink) bool { return l.Project == filter.Project }))
}

// wantPlansListed wants a list to have these plans, in pages of any size.
func wantPlansListed(t *testing.T, r repo.Repositories, filter repo.PlanFilter, want []repo.Plan) {
	t.Helper()
	for _, limit := range []int{1, 2, 5, 1000} {
		got := walkPlans(t, r, filter, limit)
		if len(got) != len(want) {
			t.Fatalf("%+v: %d plans, want %d", filter, len(got), len(want))
		}
		for i := range got {
			wantPlan(t, got[i], want[i])
		}
	}
}

func testPlanCursors(t *testing.T, r repo.Repositories) {
	name, namespace := plain(t, r), spaceOf(r)
	for range 3 {
		usePlan(t, r, name, repo.UseAction{Namespace: namespace})
	}
	filter := repo.PlanFilter{Namespace: namespace}
	first, err := r.Plans().List(t.Context(), filter, repo.Page{Limit: 1})
	if must(t, first, err).Next == "" {
		t.Fatal("there is no cursor")
	}
	for _, malformed := range []string{"x", first.Next + "A", first.Next[1:], " " + first.Next, secret} {
		_, err := r.Plans().List(t.Context(), filter, repo.Page{After: malformed})
		wantInvalid(t, err, "page.after")
	}
	_, err = r.Plans().List(t.Context(), repo.PlanFilter{Namespace: namespace, State: repo.PlanQueued}, repo.Page{After: first.Next})
	wantInvalid(t, err, "page.after")
	for field, bad := range map[string]repo.PlanFilter{
		"filter":    {Phase: repo.PhaseExecute, State: repo.PlanConstrained},
		"namespace": {Namespace: "\x00"},
		"project":   {Project: tooLong()},
	} {
		_, err := r.Plans().List(t.Context(), bad, repo.Page{})
		wantInvalid(t, err, field)
	}
	_, err = r.Plans().List(t.Context(), repo.PlanFilter{Project: "p", ParentID: repo.NewID()}, repo.Page{})
	wantInvalid(t, err, "filter")
	_, err = r.Plans().List(t.Context(), filter, repo.Page{Limit: -1})
	wantInvalid(t, err, "limit")
}

// A session's plans are listed in their present state, by id.
func testPlanLinks(t *testing.T, r repo.Repositories) {
	s, name := r.Sessions(), plain(t, r)
	session := createAs(t, s, repo.NewSession{Namespace: spaceOf(r), Actor: "a"})
	first, second := usePlan(t, r, name, repo.UseAction{}), usePlan(t, r, name, repo.UseAction{})
	for _, id := range []repo.ID{second.ID, first.ID, second.ID} {
		if err := r.Plans().Link(t.Context(), session.ID, id); err != nil {
			t.Fatal(err)
		}
	}
	started := move(t, r, second.ID, repo.TransitionStart)
	want := []repo.LinkedPlan{{ID: first.ID, Namespace: first.Namespace, Stage: first.Stage}, {ID: second.ID, Namespace: started.Namespace, Stage: started.Stage}}
	wantSame(t, "links", get(t, s, session.ID).Plans, want)
	for _, actor := range []string{"", "a"} {
		wantSame(t, "links", walk(t, s, repo.SessionFilter{AnyOwner: true, Namespace: session.Namespace, Actor: actor}, 10)[0].Plans, want)
	}
	for range 2 {
		if err := r.Plans().Unlink(t.Context(), session.ID, first.ID); err != nil {
			t.Fatal(err)
		}
	}
	wantSame(t, "links", get(t, s, session.ID).Plans, want[1:])
	missing := repo.NewID()
	wantNotFound(t, r.Plans().Link(t.Context(), missing, first.ID), "session", missing)
	wantNotFound(t, r.Plans().Link(t.Context(), session.ID, missing), "plan", missing)
	wantNotFound(t, r.Plans().Unlink(t.Context(), missing, first.ID), "session", missing)
	wantNotFound(t, r.Plans().Unlink(t.Context(), session.ID, missing), "plan", missing)
}

// Deleting a session keeps its plans, and returns those that were linked to it.
func testPlanSessionDelete(t *testing.T, r repo.Repositories) {
	name, session := plain(t, r), create(t, r.Sessions())
	other := create(t, r.Sessions())
	var plans []repo.Plan
	for range 3 {
		plan := usePlan(t, r, name, repo.UseAction{SessionID: session})
		if err := r.Plans().Link(t.Context(), other, plan.ID); err != nil {
			t.Fatal(err)
		}
		plans = append(plans, plan)
	}
	appendTo(t, r.Sessions(), session, users(2)...)
	deleted, err := r.Sessions().Delete(t.Context(), session)
	var linked []repo.LinkedPlan
	for _, plan := range plans {
		linked = append(linked, repo.LinkedPlan{ID: plan.ID, Namespace: plan.Namespace, Stage: plan.Stage})
	}
	slices.SortFunc(linked, func(a, b repo.LinkedPlan) int { return a.ID.Compare(b.ID) })
	wantSame(t, "deleted", must(t, deleted, err), repo.DeletedSession{Messages: 2, Plans: linked})
	for _, plan := range plans {
		wantPlan(t, getPlan(t, r, plan.ID), plan)
	}
	if linked := get(t, r.Sessions(), other).Plans; len(linked) != 3 {
		t.Errorf("the other session has %d plans", len(linked))
	}
}

// A document contains links, not plans; an import requires that the plans exist.
func testPlanExport(t *testing.T, r repo.Repositories) {
	s, name := r.Sessions(), plain(t, r)
	id := used(t, s)
	first, second := usePlan(t, r, name, repo.UseAction{SessionID: id}), usePlan(t, r, name, repo.UseAction{SessionID: id})
	wantRoundTrip(t, s, id)
	wantSame(t, "links", get(t, s, id).Plans, []repo.LinkedPlan{{ID: first.ID, Namespace: first.Namespace, Stage: first.Stage}, {ID: second.ID, Namespace: second.Namespace, Stage: second.Stage}})

	document := string(export(t, s, id))
	if !strings.Contains(document, second.ID.String()) {
		t.Errorf("the document is %s", brief([]byte(document)))
	}
	remove(t, s, id)
	wantImported(t, s, []byte(document))
}

func wantImported(t *testing.T, s repo.Sessions, document []byte) {
	t.Helper()
	imported := importFrom(t, s, bytes.NewReader(document))
	if len(imported.Plans) != 2 {
		t.Errorf("imported with %d plans", len(imported.Plans))
	}
}
