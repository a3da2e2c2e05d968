package repotest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func actionTests() []test {
	return []test{
		onPlans("ZeroValue", testActionZeroValue),
		onPlans("EveryField", testActionEveryField),
		onPlans("Again", testActionAgain),
		onPlans("Conflicts", testActionConflicts),
		onPlans("Missing", testActionMissing),
		onPlans("Names", testActionNames),
		onPlans("Invalid", testActionInvalid),
		onPlans("Copies", testActionCopies),
		onPlans("Update", testActionUpdate),
		onPlans("UpdateVersion", testActionUpdateVersion),
		onPlans("Archive", testActionArchive),
		onPlans("Delete", testActionDelete),
		onPlans("List", testActionList),
	}
}

// fullDefinition sets every field.
func fullDefinition() repo.ActionDefinition {
	return repo.ActionDefinition{
		Description:      "Reviews a branch. " + strings.Repeat("é", 100),
		DefinitionOfDone: "{{.branch}} is reviewed, to {{.depth}}, {{.strict}}: {{.files}}",
		StrategyActor:    "a/strategy", ExecutionActor: "a/execution", ReviewActor: "a/review", ApplyActor: "a/apply",
		EstimationActor: "a/estimation", InvariantActor: "a/invariant",
		AutomationProfile: "nightly",
		Reusable:          true,
		ReadOnly:          true,
		MaxAttempts:       2,
		MaxAge:            36*time.Hour + time.Microsecond,
		Keep:              240*time.Hour + time.Microsecond,
		Phases:            []repo.Phase{repo.PhaseStrategize, repo.PhaseExecute},
		InputsSchema:      json.RawMessage(`{ "type" : "object", "n" : 1.00 }`),
		Tags:              []string{"review", "git", "é"},
		Arguments: []repo.Argument{
			{Name: "branch", Type: repo.ArgumentString, Required: true, Description: "What to review.", Pattern: "^[a-z/]+$", Min: ptr(1.0), Max: ptr(50.0)},
			{Name: "depth", Type: repo.ArgumentInteger, Default: json.RawMessage(" 2 "), Min: ptr(0.0), Max: ptr(10.0)},
			{Name: "ratio", Type: repo.ArgumentFloat, Default: json.RawMessage("0.50"), Min: ptr(-0.5)},
			{Name: "strict", Type: repo.ArgumentBoolean, Default: json.RawMessage("true")},
			{Name: "files", Type: repo.ArgumentList, Default: json.RawMessage(`[ "a", {"b": 1.0} ]`), Max: ptr(3.0)},
		},
		Invariants: []string{"never push", "always test"},
	}
}

func testActionZeroValue(t *testing.T, r repo.Repositories) {
	name := actionName(r)
	created, err := r.Actions().Create(t.Context(), repo.NewAction{Name: name})
	must(t, created, err)
	if created.Name.String() != name || created.Archived || created.Version != 1 || created.CreatedAt.IsZero() {
		t.Errorf("created %+v", created)
	}
	stored, err := r.Actions().Get(t.Context(), name)
	wantSame(t, "action", must(t, stored, err), created)
}

func testActionEveryField(t *testing.T, r repo.Repositories) {
	given := repo.NewAction{Name: actionName(r), ActionDefinition: fullDefinition(), CreatedBy: "someone"}
	created, err := r.Actions().Create(t.Context(), given)
	must(t, created, err)
	wantSame(t, "definition", created.ActionDefinition, given.ActionDefinition)
	if created.CreatedBy != "someone" {
		t.Errorf("created by %q", created.CreatedBy)
	}
	stored, err := r.Actions().Get(t.Context(), given.Name)
	wantSame(t, "action", must(t, stored, err), created)
}

func testActionAgain(t *testing.T, r repo.Repositories) {
	given := repo.NewAction{Name: actionName(r), ActionDefinition: fullDefinition()}
	first, err := r.Actions().Create(t.Context(), given)
	must(t, first, err)
	given.InputsSchema = json.RawMessage(`{"n":1.00,"type":"object"}`)
	again, err := r.Actions().Create(t.Context(), given)
	wantSame(t, "action", must(t, again, err), first)
}

