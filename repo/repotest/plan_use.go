package repotest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

func useTests() []test {
	return []test{
		onPlans("ZeroValue", testUseZeroValue),
		onPlans("EveryField", testUseEveryField),
		onPlans("Defaults", testUseDefaults),
		onPlans("Arguments", testUseArguments),
		onPlans("Invalid", testUseInvalid),
		onPlans("Again", testUseAgain),
		onPlans("Conflicts", testUseConflicts),
		onPlans("NotReusable", testUseNotReusable),
		onPlans("TakenKey", testUseTakenKey),
		onPlans("Keys", testUseKeys),
		onPlans("KeyOfEachStage", testUseKeyOfEachStage),
		onPlans("KeyOfADeletedSession", testUseKeyOfADeletedSession),
		onPlans("ReadOnly", testUseReadOnly),
		onPlans("LeavesAction", testUseLeavesAction),
		onPlans("Child", testUseChild),
		onPlans("ParentNotLive", testUseParentNotLive),
		onPlans("Depth", testUseDepth),
		onPlans("Session", testUseSession),
		onPlans("Copies", testUseCopies),
		onPlans("Trace", testUseTrace),
	}
}

func value(name, text string) repo.ArgumentValue {
	return repo.ArgumentValue{Name: name, Value: json.RawMessage(text)}
}

// fullUse sets every field that a top-level plan can have.
func fullUse() repo.UseAction {
	return repo.UseAction{
		Key: randomName(), Name: "plan of the test", Namespace: randomName(), Attempt: 3, Description: "described",
		Priority: 2, NotBefore: time.Date(2020, 1, 2, 3, 4, 5, 6000, time.UTC),
		Projects:   []repo.ProjectLink{{Project: "p", Alias: "one", ReadOnly: true}, {Project: "p"}, {Project: "q", Alias: "two"}},
		Arguments:  []repo.ArgumentValue{value("files", ` ["x",1.0] `), value("branch", `"main"`), value("depth", "7")},
		Invariants: []repo.PlanInvariant{{Text: "own"}, {Text: "given", Source: "policy"}},

		AutomationProfile: "careful", AutomationProfileSource: "project",
		AutomationSnapshot: json.RawMessage(`{ "level" : 1.00 }`), Actor: "tester", Trace: strings.Repeat("t", limits.MaxTraceBytes),
	}
}

// A use that makes no plan, because its key is taken, does not consume the action.
func testUseTakenKey(t *testing.T, r repo.Repositories) {
	use := repo.UseAction{Namespace: spaceOf(r), Key: "k"}
	taken := usePlan(t, r, plain(t, r), use)
	once := createAction(t, r, repo.ActionDefinition{})
	_, err := r.Plans().Use(t.Context(), once, use)
	wantPlanConflict(t, err, repo.ExistsError{Kind: "plan", ID: taken.ID, Field: "action"})
	usePlan(t, r, once, repo.UseAction{})
}

