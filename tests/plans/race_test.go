package plans

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// plansPerRace is the number of plans of each race, one after the other.
const plansPerRace = 8

// routes lead to a stage at which the transition begins.
var routes = map[repo.Transition][]repo.Transition{
	"start": {}, "complete": {"start"}, "fail": {"start", "complete", "execute", "start"}, "execute": {"start", "complete"},
	"apply":     {"start", "complete", "execute", "start", "complete"},
	"constrain": {"start", "complete", "execute", "start", "complete", "apply", "start"},
	"revert":    {"start", "complete", "execute"}, "resume": {"start", "fail"}, "cancel": {"start"}, "snooze": {"start"},
}

// made creates plans at a stage at which the transition begins.
func made(t *testing.T, store repo.Store, action string, transition repo.Transition) []repo.ID {
	t.Helper()
	ids := make([]repo.ID, plansPerRace)
	for i := range ids {
		plan, err := store.Plans().Use(t.Context(), action, repo.UseAction{})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = plan.ID
		for _, step := range routes[transition] {
			if _, err := store.Plans().Transition(t.Context(), plan.ID, step, repo.Cause{Reason: "way"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return ids
}

// 64 goroutines here and 4 other processes race for each transition of a plan. One
// moves it. The others get a conflict, or the plan if the transition allows that it
// is there already. The history has one event for each version.
func TestRaces(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	action := newAction(t, store)
	for _, transition := range rules.Transitions() {
		t.Run(string(transition), func(t *testing.T) {
			ids := made(t, store, action, transition)
			before, err := store.Plans().Get(t.Context(), ids[0])
			if err != nil {
				t.Fatal(err)
			}
			to, _ := rules.To(transition, before.Stage)
			// If the transition allows that the plan is there already, late callers
			// get the plan.
			then, allowed := rules.To(transition, to)
			stays := allowed && then == to
			winners, conflicts := map[repo.ID][]string{}, 0
			for _, got := range runAll(t, race{DatabaseURL: databaseURL, Way: "ours", Transition: transition, Plans: ids}) {
				if got.Stage != to || got.Version != before.Version+1 {
					t.Errorf("an answer has %v, version %d, want %v, %d", got.Stage, got.Version, to, before.Version+1)
				}
				if got.Conflict {
					conflicts++
				} else {
					winners[got.Plan] = append(winners[got.Plan], got.Actor)
				}
			}
			for _, id := range ids {
				events, err := store.Plans().History(t.Context(), id, 0, 0)
				if err != nil {
					t.Fatal(err)
				}
				if int64(len(events)) != before.Version+1 {
					t.Errorf("%d events, want %d", len(events), before.Version+1)
				}
				for i, event := range events {
					if event.Version != int64(i)+1 || i > 0 && event.From != events[i-1].To {
						t.Errorf("event %d is version %d, from %v", i, event.Version, event.From)
					}
				}
				last := events[len(events)-1]
				if last.Transition != transition || last.To != to {
					t.Errorf("the last event is %s to %v", last.Transition, last.To)
				}
				if !stays && (len(winners[id]) != 1 || winners[id][0] != last.Actor) {
					t.Errorf("%v moved the plan, the history says %s", winners[id], last.Actor)
				}
			}
			if stays && conflicts > 0 {
				t.Errorf("%d conflicts where the plan stays", conflicts)
			}
		})
	}
}

// The same race without the condition has several winners. The harness finds that.
func TestNaiveRace(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	action := newAction(t, store)
	await.For(t, "a plan has two winners", func() bool {
		ids := made(t, store, action, repo.TransitionStart)
		winners, several := map[repo.ID]int{}, false
		for _, got := range runAll(t, race{DatabaseURL: pgtest.ReadCommitted(databaseURL), Way: "naive", Transition: repo.TransitionStart, Plans: ids}) {
			if !got.Conflict {
				winners[got.Plan]++
				several = several || winners[got.Plan] > 1
			}
		}
		return several
	})
}