func testActionConflicts(t *testing.T, r repo.Repositories) {
	given := repo.NewAction{Name: actionName(r), ActionDefinition: fullDefinition()}
	first, err := r.Actions().Create(t.Context(), given)
	must(t, first, err)
	for field, change := range map[string]func(*repo.NewAction){
		"description":        func(a *repo.NewAction) { a.Description = secret },
		"definition_of_done": func(a *repo.NewAction) { a.DefinitionOfDone = "" },
		"apply_actor":        func(a *repo.NewAction) { a.ApplyActor = "" },
		"automation_profile": func(a *repo.NewAction) { a.AutomationProfile = secret },
		"reusable":           func(a *repo.NewAction) { a.Reusable = false },
		"read_only":          func(a *repo.NewAction) { a.ReadOnly = false },
		"inputs_schema":      func(a *repo.NewAction) { a.InputsSchema = nil },
		"max_attempts":       func(a *repo.NewAction) { a.MaxAttempts = 0 },
		"max_age":            func(a *repo.NewAction) { a.MaxAge = 0 },
		"keep":               func(a *repo.NewAction) { a.Keep += time.Second },
		"phases":             func(a *repo.NewAction) { a.Phases = a.Phases[1:] },
		"tags":               func(a *repo.NewAction) { a.Tags = a.Tags[:1] },
		"arguments":          func(a *repo.NewAction) { a.Arguments[1].Max = nil },
		"invariants":         func(a *repo.NewAction) { a.Invariants = []string{"always test", "never push"} },
		"created_by":         func(a *repo.NewAction) { a.CreatedBy = secret },
	} {
		other := repo.NewAction{Name: given.Name, ActionDefinition: fullDefinition()}
		change(&other)
		_, err := r.Actions().Create(t.Context(), other)
		wantActionConflict(t, err, field)
	}
	stored, err := r.Actions().Get(t.Context(), given.Name)
	wantSame(t, "action", must(t, stored, err), first)
}

func testActionMissing(t *testing.T, r repo.Repositories) {
	name := actionName(r)
	_, err := r.Actions().Get(t.Context(), name)
	wantActionNotFound(t, err, name)
	_, err = r.Actions().Update(t.Context(), name, 0, repo.ActionDefinition{})
	wantActionNotFound(t, err, name)
	_, err = r.Actions().Archive(t.Context(), name)
	wantActionNotFound(t, err, name)
	wantActionNotFound(t, r.Actions().Delete(t.Context(), name), name)
	_, err = r.Plans().Use(t.Context(), name, repo.UseAction{})
	wantActionNotFound(t, err, name)
}

// A short name and its full form name the same action.
func testActionNames(t *testing.T, r repo.Repositories) {
	bare := "a" + repo.NewID().String()
	_, err := r.Actions().Create(t.Context(), repo.NewAction{Name: bare})
	must(t, bare, err)
	for _, name := range []string{bare, "local/" + bare} {
		got, err := r.Actions().Get(t.Context(), name)
		if must(t, got, err).Name.String() != "local/"+bare {
			t.Errorf("%s is %s", name, got.Name)
		}
	}
	remote := "host.example:local/" + bare
	_, err = r.Actions().Get(t.Context(), remote)
	wantActionNotFound(t, err, remote)
	for _, name := range []string{"", "/", "a/", "/b", "a/b/c", "a:b", ":a/b", "a:/b", "a b", "é", "-a", secret + "\x00", strings.Repeat("x", 101)} {
		_, err := r.Actions().Get(t.Context(), name)
		wantInvalid(t, err, "action")
		_, err = r.Actions().Create(t.Context(), repo.NewAction{Name: name})
		wantInvalid(t, err, "action")
		_, err = r.Plans().Use(t.Context(), name, repo.UseAction{})
		wantInvalid(t, err, "action")
	}
}

