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
	for chosen := 1; chosen < 1<<len(all); chosen++ {
		p := phased{T: t, r: r}
		for i, phase := range all {
			if chosen&(1<<i) != 0 {
				p.own = append(p.own, phase)
			}
		}
		p.action = createAction(t, r, repo.ActionDefinition{Reusable: true, Phases: p.own})
		p.first = repo.Stage{Phase: p.own[0], State: repo.PlanQueued}
		if p.stored = p.own; len(p.own) == len(all) {
			p.stored = nil
		}
		plan := p.claim(p.begin().Namespace)
		p.refuses(plan, repo.TransitionRevert) // there is nothing before
		for _, phase := range all {
			plan = p.complete(plan, phase)
		}
		p.wantFinal(plan)
		p.revert()
	}
	for _, phases := range [][]repo.Phase{{"x"}, {repo.PhaseApply, repo.PhaseExecute}, {repo.PhaseExecute, repo.PhaseExecute}} {
		_, err := r.Actions().Create(t.Context(), repo.NewAction{Name: actionName(r), ActionDefinition: repo.ActionDefinition{Phases: phases}})
		wantInvalid(t, err, map[bool]string{true: "phases[0]", false: "phases[1]"}[len(phases) == 1])
	}
}

var enter = map[repo.Phase]repo.Transition{repo.PhaseExecute: repo.TransitionExecute, repo.PhaseApply: repo.TransitionApply}

// phased tests the plans of an action that has some of the phases.
type phased struct {
	*testing.T
	r      repo.Repositories
	action string
	own    []repo.Phase
	// stored are the phases as they are returned: all of them are none.
	stored []repo.Phase
	first  repo.Stage
}

func (p phased) begin() repo.Plan {
	p.Helper()
	plan := usePlan(p.T, p.r, p.action, repo.UseAction{})
	if plan.Stage != p.first || !slices.Equal(plan.Phases, p.stored) {
		p.Errorf("a plan with %v begins at %v, with %v", p.own, plan.Stage, plan.Phases)
	}
	wantPlan(p.T, getPlan(p.T, p.r, plan.ID), plan)
	return plan
}

func (p phased) claim(namespace string) repo.Plan {
	p.Helper()
	reached, err := p.r.Plans().Claim(p.Context(), repo.Claim{Owner: randomName(), Namespaces: []string{namespace}, Actions: []string{p.action}})
	if must(p.T, reached, err); len(reached) != 1 || reached[0].Plan.Phase != p.first.Phase || !slices.Equal(reached[0].Plan.Phases, p.stored) {
		p.Fatalf("with %v: claimed %+v", p.own, reached)
	}
	return reached[0].Plan
}

func (p phased) refuses(plan repo.Plan, transition repo.Transition) {
	p.Helper()
	_, err := p.r.Plans().Transition(p.Context(), plan.ID, transition, causeOf(transition))
	wantTransitionConflict(p.T, err, repo.TransitionConflictError{PlanID: plan.ID, Transition: transition, Stage: plan.Stage, Version: plan.Version})
}

// complete begins and completes a phase, if it is one of the plan's: the first one was begun.
func (p phased) complete(plan repo.Plan, phase repo.Phase) repo.Plan {
	p.Helper()
	at := slices.Index(p.own, phase)
	switch {
	case at < 0:
		if enter[phase] != "" {
			p.refuses(plan, enter[phase])
		}
		return plan
	case at > 0:
		plan = move(p.T, p.r, plan.ID, enter[phase], repo.TransitionStart)
	}
	if enter[phase] != "" {
		there, err := p.r.Plans().Transition(p.Context(), plan.ID, enter[phase], repo.Cause{})
		if must(p.T, there, err); there.Moved || there.Stage != plan.Stage {
			p.Errorf("%s moved it to %v", enter[phase], there.Stage)
		}
	}
	last := at == len(p.own)-1
	want := repo.Stage{Phase: phase, State: repo.PlanComplete}
	if last {
		want.State = repo.PlanApplied
	}
	if plan = move(p.T, p.r, plan.ID, repo.TransitionComplete); plan.Stage != want || plan.Live() == last {
		p.Errorf("with %v: completing %s leads to %v", p.own, phase, plan.Stage)
	}
	return plan
}

func (p phased) wantFinal(plan repo.Plan) {
	p.Helper()
	wantPlan(p.T, getPlan(p.T, p.r, plan.ID), plan)
	for _, transition := range rules.Transitions() {
		after, err := p.r.Plans().Transition(p.Context(), plan.ID, transition, causeOf(transition))
		if err == nil && after.Moved {
			p.Errorf("with %v: %s moved a plan that is final to %v", p.own, transition, after.Stage)
		}
	}
	p.refuses(plan, repo.TransitionCancel)
	p.refuses(plan, repo.TransitionRevert)
	_, err := p.r.Plans().Use(p.Context(), p.action, repo.UseAction{ParentID: plan.ID})
	wantTransitionConflict(p.T, err, repo.TransitionConflictError{PlanID: plan.ID, Transition: repo.TransitionUse, Stage: plan.Stage, Version: plan.Version})
	if listed := walkPlans(p.T, p.r, repo.PlanFilter{Action: p.action, State: repo.PlanApplied}, 10); len(listed) != 1 || listed[0].ID != plan.ID {
		p.Errorf("with %v: %+v are listed", p.own, listed)
	}
	events := history(p.T, p.r, plan.ID)
	if last := events[len(events)-1]; last.To != plan.Stage || events[0].To != p.first {
		p.Errorf("with %v: the history is %+v", p.own, events)
	}
}

// revert wants the first phase to be where a plan is reverted to, which cannot be left by it.
func (p phased) revert() {
	p.Helper()
	plan := move(p.T, p.r, p.begin().ID, repo.TransitionStart, repo.TransitionFail, repo.TransitionRevert)
	if plan.Stage != p.first || plan.ReversionCount != 1 {
		p.Errorf("with %v: reverted to %v", p.own, plan.Stage)
	}
	if len(p.own) > 1 {
		move(p.T, p.r, plan.ID, repo.TransitionStart, repo.TransitionComplete, enter[p.own[1]])
		if plan = move(p.T, p.r, plan.ID, repo.TransitionRevert); plan.Stage != p.first {
			p.Errorf("with %v: reverted to %v", p.own, plan.Stage)
		}
	}
	move(p.T, p.r, plan.ID, repo.TransitionCancel)
	p.refuses(getPlan(p.T, p.r, plan.ID), repo.TransitionRevert)
}
