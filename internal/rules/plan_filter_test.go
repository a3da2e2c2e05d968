package rules_test

import (
	"slices"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func TestPlanFilterRules(t *testing.T) {
	check := func(name, field, want string, filter repo.PlanFilter) {
		t.Run(field+"/"+name, func(t *testing.T) {
			_, err := rules.PlanList("", filter, repo.Page{})
			wantInvalid(t, err, fieldIf(want, field), want)
		})
	}
	for name, text := range texts(repo.MaxNameBytes) {
		check(name, "namespace", text.want, repo.PlanFilter{Namespace: text.value})
		check(name, "project", text.want, repo.PlanFilter{Project: text.value})
	}
	id := repo.NewID()
	check("session and parent", "filter", "more than one", repo.PlanFilter{SessionID: id, ParentID: id})
	check("session and project", "filter", "more than one", repo.PlanFilter{SessionID: id, Project: "p"})
	check("parent and project", "filter", "more than one", repo.PlanFilter{ParentID: id, Project: "p"})
	check("phase", "filter", "does not exist", repo.PlanFilter{Phase: secret})
	check("state", "filter", "does not exist", repo.PlanFilter{State: secret})
	check("together", "filter", "not together", repo.PlanFilter{Phase: repo.PhaseExecute, State: repo.PlanConstrained})
	for _, stage := range rules.Stages() {
		check("all of it", "filter", "", repo.PlanFilter{Namespace: "n", SessionID: id, Phase: stage.Phase, State: stage.State})
	}
	for want, filter := range map[int]repo.PlanFilter{
		19: {}, 6: {Phase: repo.PhaseExecute}, 7: {Phase: repo.PhaseApply}, 3: {State: repo.PlanErrored},
		1: {State: repo.PlanConstrained}, 0: {Phase: repo.PhaseStrategize, State: repo.PlanConstrained},
	} {
		stages := rules.StagesOf(filter)
		if len(stages) != want || slices.ContainsFunc(stages, func(s repo.Stage) bool { return !slices.Contains(rules.Stages(), s) }) {
			t.Errorf("%+v selects %v, want %d stages", filter, stages, want)
		}
	}
	for _, test := range []struct {
		filter repo.PlanFilter
		want   string
	}{
		{repo.PlanFilter{}, "local"},
		{repo.PlanFilter{Phase: repo.PhaseApply}, "local"},
		{repo.PlanFilter{SessionID: id}, ""},
		{repo.PlanFilter{ParentID: id}, ""},
		{repo.PlanFilter{Project: "p"}, ""},
		{repo.PlanFilter{Project: "p", Namespace: "n"}, "n"},
	} {
		if list, err := rules.PlanList("", test.filter, repo.Page{}); err != nil || list.Filter.Namespace != test.want {
			t.Errorf("%+v: namespace %q, %v, want %q", test.filter, list.Filter.Namespace, err, test.want)
		}
	}
}

func TestPlanCursors(t *testing.T) {
	id, other := repo.NewID(), repo.NewID()
	filters := []repo.PlanFilter{
		{Namespace: "n"},
		{Namespace: "m"},
		{Namespace: "n", Phase: repo.PhaseApply},
		{Namespace: "n", State: repo.PlanErrored},
		{Namespace: "n", SessionID: id},
		{Namespace: "n", ParentID: id},
		{Namespace: "n", SessionID: other},
		{Namespace: "n", Project: "p"},
		{Project: "n"},
	}
	for i, filter := range filters {
		page, err := rules.PlanList("", filter, repo.Page{})
		if err != nil {
			t.Fatal(err)
		}
		cursor := page.Next(repo.Plan{ID: id})
		for j, reader := range filters {
			list, err := rules.PlanList("", reader, repo.Page{After: cursor})
			if i != j {
				wantInvalid(t, err, "page.after", "another filter")
			} else if err != nil || list.After != id {
				t.Errorf("the place is %v, %v", list.After, err)
			}
		}
		// A list of actions is another list, and a name is not a plan's id.
		actions, err := rules.ActionList(repo.ActionFilter{Namespace: "n"}, repo.Page{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = rules.PlanList("", filter, repo.Page{After: actions.Next(repo.Action{Name: repo.ActionName{Namespace: "n", Name: "a"}})})
		wantInvalid(t, err, "page.after", "another filter")
		for _, text := range []string{"x", secret, cursor[1:], cursor + "A", "\n" + cursor} {
			_, err := rules.PlanList("", filter, repo.Page{After: text})
			wantInvalid(t, err, "page.after", "not a cursor")
		}
		if first := page.After; string(first[:]) <= string(id[:]) {
			t.Errorf("the first page begins at %v", first)
		}
	}
}

func TestActionFilterRules(t *testing.T) {
	for want, filters := range map[string][]repo.ActionFilter{
		"":          {{}, {Server: "s", Namespace: "n", Archived: true, Tag: "t"}, {Available: true}},
		"namespace": {{Namespace: "a/b"}, {Namespace: " "}, {Namespace: "é"}},
		"server":    {{Server: "a:b"}, {Server: "-"}},
		"archived":  {{Available: true, Archived: true}},
		"tag":       {{Tag: "\x00"}, {Tag: "\xff"}},
	} {
		for _, filter := range filters {
			list, err := rules.ActionList(filter, repo.Page{})
			wantInvalid(t, err, want, "")
			if got := list.Filter; want == "" && got.Namespace == "" {
				t.Errorf("%+v has no namespace", got)
			}
		}
	}
	filters := []repo.ActionFilter{
		{Namespace: "n"}, {Namespace: "m"}, {Server: "n", Namespace: "n"}, {Namespace: "n", Archived: true}, {Namespace: "n", Tag: "t"},
	}
	for i, filter := range filters {
		page, err := rules.ActionList(filter, repo.Page{})
		if err != nil {
			t.Fatal(err)
		}
		cursor := page.Next(repo.Action{Name: repo.ActionName{Namespace: "n", Name: "last"}})
		for j, reader := range filters {
			list, err := rules.ActionList(reader, repo.Page{After: cursor})
			if i != j {
				wantInvalid(t, err, "page.after", "another filter")
			} else if err != nil || list.After != "n/last" {
				t.Errorf("the place is %q, %v", list.After, err)
			}
		}
		_, err = rules.ActionList(filter, repo.Page{After: secret})
		wantInvalid(t, err, "page.after", "not a cursor")
	}
}