func testActionInvalid(t *testing.T, r repo.Repositories) {
	argument := func(change func(*repo.Argument)) func(*repo.ActionDefinition) {
		return func(d *repo.ActionDefinition) {
			a := repo.Argument{Name: "x", Type: repo.ArgumentString}
			change(&a)
			d.Arguments = []repo.Argument{a}
		}
	}
	for field, changes := range map[string][]func(*repo.ActionDefinition){
		"description":        {func(d *repo.ActionDefinition) { d.Description = secret + "\x00" }},
		"review_actor":       {func(d *repo.ActionDefinition) { d.ReviewActor = tooLong() }},
		"automation_profile": {func(d *repo.ActionDefinition) { d.AutomationProfile = "\xff" }},
		"inputs_schema":      {func(d *repo.ActionDefinition) { d.InputsSchema = json.RawMessage(`[]`) }},
		"tags[1]": {
			func(d *repo.ActionDefinition) { d.Tags = []string{"a", ""} },
			func(d *repo.ActionDefinition) { d.Tags = []string{"a", "a"} },
		},
		"tags":              {func(d *repo.ActionDefinition) { d.Tags = make([]string, limits.MaxTags+1) }},
		"invariants[0]":     {func(d *repo.ActionDefinition) { d.Invariants = []string{""} }},
		"arguments[0].name": {argument(func(a *repo.Argument) { a.Name = "a-b" }), argument(func(a *repo.Argument) { a.Name = "" })},
		"arguments[0].type": {argument(func(a *repo.Argument) { a.Type = "text" })},
		"arguments[0].min": {
			argument(func(a *repo.Argument) { a.Min, a.Max = ptr(2.0), ptr(1.0) }),
			argument(func(a *repo.Argument) { a.Type, a.Min = repo.ArgumentBoolean, ptr(1.0) }),
		},
		"arguments[0].pattern": {
			argument(func(a *repo.Argument) { a.Pattern = "(" }),
			argument(func(a *repo.Argument) { a.Type, a.Pattern = repo.ArgumentList, "x" }),
		},
		"arguments[0].default": {
			argument(func(a *repo.Argument) { a.Default = json.RawMessage(`1`) }),
			argument(func(a *repo.Argument) { a.Required, a.Default = true, json.RawMessage(`"x"`) }),
			argument(func(a *repo.Argument) { a.Max, a.Default = ptr(1.0), json.RawMessage(`"xx"`) }),
		},
		"arguments[1].name": {func(d *repo.ActionDefinition) {
			d.Arguments = []repo.Argument{{Name: "x", Type: repo.ArgumentString}, {Name: "x", Type: repo.ArgumentList}}
		}},
		"definition_of_done": {
			func(d *repo.ActionDefinition) { d.DefinitionOfDone = "{{" },
			func(d *repo.ActionDefinition) { d.DefinitionOfDone = "{{.unknown}}" },
			func(d *repo.ActionDefinition) { d.DefinitionOfDone = `{{printf "%1000000000d" 1}}` },
			func(d *repo.ActionDefinition) { d.DefinitionOfDone = `{{if true}}{{end}}` },
		},
	} {
		for _, change := range changes {
			given := repo.NewAction{Name: actionName(r)}
			change(&given.ActionDefinition)
			_, err := r.Actions().Create(t.Context(), given)
			wantInvalid(t, err, field)
			_, err = r.Actions().Get(t.Context(), given.Name)
			wantActionNotFound(t, err, given.Name)
		}
	}
}

// The store shares no memory with its caller.
func testActionCopies(t *testing.T, r repo.Repositories) {
	given := repo.NewAction{Name: actionName(r), ActionDefinition: fullDefinition()}
	created, err := r.Actions().Create(t.Context(), given)
	must(t, created, err)
	got, err := r.Actions().Get(t.Context(), given.Name)
	must(t, got, err)
	for _, d := range []repo.ActionDefinition{given.ActionDefinition, created.ActionDefinition, got.ActionDefinition} {
		d.Tags[0], d.Invariants[0], d.InputsSchema[0] = "x", "x", 'x'
		*d.Arguments[1].Min, d.Arguments[1].Default[0] = 9, 'x'
		d.Arguments[0].Name = "x"
	}
	stored, err := r.Actions().Get(t.Context(), given.Name)
	wantSame(t, "definition", must(t, stored, err).ActionDefinition, fullDefinition())
}

// An update replaces the whole definition, and nothing else.
func testActionUpdate(t *testing.T, r repo.Repositories) {
	given := repo.NewAction{Name: actionName(r), ActionDefinition: fullDefinition(), CreatedBy: "someone"}
	before, err := r.Actions().Create(t.Context(), given)
	must(t, before, err)
	for i, change := range []func(*repo.ActionDefinition){
		func(d *repo.ActionDefinition) { d.Arguments[0], d.Arguments[1] = d.Arguments[1], d.Arguments[0] },
		func(d *repo.ActionDefinition) { d.Arguments, d.DefinitionOfDone = d.Arguments[:1], "" },
		func(d *repo.ActionDefinition) { d.Invariants = []string{"one", "two", "three"} },
		func(d *repo.ActionDefinition) { *d = repo.ActionDefinition{} },
		func(d *repo.ActionDefinition) { *d = fullDefinition() },
	} {
		definition := fullDefinition()
		change(&definition)
		tick()
		got, err := r.Actions().Update(t.Context(), given.Name, 0, definition)
		must(t, got, err)
		normal, err := rules.NormalizeDefinition(definition)
		must(t, normal, err)
		want := before
		want.ActionDefinition, want.Version, want.UpdatedAt = normal, int64(i)+2, got.UpdatedAt
		wantSame(t, "action", got, want)
		if !got.UpdatedAt.After(before.UpdatedAt) {
			t.Errorf("updated at %v, before at %v", got.UpdatedAt, before.UpdatedAt)
		}
		stored, err := r.Actions().Get(t.Context(), given.Name)
		wantSame(t, "action", must(t, stored, err), want)
	}
}

