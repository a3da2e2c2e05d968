package repotest

import (
	"slices"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// A plan goes through the phases of its action, and is final when the last one is complete.
// Guarantee: Plans: A plan that has completed the last phase of its action is final, and cannot be cancelled.
func testLifecyclePhases(t *testing.T, r repo.Repositories) {
	all := []repo.Phase{repo.PhaseStrategize, repo.PhaseExecute, repo.PhaseApply}
	enter := map[repo.Phase]repo.Transition{repo.PhaseExecute: repo.TransitionExecute, repo.PhaseApply: repo.TransitionApply}
	for chosen := 1; chosen < 1<<len(all); chosen++ {
		var phases []repo.Phase
		for i, phase := range all {
			if chosen&(1<<i) != 0 {
				phases = append(phases, phase)
			}
		}
		name := createAction(t, r, repo.ActionDefinition{Reusable: true, Phases: phases})
		own, first := phases, repo.Stage{Phase: phases[0], State: repo.PlanQueued}
		if len(phases) == len(all) {
			phases = nil // as it is returned
		}
		begin := func() repo.Plan {
			plan := usePlan(t, r, name, repo.UseAction{})
			if plan.Stage != first || !slices.Equal(plan.Phases, phases) {
				t.Errorf("a plan with %v begins at %v, with %v", phases, plan.Stage, plan.Phases)
			}
			wantPlan(t, getPlan(t, r, plan.ID), plan)
			return plan
		}
		refused := func(plan repo.Plan, transition repo.Transition) {
			t.Helper()
			_, err := r.Plans().Transition(t.Context(), plan.ID, transition, causeOf(transition))
			wantTransitionConflict(t, err, repo.TransitionConflictError{PlanID: plan.ID, Transition: transition, Stage: plan.Stage, Version: plan.Version})
		}
		reached, err := r.Plans().Claim(t.Context(), repo.Claim{Owner: randomName(), Namespaces: []string{begin().Namespace}, Actions: []string{name}})
		if must(t, reached, err); len(reached) != 1 || reached[0].Plan.Phase != first.Phase || !slices.Equal(reached[0].Plan.Phases, phases) {
			t.Fatalf("with %v: claimed %+v", phases, reached)
		}
		plan := reached[0].Plan
		refused(plan, repo.TransitionRevert) // there is nothing before
		for _, phase := range all {
			at := slices.Index(own, phase)
			switch {
			case at < 0:
				if enter[phase] != "" {
					refused(plan, enter[phase])
				}
				continue
			case at > 0:
				plan = move(t, r, plan.ID, enter[phase], repo.TransitionStart)
			}
			if enter[phase] != "" {
				there, err := r.Plans().Transition(t.Context(), plan.ID, enter[phase], repo.Cause{})
				if must(t, there, err); there.Moved || there.Stage != plan.Stage {
					t.Errorf("%s moved it to %v", enter[phase], there.Stage)
				}
			}
			last := at == len(own)-1
			want := repo.Stage{Phase: phase, State: repo.PlanComplete}
			if last {
				want.State = repo.PlanApplied
			}
			if plan = move(t, r, plan.ID, repo.TransitionComplete); plan.Stage != want || plan.Live() == last {
				t.Errorf("with %v: completing %s leads to %v", phases, phase, plan.Stage)
			}
		}
		wantPlan(t, getPlan(t, r, plan.ID), plan)
		for _, transition := range rules.Transitions() {
			after, err := r.Plans().Transition(t.Context(), plan.ID, transition, causeOf(transition))
			if err == nil && after.Moved {
				t.Errorf("with %v: %s moved a plan that is final to %v", phases, transition, after.Stage)
			}
		}
		refused(plan, repo.TransitionCancel)
		refused(plan, repo.TransitionRevert)
		_, err = r.Plans().Use(t.Context(), name, repo.UseAction{ParentID: plan.ID})
		wantTransitionConflict(t, err, repo.TransitionConflictError{PlanID: plan.ID, Transition: repo.TransitionUse, Stage: plan.Stage, Version: plan.Version})
		if listed := walkPlans(t, r, repo.PlanFilter{Action: name, State: repo.PlanApplied}, 10); len(listed) != 1 || listed[0].ID != plan.ID {
			t.Errorf("with %v: %+v are listed", phases, listed)
		}
		events := history(t, r, plan.ID)
		if last := events[len(events)-1]; last.To != plan.Stage || events[0].To != first {
			t.Errorf("with %v: the history is %+v", phases, events)
		}

		// The first one is where a plan is reverted to, and cannot be left by it.
		plan = move(t, r, begin().ID, repo.TransitionStart, repo.TransitionFail, repo.TransitionRevert)
		if plan.Stage != first || plan.ReversionCount != 1 {
			t.Errorf("with %v: reverted to %v", phases, plan.Stage)
		}
		if len(own) > 1 {
			move(t, r, plan.ID, repo.TransitionStart, repo.TransitionComplete, enter[own[1]])
			if plan = move(t, r, plan.ID, repo.TransitionRevert); plan.Stage != first {
				t.Errorf("with %v: reverted to %v", phases, plan.Stage)
			}
		}
		move(t, r, plan.ID, repo.TransitionCancel)
		refused(getPlan(t, r, plan.ID), repo.TransitionRevert)
	}
	for _, phases := range [][]repo.Phase{{"x"}, {repo.PhaseApply, repo.PhaseExecute}, {repo.PhaseExecute, repo.PhaseExecute}} {
		_, err := r.Actions().Create(t.Context(), repo.NewAction{Name: actionName(r), ActionDefinition: repo.ActionDefinition{Phases: phases}})
		wantInvalid(t, err, map[bool]string{true: "phases[0]", false: "phases[1]"}[len(phases) == 1])
	}
}
