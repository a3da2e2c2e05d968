package rules_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// table is the lifecycle again, written from the requirements and not from the
// code: a row for each stage, a column for each transition, in the order of the
// header. "-" is refused, "=" stays. A stage is its phase's first letter and its
// state.
const table = `
              start         complete    fail       execute   apply     constrain      revert    resume    cancel    snooze
s/queued      s/processing  -           -          -         -         -              -         -         s/cancelled  -
s/processing  -             s/complete  s/errored  -         -         -              -         -         s/cancelled  s/queued
s/complete    -             -           -          e/queued  -         -              -         -         s/cancelled  -
s/errored     -             -           -          -         -         -              s/queued  s/queued  s/cancelled  -
s/cancelled   -             -           -          -         -         -              -         -         -  -
s/applied     -             -           -          -         -         -              -         -         -  -
e/queued      e/processing  -           -          =         -         -              s/queued  -         e/cancelled  -
e/processing  -             e/complete  e/errored  =         -         -              s/queued  -         e/cancelled  e/queued
e/complete    -             -           -          =         a/queued  -              s/queued  -         e/cancelled  -
e/errored     -             -           -          =         -         -              s/queued  e/queued  e/cancelled  -
e/cancelled   -             -           -          =         -         -              s/queued  -         -  -
e/applied     -             -           -          =         -         -              -         -         -  -
a/queued      a/processing  -           -          =         =         -              s/queued  -         a/cancelled  -
a/processing  -             a/applied   a/errored  =         =         a/constrained  s/queued  -         a/cancelled  a/queued
a/complete    -             -           -          =         =         -              s/queued  -         a/cancelled  -
a/errored     -             -           -          =         =         -              s/queued  a/queued  a/cancelled  -
a/cancelled   -             -           -          =         =         -              s/queued  -         -  -
a/applied     -             -           -          =         =         -              -         -         -  -
a/constrained -             -           -          =         =         -              s/queued  -         a/cancelled  -
`

var phases = map[string]repo.Phase{"s": "strategize", "e": "execute", "a": "apply"}

func stageOf(t *testing.T, text string) repo.Stage {
	t.Helper()
	phase, state, found := strings.Cut(text, "/")
	if !found || phases[phase] == "" {
		t.Fatalf("the table has the stage %q", text)
	}
	return repo.Stage{Phase: phases[phase], State: repo.PlanState(state)}
}

// cells calls check with every cell of the table: all transitions at all stages.
func cells(t *testing.T, check func(transition repo.Transition, from, to repo.Stage, allowed bool)) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(table), "\n")
	header := strings.Fields(lines[0])
	if len(header) != len(rules.Transitions()) || len(lines)-1 != len(rules.Stages()) {
		t.Fatalf("the table has %d transitions and %d stages, the code %d and %d",
			len(header), len(lines)-1, len(rules.Transitions()), len(rules.Stages()))
	}
	for row, line := range lines[1:] {
		fields := strings.Fields(line)
		from := stageOf(t, fields[0])
		if from != rules.Stages()[row] {
			t.Fatalf("stage %d is %v, in the table %v", row, rules.Stages()[row], from)
		}
		for column, cell := range fields[1:] {
			transition := repo.Transition(header[column])
			switch cell {
			case "-":
				check(transition, from, repo.Stage{}, false)
			case "=":
				check(transition, from, from, true)
			default:
				check(transition, from, stageOf(t, cell), true)
			}
		}
	}
}

func TestLifecycle(t *testing.T) {
	count := 0
	cells(t, func(transition repo.Transition, from, want repo.Stage, allowed bool) {
		count++
		got, ok := rules.To(transition, from)
		if got != want || ok != allowed {
			t.Errorf("%s at %v leads to %v, %t, want %v, %t", transition, from, got, ok, want, allowed)
		}
		if ok && !slices.Contains(rules.Stages(), got) {
			t.Errorf("%s at %v leads to %v, which does not exist", transition, from, got)
		}
	})
	if want := 10 * 19; count != want {
		t.Errorf("%d cells, want %d", count, want)
	}
	for _, transition := range []repo.Transition{"", "use", "progress", "START"} {
		for _, from := range rules.Stages() {
			if to, allowed := rules.To(transition, from); allowed {
				t.Errorf("%q at %v leads to %v", transition, from, to)
			}
		}
	}
}