func testActionUpdateVersion(t *testing.T, r repo.Repositories) {
	name := plain(t, r)
	updated, err := r.Actions().Update(t.Context(), name, 1, repo.ActionDefinition{Description: "second"})
	if must(t, updated, err).Version != 2 {
		t.Errorf("the version is %d", updated.Version)
	}
	_, err = r.Actions().Update(t.Context(), name, 1, repo.ActionDefinition{Description: "third"})
	wantActionConflict(t, err, "version")
	_, err = r.Actions().Update(t.Context(), name, -1, repo.ActionDefinition{})
	wantInvalid(t, err, "version")
	_, err = r.Actions().Update(t.Context(), name, 2, repo.ActionDefinition{Tags: []string{""}})
	wantInvalid(t, err, "tags[0]")
	stored, err := r.Actions().Get(t.Context(), name)
	wantSame(t, "action", must(t, stored, err), updated)
}

func testActionArchive(t *testing.T, r repo.Repositories) {
	name := plain(t, r)
	archived, err := r.Actions().Archive(t.Context(), name)
	if !must(t, archived, err).Archived || archived.Version != 2 {
		t.Errorf("archived is %+v", archived)
	}
	again, err := r.Actions().Archive(t.Context(), name)
	wantSame(t, "action", must(t, again, err), archived)
	_, err = r.Plans().Use(t.Context(), name, repo.UseAction{})
	if got, ok := wantError[*repo.RefusedError](t, err, repo.ErrConflict); ok && got.Reason != "is archived" {
		t.Errorf("got %v", got)
	}
}

func testActionDelete(t *testing.T, r repo.Repositories) {
	name := createAction(t, r, fullDefinition())
	if err := r.Actions().Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	_, err := r.Actions().Get(t.Context(), name)
	wantActionNotFound(t, err, name)

	used := plain(t, r)
	plan := usePlan(t, r, used, repo.UseAction{})
	_, _ = wantError[*repo.RefusedError](t, r.Actions().Delete(t.Context(), used), repo.ErrConflict)
	move(t, r, plan.ID, repo.TransitionCancel)
	_, _ = wantError[*repo.RefusedError](t, r.Actions().Delete(t.Context(), used), repo.ErrConflict)
	if _, err := r.Actions().Get(t.Context(), used); err != nil {
		t.Error(err)
	}
}

func testActionList(t *testing.T, r repo.Repositories) {
	namespace := "ns" + repo.NewID().String()
	var all []repo.Action
	for i, name := range []string{"A", "B", "a", "a-b", "a.b", "b", "c"} {
		given := repo.NewAction{Name: namespace + "/" + name, ActionDefinition: fullDefinition()}
		given.Tags = []string{fmt.Sprint("t", i%2)}
		created, err := r.Actions().Create(t.Context(), given)
		must(t, created, err)
		if i%3 == 0 {
			created, err = r.Actions().Archive(t.Context(), given.Name)
			must(t, created, err)
		}
		all = append(all, created)
	}
	other, err := r.Actions().Create(t.Context(), repo.NewAction{Name: "srv:" + namespace + "/a"})
	must(t, other, err)
	for _, filter := range []repo.ActionFilter{
		{}, {Available: true}, {Archived: true}, {Tag: "t1"}, {Tag: "t0", Archived: true}, {Tag: "none"}, {Server: "srv"},
	} {
		filter.Namespace = namespace
		var want []repo.Action
		for _, a := range append(append([]repo.Action{}, all...), other) {
			if a.Name.Server == filter.Server && (!filter.Available || !a.Archived) && (!filter.Archived || a.Archived) && (filter.Tag == "" || len(a.Tags) > 0 && filter.Tag == a.Tags[0]) {
				want = append(want, a)
			}
		}
		for limit := 1; limit <= len(want)+1; limit++ {
			var got []repo.Action
			for page := (repo.Page{Limit: limit}); ; {
				list, err := r.Actions().List(t.Context(), filter, page)
				got = append(got, must(t, list, err).Items...)
				if page.After = list.Next; page.After == "" {
					break
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%+v: %d actions, want %d", filter, len(got), len(want))
			}
			for i := range got {
				wantSame(t, "action", got[i], want[i])
			}
		}
	}
	first, err := r.Actions().List(t.Context(), repo.ActionFilter{Namespace: namespace}, repo.Page{Limit: 1})
	must(t, first, err)
	_, err = r.Actions().List(t.Context(), repo.ActionFilter{Namespace: namespace, Tag: "t1"}, repo.Page{After: first.Next})
	wantInvalid(t, err, "page.after")
	_, err = r.Actions().List(t.Context(), repo.ActionFilter{Namespace: "a/b"}, repo.Page{})
	wantInvalid(t, err, "namespace")
	_, err = r.Actions().List(t.Context(), repo.ActionFilter{Available: true, Archived: true}, repo.Page{})
	wantInvalid(t, err, "archived")
}