// A key is one session's or, without a session, one namespace's.
func testUseKeys(t *testing.T, r repo.Repositories) {
	name, key := plain(t, r), strings.Repeat("k", repo.MaxNameBytes)
	session, other := create(t, r.Sessions()), create(t, r.Sessions())
	parent := usePlan(t, r, name, repo.UseAction{Namespace: spaceOf(r)})
	uses := []repo.UseAction{
		{Key: key},
		{Key: key, Namespace: randomName()},
		{Key: key, ParentID: parent.ID},
		{Key: key, Namespace: randomName(), ParentID: parent.ID},
		{Key: key, SessionID: session},
		{Key: key, SessionID: other},
		{Key: "K", SessionID: session},
		{Key: "K"},
	}
	plans := map[repo.ID]bool{}
	for _, use := range uses {
		plan := usePlan(t, r, name, use)
		if plan.Key != use.Key || plan.SessionID != use.SessionID || plan.Version != 1 {
			t.Errorf("the key is %q, the session %s", plan.Key, plan.SessionID)
		}
		wantPlan(t, getPlan(t, r, plan.ID), plan)
		wantPlan(t, usePlan(t, r, name, use), plan)
		plans[plan.ID] = true
	}
	if len(plans) != len(uses) {
		t.Errorf("%d uses made %d plans", len(uses), len(plans))
	}
	// The namespace that a use leaves out is the parent's or the action's.
	child := usePlan(t, r, name, uses[2])
	_, err := r.Plans().Use(t.Context(), name, repo.UseAction{Key: key, Namespace: parent.Namespace})
	wantPlanConflict(t, err, repo.ExistsError{Kind: "plan", ID: child.ID, Field: "parent_id"})
	action, err := repo.ParseActionName(name)
	wantPlan(t, usePlan(t, r, name, repo.UseAction{Key: key, Namespace: must(t, action, err).Namespace}), usePlan(t, r, name, uses[0]))
	// In a session a key is the same in all namespaces.
	of := usePlan(t, r, name, repo.UseAction{Key: key, SessionID: session})
	_, err = r.Plans().Use(t.Context(), name, repo.UseAction{Key: key, SessionID: session, Namespace: randomName()})
	wantPlanConflict(t, err, repo.ExistsError{Kind: "plan", ID: of.ID, Field: "namespace"})
	missing := repo.NewID()
	_, err = r.Plans().Use(t.Context(), name, repo.UseAction{Key: key, SessionID: session, ParentID: missing})
	wantPlanConflict(t, err, repo.ExistsError{Kind: "plan", ID: of.ID, Field: "parent_id"})
	_, err = r.Plans().Use(t.Context(), name, repo.UseAction{Key: key, Namespace: parent.Namespace, ParentID: missing})
	wantPlanConflict(t, err, repo.ExistsError{Kind: "plan", ID: child.ID, Field: "parent_id"})
	_, err = r.Plans().Use(t.Context(), name, repo.UseAction{Key: key, ParentID: missing})
	wantNotFound(t, err, "plan", missing)
	for range 2 { // without a key each use makes a plan
		usePlan(t, r, name, repo.UseAction{SessionID: session})
	}
	if linked := get(t, r.Sessions(), session).Plans; len(linked) != 4 {
		t.Errorf("the session has %d plans, want those of two keys and two others", len(linked))
	}
}

// A repeated use returns the plan in whichever stage it is.
func testUseKeyOfEachStage(t *testing.T, r repo.Repositories) {
	name, session := plain(t, r), create(t, r.Sessions())
	for stage, route := range routes() {
		for _, use := range []repo.UseAction{{Key: randomName(), SessionID: session}, {Key: randomName()}} {
			plan := usePlan(t, r, name, use)
			move(t, r, plan.ID, route...)
			again := usePlan(t, r, name, use)
			wantPlan(t, again, getPlan(t, r, plan.ID))
			if again.Stage != stage {
				t.Errorf("the plan is at %v, want %v", again.Stage, stage)
			}
		}
	}
}

// A key ends with its session, also if that is made again. A session that is restored is
// the same one.
func testUseKeyOfADeletedSession(t *testing.T, r repo.Repositories) {
	name, again := plain(t, r), repo.NewSession{Namespace: spaceOf(r), Key: "k"}
	session := createAs(t, r.Sessions(), again).ID
	use := repo.UseAction{Key: "k", SessionID: session}
	first := usePlan(t, r, name, use)
	document := export(t, r.Sessions(), session)
	remove(t, r.Sessions(), session)
	refused, err := r.Plans().Use(t.Context(), name, use)
	wantNotFound(t, err, "session", session)
	if !refused.ID.IsZero() {
		t.Errorf("the plan %s beside the error", refused.ID)
	}
	wantPlan(t, getPlan(t, r, first.ID), first)
	importFrom(t, r.Sessions(), bytes.NewReader(document))
	wantPlan(t, usePlan(t, r, name, use), first)
	remove(t, r.Sessions(), session)
	use.SessionID = createAs(t, r.Sessions(), again).ID
	if second := usePlan(t, r, name, use); second.ID == first.ID || second.SessionID != use.SessionID || second.Version != 1 {
		t.Errorf("the plan of the new session is %+v, that of the deleted one %s", second, first.ID)
	}
}

