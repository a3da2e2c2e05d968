package repotest

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// The counts of a namespace are those of its stages, and say since when the first plan waits.
func testPlanCounts(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	ids := q.add(3)
	usePlan(t, r, q.action, repo.UseAction{Namespace: q.namespace, Priority: 1, NotBefore: time.Now().Add(time.Hour)})
	claimed := q.takeOne()
	wantClaimed(t, []repo.ClaimedPlan{claimed}, ids[0])
	complete(t, r, claimed)
	q.takeOne()
	third := getPlan(t, r, ids[2])
	want := []repo.PlanCount{
		{Namespace: q.namespace, Stage: repo.Stage{Phase: repo.PhaseStrategize, State: repo.PlanComplete}, Count: 1},
		{Namespace: q.namespace, Stage: repo.Stage{Phase: repo.PhaseStrategize, State: repo.PlanProcessing}, Count: 1},
		{Namespace: q.namespace, Stage: third.Stage, Count: 2, Oldest: third.UpdatedAt},
	}
	list, err := r.Plans().Counts(t.Context(), q.namespace, repo.Page{})
	wantSame(t, "counts", must(t, list, err).Items, want)
	var got []repo.PlanCount
	for page := (repo.Page{Limit: 2}); ; {
		list, err := r.Plans().Counts(t.Context(), q.namespace, page)
		got = append(got, must(t, list, err).Items...)
		if page.After = list.Next; page.After == "" {
			break
		}
	}
	wantSame(t, "counts by page", got, want)
	all, err := r.Plans().Counts(t.Context(), "", repo.Page{Limit: 1000})
	if must(t, all, err); all.Next == "" && !slices.Contains(all.Items, want[0]) {
		t.Errorf("all counts are %+v", all.Items)
	}
	_, err = r.Plans().Counts(t.Context(), secret+"\xff", repo.Page{})
	wantInvalid(t, err, "namespace")
}

// The plans of an action are those of all namespaces, or of one.
func testPlanListByAction(t *testing.T, r repo.Repositories) {
	q, other := newQueue(t, r), newQueue(t, r)
	other.action = q.action
	ids, others := q.add(2), other.add(1)
	failed := q.takeOne().Plan.ID
	move(t, r, failed, repo.TransitionFail)
	for _, c := range []struct {
		filter repo.PlanFilter
		want   []repo.ID
	}{
		{repo.PlanFilter{Action: q.action}, []repo.ID{others[0], ids[1], ids[0]}},
		{repo.PlanFilter{Action: q.action, State: repo.PlanQueued}, []repo.ID{others[0], ids[1]}},
		{repo.PlanFilter{Action: q.action, State: repo.PlanErrored}, []repo.ID{failed}},
		{repo.PlanFilter{Action: q.action, Namespace: q.namespace}, []repo.ID{ids[1], ids[0]}},
		{repo.PlanFilter{Action: plain(t, r), Namespace: q.namespace}, nil},
	} {
		list, err := r.Plans().List(t.Context(), c.filter, repo.Page{})
		var got []repo.ID
		for _, p := range must(t, list, err).Items {
			got = append(got, p.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.filter, got, c.want)
		}
	}
	_, err := r.Plans().List(t.Context(), repo.PlanFilter{Action: secret + "/"}, repo.Page{})
	wantInvalid(t, err, "action")
	_, err = r.Plans().List(t.Context(), repo.PlanFilter{Action: q.action, Project: "p"}, repo.Page{})
	wantInvalid(t, err, "filter")
}