// A claim that expires leads from processing to queued, or errored after the last attempt.
// Callers do not make this transition.
func TestExpired(t *testing.T) {
	for _, from := range rules.Stages() {
		to, allowed := rules.To(repo.TransitionExpire, from)
		if allowed != (from.State == repo.PlanProcessing) || allowed && to != (repo.Stage{Phase: from.Phase, State: repo.PlanQueued}) {
			t.Errorf("%v expires to %v, %t", from, to, allowed)
		}
		if !allowed {
			continue
		}
		plan := repo.Plan{ID: repo.NewID(), Stage: from, Version: 7, Attempt: 2, MaxAttempts: 3, ReversionCount: 1, LastCheckpointID: "c"}
		want := plan
		want.Stage, want.Version, want.Attempt = to, 8, 3
		got, reason := rules.Expired(plan)
		if !reflect.DeepEqual(got, want) || reason != "the claim expired in attempt 2" {
			t.Errorf("expired: %+v, %q, want %+v", got, reason, want)
		}
		plan.MaxAttempts = 2
		want = plan
		want.Version++
		want.State = repo.PlanErrored
		want.ErrorMessage = "the claim expired in attempt 2 of 2"
		got, reason = rules.Expired(plan)
		if !reflect.DeepEqual(got, want) || reason != want.ErrorMessage {
			t.Errorf("expired after the last attempt: %+v, %q, want %+v", got, reason, want)
		}
	}
	if _, err := rules.NormalizeCause(repo.Cause{}, repo.TransitionExpire); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("a caller's expiry: %v", err)
	}
}

func TestStages(t *testing.T) {
	if stages := rules.Stages(); len(stages) != 19 {
		t.Errorf("%d stages, want 19", len(stages))
	}
	for _, phase := range []repo.Phase{"strategize", "execute", "apply", "", "Apply", "action"} {
		for _, state := range []repo.PlanState{"queued", "processing", "complete", "errored", "cancelled", "applied", "constrained", "", "Queued"} {
			stage := repo.Stage{Phase: phase, State: state}
			exists := phases[string(phase[:min(1, len(phase))])] == phase && phase != "" && state != "" && state != "Queued" &&
				(state != "constrained" || phase == "apply")
			if slices.Contains(rules.Stages(), stage) != exists {
				t.Errorf("%v exists: %t", stage, !exists)
			}
			if want := state != "applied" && state != "cancelled"; stage.Live() != want {
				t.Errorf("%v is live: %t", stage, stage.Live())
			}
		}
	}
}