func testUseZeroValue(t *testing.T, r repo.Repositories) {
	name := plain(t, r)
	plan := usePlan(t, r, name, repo.UseAction{})
	action, err := repo.ParseActionName(name)
	must(t, action, err)
	want := repo.Plan{
		ID: plan.ID, Namespace: action.Namespace, Action: action, RootID: plan.ID, Attempt: 1, MaxAttempts: 1,
		Stage:    repo.Stage{Phase: repo.PhaseStrategize, State: repo.PlanQueued},
		Projects: []repo.ProjectLink{}, Arguments: []repo.ArgumentValue{}, Invariants: []repo.PlanInvariant{},
		AutomationSnapshot: json.RawMessage(`{}`), Version: 1, CreatedAt: plan.CreatedAt, UpdatedAt: plan.UpdatedAt,
	}
	if plan.ID.IsZero() || plan.CreatedAt.IsZero() {
		t.Error("the plan has no id or no time")
	}
	wantPlan(t, plan, want)
	wantPlan(t, getPlan(t, r, plan.ID), want)
	events := history(t, r, plan.ID)
	wantSame(t, "history", events, []repo.PlanEvent{{
		PlanID: plan.ID, Version: 1, Transition: repo.TransitionUse, To: plan.Stage, CreatedAt: plan.CreatedAt,
	}})
}

func testUseEveryField(t *testing.T, r repo.Repositories) {
	definition := fullDefinition()
	definition.ReadOnly = false
	name := createAction(t, r, definition)
	use := fullUse()
	plan := usePlan(t, r, name, use)
	want := plan
	want.MaxAttempts, want.Priority, want.NotBefore, want.Keep = definition.MaxAttempts, 2, use.NotBefore, definition.Keep
	want.Deadline, want.Phases = plan.CreatedAt.Add(definition.MaxAge), definition.Phases
	want.RootID, want.Key, want.Name, want.Namespace, want.Attempt, want.Description = plan.ID, use.Key, use.Name, use.Namespace, 3, "described"
	want.Projects = []repo.ProjectLink{{Project: "p", Alias: "one", ReadOnly: true}, {Project: "p", Alias: "p"}, {Project: "q", Alias: "two"}}
	want.Arguments = []repo.ArgumentValue{
		value("branch", `"main"`), value("depth", "7"), value("ratio", "0.50"), value("strict", "true"), value("files", ` ["x",1.0] `),
	}
	want.Invariants = []repo.PlanInvariant{
		{Text: "never push", Source: repo.SourceAction},
		{Text: "always test", Source: repo.SourceAction},
		{Text: "own", Source: repo.SourcePlan},
		{Text: "given", Source: "policy"},
	}
	want.AutomationProfile, want.AutomationProfileSource, want.AutomationSnapshot = "careful", "project", use.AutomationSnapshot
	want.Trace = use.Trace
	want.DefinitionOfDone = `main is reviewed, to 7, true: ["x",1.0]`
	wantPlan(t, plan, want)
	wantPlan(t, getPlan(t, r, plan.ID), want)
	if events := history(t, r, plan.ID); len(events) != 1 || events[0].Actor != "tester" {
		t.Errorf("the history is %+v", events)
	}
}

// The action provides what the use omits.
func testUseDefaults(t *testing.T, r repo.Repositories) {
	plan := usePlan(t, r, createAction(t, r, fullDefinition()), repo.UseAction{Arguments: []repo.ArgumentValue{value("branch", `"b"`)}})
	if plan.Description != fullDefinition().Description || plan.AutomationProfile != "nightly" || plan.AutomationProfileSource != repo.SourceAction {
		t.Errorf("the plan is %+v", plan)
	}
	wantSame(t, "arguments", plan.Arguments, []repo.ArgumentValue{
		value("branch", `"b"`), value("depth", " 2 "), value("ratio", "0.50"), value("strict", "true"), value("files", `[ "a", {"b": 1.0} ]`),
	})
}

