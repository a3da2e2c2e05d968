package repotest

import (
	"encoding/json"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// onPlans is a test that needs only the repositories.
func onPlans(name string, run func(t *testing.T, r repo.Repositories)) test {
	return test{name, func(t *testing.T, store repo.Store) { run(t, store) }}
}

// actionName returns a unique name in a unique namespace.
func actionName(of any) string {
	if v, is := of.(spaced); is {
		return v.Space() + "/" + randomName()
	}
	return "ns" + repo.NewID().String() + "/review"
}

func createAction(t *testing.T, r repo.Repositories, definition repo.ActionDefinition) string {
	t.Helper()
	name := actionName(r)
	_, err := r.Actions().Create(t.Context(), repo.NewAction{Name: name, ActionDefinition: definition})
	must(t, name, err)
	return name
}

// plain is a reusable action without arguments.
func plain(t *testing.T, r repo.Repositories) string {
	t.Helper()
	return createAction(t, r, repo.ActionDefinition{Reusable: true})
}

func usePlan(t *testing.T, r repo.Repositories, action string, use repo.UseAction) repo.Plan {
	t.Helper()
	plan, err := r.Plans().Use(t.Context(), action, use)
	return must(t, plan, err)
}

// fullPlan is a plan with a value in each field.
func fullPlan(t *testing.T, r repo.Repositories) repo.Plan {
	t.Helper()
	return usePlan(t, r, createAction(t, r, fullDefinition()), fullUse())
}

func getPlan(t *testing.T, r repo.Repositories, id repo.ID) repo.Plan {
	t.Helper()
	plan, err := r.Plans().Get(t.Context(), id)
	return must(t, plan, err)
}

func history(t *testing.T, r repo.Repositories, id repo.ID) []repo.PlanEvent {
	t.Helper()
	events, err := r.Plans().History(t.Context(), id, 0, repo.MaxPageSize)
	return must(t, events, err)
}

// causeOf returns a cause that the transition accepts.
func causeOf(transition repo.Transition) repo.Cause {
	cause := repo.Cause{Actor: "tester", Reason: "reason of " + string(transition)}
	if transition == repo.TransitionFail {
		cause.Details, cause.Final = json.RawMessage(`{ "code" : 1.0 }`), true
	}
	return cause
}

func move(t *testing.T, r repo.Repositories, id repo.ID, transitions ...repo.Transition) repo.Plan {
	t.Helper()
	var plan repo.Plan
	for _, transition := range transitions {
		var err error
		plan, err = r.Plans().Transition(t.Context(), id, transition, causeOf(transition))
		if err != nil {
			t.Fatalf("%s: %v", transition, err)
		}
	}
	return plan
}

// routes lead from strategize/queued to each reachable stage. (No transition leads
// to apply/complete: completing apply leads to applied.)
func routes() map[repo.Stage][]repo.Transition {
	const (
		start, complete, fail = repo.TransitionStart, repo.TransitionComplete, repo.TransitionFail
		execute, apply        = repo.TransitionExecute, repo.TransitionApply
		cancel, constrain     = repo.TransitionCancel, repo.TransitionConstrain
	)
	stage := func(phase repo.Phase, state repo.PlanState) repo.Stage { return repo.Stage{Phase: phase, State: state} }
	found := map[repo.Stage][]repo.Transition{}
	var before []repo.Transition
	for _, phase := range []struct {
		phase repo.Phase
		enter []repo.Transition
	}{
		{repo.PhaseStrategize, nil},
		{repo.PhaseExecute, []repo.Transition{start, complete, execute}},
		{repo.PhaseApply, []repo.Transition{start, complete, apply}},
	} {
		before = append(before, phase.enter...)
		to := func(steps ...repo.Transition) []repo.Transition {
			return append(append([]repo.Transition{}, before...), steps...)
		}
		found[stage(phase.phase, repo.PlanQueued)] = to()
		found[stage(phase.phase, repo.PlanProcessing)] = to(start)
		found[stage(phase.phase, repo.PlanErrored)] = to(start, fail)
		found[stage(phase.phase, repo.PlanCancelled)] = to(cancel)
		if phase.phase == repo.PhaseApply {
			found[stage(phase.phase, repo.PlanApplied)] = to(start, complete)
			found[stage(phase.phase, repo.PlanConstrained)] = to(start, constrain)
		} else {
			found[stage(phase.phase, repo.PlanComplete)] = to(start, complete)
		}
	}
	return found
}

func wantPlan(t *testing.T, got, want repo.Plan) {
	t.Helper()
	got.Moved, want.Moved = false, false // it is about a call
	wantSame(t, "plan", got, want)
}

func wantTransitionConflict(t *testing.T, err error, want repo.TransitionConflictError) {
	t.Helper()
	if got, ok := wantError[*repo.TransitionConflictError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, want)
	}
}

func wantActionNotFound(t *testing.T, err error, name string) {
	t.Helper()
	if got, ok := wantError[*repo.NotFoundError](t, err, repo.ErrNotFound); ok && got.Name != name {
		t.Errorf("got the error %v, want one about %s", got, name)
	}
}

func wantActionConflict(t *testing.T, err error, field string) {
	t.Helper()
	if field == "version" {
		_, _ = wantError[*repo.VersionConflictError](t, err, repo.ErrConflict)
	} else if got, ok := wantError[*repo.ExistsError](t, err, repo.ErrConflict); ok && got.Field != field {
		t.Errorf("got the error %v, want one about %s", got, field)
	}
}

func wantPlanConflict(t *testing.T, err error, want repo.ExistsError) {
	t.Helper()
	if got, ok := wantError[*repo.ExistsError](t, err, repo.ErrConflict); ok {
		wantEqual(t, got, want)
	}
}

func wantLimit(t *testing.T, err error, kind string) {
	t.Helper()
	if got, ok := wantError[*repo.LimitExceededError](t, err, repo.ErrLimit); ok && got.Kind != kind {
		t.Errorf("got the error %v, want one about %s", got, kind)
	}
}