// Moved changes only what the transition changes, in every cell.
func TestMoved(t *testing.T) {
	step := int64(3)
	cells(t, func(transition repo.Transition, from, want repo.Stage, allowed bool) {
		plan := repo.Plan{
			ID: repo.NewID(), Name: "n", Stage: from, Version: 7, ReversionCount: 2,
			LastCompletedStep: &step, LastCheckpointID: "c", Description: "d",
		}
		switch from.State {
		case repo.PlanErrored:
			plan.ErrorMessage, plan.ErrorDetails = "before", json.RawMessage(`{"a":1}`)
		case repo.PlanCancelled:
			plan.CancelReason = "before"
		}
		cause := repo.Cause{Reason: "why"}
		if transition == repo.TransitionFail {
			cause.Details = json.RawMessage(`{"b":2}`)
		}
		got, moves, err := rules.Moved(plan, transition, cause)
		switch {
		case !allowed:
			wantConflict(t, err, repo.TransitionConflictError{PlanID: plan.ID, Transition: transition, Stage: from, Version: 7})
			return
		case want == from:
			if err != nil || moves || !reflect.DeepEqual(got, plan) {
				t.Errorf("%s at %v: %+v, %t, %v", transition, from, got, moves, err)
			}
			return
		}
		expected := plan
		expected.Stage, expected.Version = want, 8
		switch transition {
		case repo.TransitionFail:
			expected.ErrorMessage, expected.ErrorDetails = "why", cause.Details
		case repo.TransitionCancel:
			expected.CancelReason = "why"
		case repo.TransitionRevert:
			expected.ReversionCount = 3
			expected.ErrorMessage, expected.ErrorDetails, expected.CancelReason = "", nil, ""
		default:
			expected.ErrorMessage, expected.ErrorDetails, expected.CancelReason = "", nil, ""
		}
		if err != nil || !moves || !reflect.DeepEqual(got, expected) {
			t.Errorf("%s at %v: %+v, %t, %v, want %+v", transition, from, got, moves, err, expected)
		}

		// The version that the caller expects is a condition.
		cause.Version = 7
		if _, moves, err := rules.Moved(plan, transition, cause); err != nil || !moves {
			t.Errorf("%s at %v with the version: %t, %v", transition, from, moves, err)
		}
		cause.Version = 6
		_, _, err = rules.Moved(plan, transition, cause)
		wantConflict(t, err, repo.TransitionConflictError{PlanID: plan.ID, Transition: transition, Stage: from, Version: 7, Expected: 6})

		// The fourth reversion is refused.
		plan.ReversionCount = limits.MaxReversions
		_, _, err = rules.Moved(plan, transition, repo.Cause{})
		limit, ok := errors.AsType[*repo.LimitExceededError](err)
		if isRevert := transition == repo.TransitionRevert; ok != isRevert ||
			ok && *limit != (repo.LimitExceededError{Kind: "reversions", ID: plan.ID, Limit: limits.MaxReversions}) {
			t.Errorf("%s at %v after %d reversions: %v", transition, from, limits.MaxReversions, err)
		}
	})
}

func wantConflict(t *testing.T, err error, want repo.TransitionConflictError) {
	t.Helper()
	got, ok := errors.AsType[*repo.TransitionConflictError](err)
	if !ok || *got != want || !errors.Is(err, repo.ErrConflict) {
		t.Errorf("got %v, want %v", err, &want)
	}
}

// The details of a transition's audit entry are JSON, whatever the stage.
func TestTransitionDetails(t *testing.T) {
	cells(t, func(transition repo.Transition, from, to repo.Stage, allowed bool) {
		if !allowed {
			return
		}
		var got struct {
			Transition, From, To string
			Version              int64
		}
		if err := json.Unmarshal(rules.Details(transition, from, to, 5), &got); err != nil {
			t.Fatal(err)
		}
		if got.Transition != string(transition) || got.From != string(from.Phase)+"/"+string(from.State) ||
			got.To != string(to.Phase)+"/"+string(to.State) || got.Version != 5 {
			t.Errorf("%s at %v: %+v", transition, from, got)
		}
	})
	for _, test := range []struct {
		transition repo.Transition
		to         string
		want       string
	}{
		{repo.TransitionUse, "s/queued", events.PlanCreated},
		{repo.TransitionStart, "s/processing", events.PlanPhaseChanged},
		{repo.TransitionComplete, "s/complete", events.PlanPhaseChanged},
		{repo.TransitionComplete, "e/complete", events.PlanExecuted},
		{repo.TransitionComplete, "a/applied", events.PlanApplied},
		{repo.TransitionComplete, "e/applied", events.PlanApplied},
		{repo.TransitionFail, "a/errored", events.PlanErrored},
		{repo.TransitionCancel, "a/cancelled", events.PlanCancelled},
		{repo.TransitionExpire, "e/queued", events.PlanPhaseChanged},
		{repo.TransitionExpire, "e/errored", events.PlanErrored},
	} {
		if got := rules.Event(test.transition, stageOf(t, test.to)); got != test.want {
			t.Errorf("%s to %s is the event %s, want %s", test.transition, test.to, got, test.want)
		}
	}
}