func testUseArguments(t *testing.T, r repo.Repositories) {
	name, namespace := createAction(t, r, fullDefinition()), spaceOf(r)
	branch := value("branch", `"b"`)
	for _, given := range [][]repo.ArgumentValue{
		{value("branch", `"a"`)},
		{branch, value("depth", "0")},
		{branch, value("depth", " -0 ")},
		{branch, value("depth", "10")},
		{branch, value("ratio", "1e300")},
		{branch, value("ratio", "-0.5")},
		{branch, value("ratio", "3")},
		{branch, value("strict", "false")},
		{branch, value("files", "[]")},
		{branch, value("files", `[null,[],{}]`)},
	} {
		plan := usePlan(t, r, name, repo.UseAction{Arguments: given})
		for _, want := range given {
			for _, got := range plan.Arguments {
				if got.Name == want.Name && string(got.Value) != string(want.Value) {
					t.Errorf("%s is %s, want %s", want.Name, got.Value, want.Value)
				}
			}
		}
	}
	for field, values := range map[string][]repo.ArgumentValue{
		"arguments.branch": {
			value("branch", "1"), value("branch", "null"), value("branch", `"`+secret), value("branch", `"A"`), value("branch", `""`),
			value("branch", `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`), value("branch", `"a\u0000"`), value("branch", ""),
		},
		"arguments.depth": {
			value("depth", "1.0"), value("depth", "1e1"), value("depth", `"1"`), value("depth", "-1"), value("depth", "11"),
			value("depth", "9223372036854775808"), value("depth", "null"),
		},
		"arguments.ratio":  {value("ratio", "1e400"), value("ratio", "-0.6"), value("ratio", "true")},
		"arguments.strict": {value("strict", "0"), value("strict", `"true"`), value("strict", "null")},
		"arguments.files":  {value("files", "{}"), value("files", "null"), value("files", "[1,2,3,4]"), value("files", `[{"a":1,"a":2}]`)},
		"arguments[1]":     {value("unknown", "1"), value("branch2", "1")},
	} {
		for _, given := range values {
			use := repo.UseAction{Namespace: namespace, Arguments: []repo.ArgumentValue{branch, given}}
			if given.Name == "branch" {
				use.Arguments = []repo.ArgumentValue{given}
			}
			_, err := r.Plans().Use(t.Context(), name, use)
			wantInvalid(t, err, field)
		}
	}
	wantPatternBounded(t, r, namespace)
	if made := walkPlans(t, r, repo.PlanFilter{Namespace: namespace}, 10); len(made) != 0 {
		t.Errorf("%d plans were made", len(made))
	}
	_, err := r.Plans().Use(t.Context(), name, repo.UseAction{})
	wantInvalid(t, err, "arguments.branch")
	_, err = r.Plans().Use(t.Context(), name, repo.UseAction{Arguments: []repo.ArgumentValue{branch, branch}})
	wantInvalid(t, err, "arguments[1]")
}

// wantPatternBounded wants what a pattern costs to be bounded.
func wantPatternBounded(t *testing.T, r repo.Repositories, namespace string) {
	t.Helper()
	costly := createAction(t, r, repo.ActionDefinition{Reusable: true, DefinitionOfDone: "d", Arguments: []repo.Argument{
		{Name: "short", Type: repo.ArgumentString, Pattern: "(.?){1000}y", Max: ptr(10.0)},
		{Name: "long", Type: repo.ArgumentString, Pattern: "(.?){1000}y"},
	}})
	for _, name := range []string{"short", "long"} {
		_, err := r.Plans().Use(t.Context(), costly, repo.UseAction{Namespace: namespace, Arguments: []repo.ArgumentValue{
			value(name, `"`+strings.Repeat("x", 1_000_000)+`"`),
		}})
		wantInvalid(t, err, "arguments."+name)
	}
}

func testUseInvalid(t *testing.T, r repo.Repositories) {
	name := plain(t, r)
	for field, use := range map[string]repo.UseAction{
		"key":                       {Key: tooLong()},
		"name":                      {Name: tooLong()},
		"namespace":                 {Namespace: secret + "\x00"},
		"existing":                  {Existing: repo.ExistingNone},
		"actor":                     {Actor: "\xff"},
		"attempt":                   {Attempt: -1},
		"description":               {Description: "\x00"},
		"trace":                     {Trace: strings.Repeat("t", limits.MaxTraceBytes+1)},
		"automation_profile_source": {AutomationProfileSource: "x"},
		"automation_snapshot":       {AutomationSnapshot: json.RawMessage(`1`)},
		"projects[0].project":       {Projects: []repo.ProjectLink{{}}},
		"projects[1].alias":         {Projects: []repo.ProjectLink{{Project: "p"}, {Project: "q", Alias: "p"}}},
		"invariants[0].text":        {Invariants: []repo.PlanInvariant{{}}},
		"invariants[0].source":      {Invariants: []repo.PlanInvariant{{Text: "x", Source: tooLong()}}},
	} {
		_, err := r.Plans().Use(t.Context(), name, use)
		wantInvalid(t, err, field)
	}
	parent := usePlan(t, r, name, repo.UseAction{})
	_, err := r.Plans().Use(t.Context(), name, repo.UseAction{ParentID: parent.ID, Name: "x"})
	wantInvalid(t, err, "name")
	missing, other := repo.NewID(), actionName(r)
	for _, key := range []string{"", "k"} {
		_, err = r.Plans().Use(t.Context(), name, repo.UseAction{Key: key, ParentID: missing})
		wantNotFound(t, err, "plan", missing)
		_, err = r.Plans().Use(t.Context(), other, repo.UseAction{Key: key, ParentID: missing})
		wantActionNotFound(t, err, other)
		_, err = r.Plans().Use(t.Context(), other, repo.UseAction{Key: key, ParentID: missing, SessionID: missing})
		wantNotFound(t, err, "session", missing)
	}
}

// Repeating a use returns its plan, whatever has become of it and of its action.
func testUseAgain(t *testing.T, r repo.Repositories) {
	definition := fullDefinition()
	name := createAction(t, r, definition)
	use := fullUse()
	first := usePlan(t, r, name, use)
	wantPlan(t, usePlan(t, r, name, use), first)
	moved := move(t, r, first.ID, repo.TransitionStart)
	wantPlan(t, usePlan(t, r, name, use), moved)
	if _, err := r.Actions().Update(t.Context(), name, 0, repo.ActionDefinition{Description: "other"}); err != nil {
		t.Fatal(err)
	}
	wantPlan(t, usePlan(t, r, name, use), moved)
	if _, err := r.Actions().Archive(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	wantPlan(t, usePlan(t, r, name, use), moved)
	if events := history(t, r, first.ID); len(events) != 2 {
		t.Errorf("the history has %d events", len(events))
	}
}

func testUseConflicts(t *testing.T, r repo.Repositories) {
	name, other := createAction(t, r, fullDefinition()), createAction(t, r, fullDefinition())
	use := fullUse()
	first := usePlan(t, r, name, use)
	parent := usePlan(t, r, plain(t, r), repo.UseAction{})
	_, err := r.Plans().Use(t.Context(), other, use)
	wantPlanConflict(t, err, repo.ExistsError{Kind: "plan", ID: first.ID, Field: "action"})
	for field, change := range map[string]func(*repo.UseAction){
		"name":                      func(u *repo.UseAction) { u.Name = secret },
		"parent_id":                 func(u *repo.UseAction) { u.Name, u.ParentID = "", parent.ID },
		"attempt":                   func(u *repo.UseAction) { u.Attempt = 4 },
		"description":               func(u *repo.UseAction) { u.Description = secret },
		"projects":                  func(u *repo.UseAction) { u.Projects = u.Projects[:1] },
		"arguments":                 func(u *repo.UseAction) { u.Arguments[2] = value("depth", "8") },
		"invariants":                func(u *repo.UseAction) { u.Invariants[0].Text = secret },
		"automation_profile":        func(u *repo.UseAction) { u.AutomationProfile = secret },
		"automation_profile_source": func(u *repo.UseAction) { u.AutomationProfileSource = "" },
		"automation_snapshot":       func(u *repo.UseAction) { u.AutomationSnapshot = nil },
	} {
		changed := fullUse()
		changed.Key, changed.Namespace = use.Key, use.Namespace
		change(&changed)
		_, err := r.Plans().Use(t.Context(), name, changed)
		if field == "parent_id" { // the name, which a child cannot have, differs first
			field = "name"
		}
		wantPlanConflict(t, err, repo.ExistsError{Kind: "plan", ID: first.ID, Field: field})
		changed.Existing = repo.ExistingAny
		wantPlan(t, usePlan(t, r, name, changed), first)
	}
	same := repo.UseAction{Key: use.Key, Namespace: use.Namespace, Existing: repo.ExistingAny}
	wantPlan(t, usePlan(t, r, other, same), first) // without its arguments
	wantPlan(t, getPlan(t, r, first.ID), first)
	session := create(t, r.Sessions())
	same = repo.UseAction{Key: use.Key, SessionID: session, Existing: repo.ExistingAny}
	fresh := usePlan(t, r, plain(t, r), same)
	if err := r.Plans().Unlink(t.Context(), session, fresh.ID); err != nil {
		t.Fatal(err)
	}
	usePlan(t, r, name, same) // links the plan, as a use that is repeated does
	if found := get(t, r.Sessions(), session); len(found.Plans) != 1 || found.Plans[0].ID != fresh.ID {
		t.Errorf("the session is linked to %+v", found.Plans)
	}
	moved := move(t, r, fresh.ID, repo.TransitionStart)
	if again := usePlan(t, r, name, same); fresh.Version != 1 || again.Version != moved.Version {
		t.Errorf("the version is %d, and %d after a transition to %d", fresh.Version, again.Version, moved.Version)
	}
}

func testUseNotReusable(t *testing.T, r repo.Repositories) {
	name := createAction(t, r, repo.ActionDefinition{})
	use := repo.UseAction{Key: "k"}
	first := usePlan(t, r, name, use)
	archived, err := r.Actions().Get(t.Context(), name)
	if !must(t, archived, err).Archived || archived.Version != 2 {
		t.Errorf("the action is %+v", archived)
	}
	wantPlan(t, usePlan(t, r, name, use), first)
	_, err = r.Plans().Use(t.Context(), name, repo.UseAction{})
	_, _ = wantError[*repo.RefusedError](t, err, repo.ErrConflict)
}

func testUseReadOnly(t *testing.T, r repo.Repositories) {
	name := createAction(t, r, repo.ActionDefinition{ReadOnly: true, Reusable: true})
	use := repo.UseAction{Key: "k", Projects: []repo.ProjectLink{{Project: "p"}, {Project: "q", ReadOnly: true}}}
	plan := usePlan(t, r, name, use)
	if !plan.Projects[0].ReadOnly || !plan.Projects[1].ReadOnly || use.Projects[0].ReadOnly {
		t.Errorf("the links are %+v, the argument %+v", plan.Projects, use.Projects)
	}
	wantPlan(t, usePlan(t, r, name, use), plan)
}

func testUseLeavesAction(t *testing.T, r repo.Repositories) {
	name := createAction(t, r, fullDefinition())
	before, err := r.Actions().Get(t.Context(), name)
	must(t, before, err)
	usePlan(t, r, name, fullUse())
	after, err := r.Actions().Get(t.Context(), name)
	wantSame(t, "action", must(t, after, err), before)
}

func testUseChild(t *testing.T, r repo.Repositories) {
	name, own := plain(t, r), randomName()
	root := usePlan(t, r, name, repo.UseAction{Namespace: "of the root"})
	child := usePlan(t, r, name, repo.UseAction{ParentID: root.ID})
	grandchild := usePlan(t, r, name, repo.UseAction{Key: "k", ParentID: child.ID, Namespace: own})
	for _, p := range []repo.Plan{child, grandchild} {
		wantPlan(t, getPlan(t, r, p.ID), p)
		if p.RootID != root.ID {
			t.Errorf("the root is %s, want %s", p.RootID, root.ID)
		}
	}
	if child.Depth != 1 || child.Namespace != "of the root" || grandchild.Depth != 2 || grandchild.Namespace != own || grandchild.ParentID != child.ID {
		t.Errorf("the child is %+v, the grandchild %+v", child, grandchild)
	}
	wantPlan(t, usePlan(t, r, name, repo.UseAction{Key: "k", ParentID: child.ID, Namespace: own}), grandchild)
	// Its children have not changed it.
	wantPlan(t, getPlan(t, r, root.ID), root)
}

func testUseParentNotLive(t *testing.T, r repo.Repositories) {
	name := plain(t, r)
	for stage, route := range routes() {
		parent := usePlan(t, r, name, repo.UseAction{})
		move(t, r, parent.ID, route...)
		parent = getPlan(t, r, parent.ID)
		_, err := r.Plans().Use(t.Context(), name, repo.UseAction{ParentID: parent.ID})
		if stage.Live() {
			must(t, stage, err)
			continue
		}
		wantTransitionConflict(t, err, repo.TransitionConflictError{
			PlanID: parent.ID, Transition: repo.TransitionUse, Stage: stage, Version: parent.Version,
		})
	}
}

func testUseDepth(t *testing.T, r repo.Repositories) {
	name := plain(t, r)
	plan := usePlan(t, r, name, repo.UseAction{})
	for range limits.MaxPlanDepth {
		plan = usePlan(t, r, name, repo.UseAction{ParentID: plan.ID})
	}
	if plan.Depth != limits.MaxPlanDepth {
		t.Errorf("the depth is %d", plan.Depth)
	}
	_, err := r.Plans().Use(t.Context(), name, repo.UseAction{ParentID: plan.ID})
	wantLimit(t, err, "depth")
}

// A plan that is made for a session is linked to it; repeating the use links it
// again.
func testUseSession(t *testing.T, r repo.Repositories) {
	name := plain(t, r)
	session := create(t, r.Sessions())
	use := repo.UseAction{Key: "k", SessionID: session}
	plan := usePlan(t, r, name, use)
	linked := []repo.LinkedPlan{{ID: plan.ID, Namespace: plan.Namespace, Stage: plan.Stage}}
	wantSame(t, "links", get(t, r.Sessions(), session).Plans, linked)
	if err := r.Plans().Unlink(t.Context(), session, plan.ID); err != nil {
		t.Fatal(err)
	}
	wantSame(t, "links", get(t, r.Sessions(), session).Plans, nil)
	usePlan(t, r, name, use)
	wantSame(t, "links", get(t, r.Sessions(), session).Plans, linked)
}

func testUseCopies(t *testing.T, r repo.Repositories) {
	name := createAction(t, r, fullDefinition())
	use := fullUse()
	plan := usePlan(t, r, name, use)
	want := clone(getPlan(t, r, plan.ID))
	plan.Arguments[0].Value[1], plan.Projects[0].Alias, plan.Invariants[0].Text, plan.AutomationSnapshot[0] = 'x', "x", "x", 'x'
	use.Arguments[1].Value[1], use.Projects[0].Alias, use.AutomationSnapshot[0] = 'x', "x", 'x'
	changed := getPlan(t, r, plan.ID)
	wantPlan(t, changed, want)
	changed.Arguments[0].Value[1], changed.Projects[0].Alias, changed.Invariants[0].Text, changed.AutomationSnapshot[0] = 'x', "x", "x", 'x'
	wantPlan(t, getPlan(t, r, plan.ID), want)
	for range 2 {
		listed := walkPlans(t, r, repo.PlanFilter{Namespace: use.Namespace}, 10)
		if len(listed) != 1 {
			t.Fatalf("%d plans are listed", len(listed))
		}
		wantPlan(t, listed[0], want)
		listed[0].Arguments[0].Value[1], listed[0].Projects[0].Alias = 'x', "x"
	}
}

// A transaction that fails stores neither the action nor the plan.
func testPlanTxRollback(t *testing.T, store repo.Store) {
	name := plain(t, store)
	plan := usePlan(t, store, name, repo.UseAction{})
	before, session := getPlan(t, store, plan.ID), create(t, store.Sessions())
	fresh := actionName(store)
	use := repo.UseAction{ParentID: plan.ID, SessionID: session, Key: "k"}
	var child repo.Plan
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Actions().Create(ctx, repo.NewAction{Name: fresh}); err != nil {
			return err
		}
		if _, err := tx.Plans().Transition(ctx, plan.ID, repo.TransitionStart, repo.Cause{}); err != nil {
			return err
		}
		var err error
		if child, err = tx.Plans().Use(ctx, name, use); err != nil {
			return err
		}
		if _, err := tx.Plans().Transition(ctx, plan.ID, repo.TransitionCancel, repo.Cause{Reason: "x"}); err != nil {
			return err
		}
		if got, err := tx.Plans().Use(ctx, name, use); err != nil || got.State != repo.PlanCancelled {
			t.Errorf("within: %+v, %v", got.Stage, err)
		}
		wantPlan(t, getPlan(t, store, plan.ID), before) // not visible outside
		return errBroken
	})
	if !errors.Is(err, errBroken) {
		t.Fatal(err)
	}
	wantPlan(t, getPlan(t, store, plan.ID), before)
	_, err = store.Actions().Get(t.Context(), fresh)
	wantActionNotFound(t, err, fresh)
	_, err = store.Plans().Get(t.Context(), child.ID)
	wantNotFound(t, err, "plan", child.ID)
	if events := history(t, store, plan.ID); len(events) != 1 {
		t.Errorf("the history has %d events", len(events))
	}
	wantSame(t, "links", get(t, store.Sessions(), session).Plans, nil)
	if made := usePlan(t, store, name, use); made.ID == child.ID || made.Version != 1 {
		t.Errorf("the key of a plan that was not stored gave %+v", made)
	}
}

// The trace is stored with the plan, and given to its worker. A repetition may be in another trace, and changes none.
// Guarantee: Plans: A plan keeps the trace of who made it, also for its worker.
func testUseTrace(t *testing.T, r repo.Repositories) {
	q, session := newQueue(t, r), create(t, r.Sessions())
	want := func(how, trace string, plan repo.Plan) {
		t.Helper()
		if plan.Trace != trace {
			t.Errorf("%s: the trace is %q, not %q", how, plan.Trace, trace)
		}
	}
	use := repo.UseAction{Key: randomName(), Namespace: q.namespace, Trace: "00-1-1-01 vendor=é"}
	plan := usePlan(t, r, q.action, use)
	again := use
	again.Trace = "another"
	want("used again", use.Trace, usePlan(t, r, q.action, again))
	want("read", use.Trace, getPlan(t, r, plan.ID))
	want("listed", use.Trace, walkPlans(t, r, repo.PlanFilter{Namespace: q.namespace}, 10)[0])
	want("claimed", use.Trace, q.takeOneOf(plan.ID).Plan)
	for _, transition := range []repo.Transition{repo.TransitionFail, repo.TransitionResume, repo.TransitionCancel} {
		want(string(transition), use.Trace, move(t, r, plan.ID, transition))
	}
	none := usePlan(t, r, q.action, repo.UseAction{Namespace: q.namespace})
	want("without", "", none)
	want("child of another", "below", usePlan(t, r, q.action, repo.UseAction{ParentID: none.ID, Trace: "below"}))

	turn := repo.Turn{SessionID: session, ID: randomName(), Action: q.action, Use: repo.UseAction{Namespace: q.namespace, Trace: "of the turn"}}
	added := addTurn(t, r, session, turn)
	want("of a turn", "of the turn", getPlan(t, r, added.Plan.ID))
	turn.Use.Trace = "another"
	if again := addTurn(t, r, session, turn); !again.Repeated {
		t.Errorf("a turn in another trace is %+v", again)
	} else {
		want("of a turn again", "of the turn", *again.Plan)
	}
}
