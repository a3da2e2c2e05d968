package repotest

import (
	"encoding/json"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func lifecycleTests() []test {
	return []test{
		onPlans("EveryCell", testLifecycleCells),
		onPlans("Phases", testLifecyclePhases),
		onPlans("Versions", testLifecycleVersions),
		onPlans("Reversions", testLifecycleReversions),
		onPlans("Failure", testLifecycleFailure),
		onPlans("Cancelled", testLifecycleCancelled),
		onPlans("History", testLifecycleHistory),
		onPlans("Invalid", testLifecycleInvalid),
		onPlans("CancelTree", testLifecycleCancelTree),
		onPlans("RevertBelowCancelled", testRevertBelowCancelled),
		onPlans("RevertBelowApplied", testRevertBelowApplied),
		onPlans("RevertBelowLive", testRevertBelowLive),
		onPlans("Progress", testLifecycleProgress),
		onPlans("Audit", testLifecycleAudit),
	}
}

// Every transition from every stage moves the plan, leaves it unchanged, or is
// refused, as the lifecycle says; and the result is what is stored.
func testLifecycleCells(t *testing.T, r repo.Repositories) {
	name := plain(t, r)
	if len(routes()) != len(rules.Stages())-3 { // two are of plans without all phases
		t.Fatalf("%d stages are reached", len(routes()))
	}
	for from, route := range routes() {
		for _, transition := range rules.Transitions() {
			id := usePlan(t, r, name, repo.UseAction{}).ID
			move(t, r, id, route...)
			before := getPlan(t, r, id)
			if before.Stage != from {
				t.Fatalf("the plan is at %v, want %v", before.Stage, from)
			}
			to, allowed := rules.To(transition, from)
			tick()
			got, err := r.Plans().Transition(t.Context(), id, transition, causeOf(transition))
			after := getPlan(t, r, id)
			events := int64(len(history(t, r, id)))
			switch {
			case !allowed:
				wantTransitionConflict(t, err, repo.TransitionConflictError{PlanID: id, Transition: transition, Stage: from, Version: before.Version})
				wantPlan(t, after, before)
			case to == from:
				if must(t, got, err).Moved {
					t.Errorf("%s from %v says that it has moved the plan", transition, from)
				}
				wantPlan(t, got, before)
				wantPlan(t, after, before)
			default:
				must(t, got, err)
				wantPlan(t, after, got)
				if !got.Moved || got.Stage != to || got.Version != before.Version+1 || !got.UpdatedAt.After(before.UpdatedAt) {
					t.Errorf("%s from %v: at %v, version %d", transition, from, got.Stage, got.Version)
				}
			}
			if events != after.Version {
				t.Errorf("%s from %v: %d events, version %d", transition, from, events, after.Version)
			}
		}
	}
}

// A caller that expects another version is refused.
func testLifecycleVersions(t *testing.T, r repo.Repositories) {
	plan := usePlan(t, r, plain(t, r), repo.UseAction{})
	for _, version := range []int64{2, 7} {
		_, err := r.Plans().Transition(t.Context(), plan.ID, repo.TransitionStart, repo.Cause{Version: version})
		wantTransitionConflict(t, err, repo.TransitionConflictError{PlanID: plan.ID, Transition: repo.TransitionStart, Stage: plan.Stage, Version: 1, Expected: version})
		_, err = r.Plans().Transition(t.Context(), plan.ID, repo.TransitionCancel, repo.Cause{Version: version, Reason: "x"})
		wantTransitionConflict(t, err, repo.TransitionConflictError{PlanID: plan.ID, Transition: repo.TransitionCancel, Stage: plan.Stage, Version: 1, Expected: version})
	}
	wantPlan(t, getPlan(t, r, plan.ID), plan)
	started, err := r.Plans().Transition(t.Context(), plan.ID, repo.TransitionStart, repo.Cause{Version: 1})
	if must(t, started, err).Version != 2 {
		t.Errorf("the version is %d", started.Version)
	}
	cancelled, err := r.Plans().Transition(t.Context(), plan.ID, repo.TransitionCancel, repo.Cause{Version: 2, Reason: "x"})
	if must(t, cancelled, err).Version != 3 {
		t.Errorf("the version is %d", cancelled.Version)
	}

	// Also where the plan is already, which a caller without a version is told.
	plan = usePlan(t, r, plain(t, r), repo.UseAction{})
	move(t, r, plan.ID, repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute)
	_, err = r.Plans().Transition(t.Context(), plan.ID, repo.TransitionExecute, repo.Cause{Version: 3})
	at := repo.Stage{Phase: repo.PhaseExecute, State: repo.PlanQueued}
	wantTransitionConflict(t, err, repo.TransitionConflictError{
		PlanID: plan.ID, Transition: repo.TransitionExecute, Stage: at, Version: 4, Expected: 3,
	})
	for _, version := range []int64{0, 4} {
		there, err := r.Plans().Transition(t.Context(), plan.ID, repo.TransitionExecute, repo.Cause{Version: version})
		if must(t, there, err).Version != 4 || there.Moved {
			t.Errorf("with version %d: %+v", version, there)
		}
	}
}

func testLifecycleReversions(t *testing.T, r repo.Repositories) {
	id := usePlan(t, r, plain(t, r), repo.UseAction{}).ID
	for i := range limits.MaxReversions {
		move(t, r, id, repo.TransitionStart, repo.TransitionFail)
		if got := move(t, r, id, repo.TransitionRevert); got.ReversionCount != i+1 {
			t.Errorf("%d reversions, want %d", got.ReversionCount, i+1)
		}
	}
	move(t, r, id, repo.TransitionStart, repo.TransitionFail)
	before := getPlan(t, r, id)
	_, err := r.Plans().Transition(t.Context(), id, repo.TransitionRevert, repo.Cause{})
	wantLimit(t, err, "reversions")
	wantPlan(t, getPlan(t, r, id), before)
	if got := move(t, r, id, repo.TransitionResume); got.ReversionCount != limits.MaxReversions {
		t.Errorf("resuming left %d reversions", got.ReversionCount)
	}
}

// A plan keeps its failure until it continues.
func testLifecycleFailure(t *testing.T, r repo.Repositories) {
	id := usePlan(t, r, plain(t, r), repo.UseAction{}).ID
	failed := move(t, r, id, repo.TransitionStart, repo.TransitionFail)
	if failed.ErrorMessage != "reason of fail" || string(failed.ErrorDetails) != `{ "code" : 1.0 }` {
		t.Errorf("failed with %q, %s", failed.ErrorMessage, failed.ErrorDetails)
	}
	if resumed := move(t, r, id, repo.TransitionResume); resumed.ErrorMessage != "" || resumed.ErrorDetails != nil {
		t.Errorf("resumed with %q, %s", resumed.ErrorMessage, resumed.ErrorDetails)
	}
	move(t, r, id, repo.TransitionStart)
	bare, err := r.Plans().Transition(t.Context(), id, repo.TransitionFail, repo.Cause{Reason: "again"})
	if must(t, bare, err).ErrorDetails != nil || bare.ErrorMessage != "again" {
		t.Errorf("failed with %q, %s", bare.ErrorMessage, bare.ErrorDetails)
	}
	if cancelled := move(t, r, id, repo.TransitionCancel); cancelled.ErrorMessage != "again" {
		t.Errorf("cancelled with %q", cancelled.ErrorMessage)
	}
}

func testLifecycleCancelled(t *testing.T, r repo.Repositories) {
	id := usePlan(t, r, plain(t, r), repo.UseAction{}).ID
	move(t, r, id, repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute)
	cancelled := move(t, r, id, repo.TransitionCancel)
	if cancelled.CancelReason != "reason of cancel" || cancelled.CancelledAt.IsZero() || !cancelled.CancelledAt.Equal(getPlan(t, r, id).CancelledAt) {
		t.Errorf("cancelled is %+v", cancelled)
	}
	if reverted := move(t, r, id, repo.TransitionRevert); reverted.CancelReason != "" || !reverted.CancelledAt.IsZero() {
		t.Errorf("reverted is %+v", reverted)
	}
}

func testLifecycleHistory(t *testing.T, r repo.Repositories) {
	id := usePlan(t, r, plain(t, r), repo.UseAction{Actor: "user"}).ID
	steps := []repo.Transition{repo.TransitionStart, repo.TransitionFail, repo.TransitionResume, repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute}
	move(t, r, id, steps...)
	events := history(t, r, id)
	if len(events) != len(steps)+1 {
		t.Fatalf("%d events", len(events))
	}
	for i, event := range events[1:] {
		want := repo.PlanEvent{
			PlanID: id, Version: int64(i) + 2, Transition: steps[i], From: events[i].To, To: event.To,
			Actor: "tester", Reason: "reason of " + string(steps[i]), CreatedAt: event.CreatedAt,
		}
		wantSame(t, "event", event, want)
		if to, _ := rules.To(steps[i], event.From); to != event.To || event.CreatedAt.Before(events[i].CreatedAt) {
			t.Errorf("event %d is %+v", i, event)
		}
	}
	for from := range int64(len(events) + 3) {
		got, err := r.Plans().History(t.Context(), id, from, 2)
		first := min(max(0, int(from)-1), len(events))
		want := events[first:min(first+2, len(events))]
		if must(t, got, err); len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
			t.Errorf("from %d: %+v, want %+v", from, got, want)
		}
	}
	_, err := r.Plans().History(t.Context(), id, -1, 1)
	wantInvalid(t, err, "from")
	_, err = r.Plans().History(t.Context(), id, 0, repo.MaxPageSize+1)
	wantInvalid(t, err, "limit")
	missing := repo.NewID()
	_, err = r.Plans().History(t.Context(), missing, 0, 1)
	wantNotFound(t, err, "plan", missing)
}

func testLifecycleInvalid(t *testing.T, r repo.Repositories) {
	plan := usePlan(t, r, plain(t, r), repo.UseAction{})
	for field, calls := range map[string][]struct {
		transition repo.Transition
		cause      repo.Cause
	}{
		"transition": {{"", repo.Cause{}}, {repo.TransitionUse, repo.Cause{}}, {secret, repo.Cause{}}, {repo.TransitionProgress, repo.Cause{}}},
		"version":    {{repo.TransitionStart, repo.Cause{Version: -1}}},
		"actor":      {{repo.TransitionStart, repo.Cause{Actor: secret + "\x00"}}},
		"reason":     {{repo.TransitionStart, repo.Cause{Reason: "\xff"}}, {repo.TransitionFail, repo.Cause{}}, {repo.TransitionCancel, repo.Cause{}}},
		"details": {
			{repo.TransitionFail, repo.Cause{Reason: "x", Details: json.RawMessage(`[]`)}},
			{repo.TransitionStart, repo.Cause{Details: json.RawMessage(`{}`)}},
		},
	} {
		for _, call := range calls {
			_, err := r.Plans().Transition(t.Context(), plan.ID, call.transition, call.cause)
			wantInvalid(t, err, field)
		}
	}
	wantPlan(t, getPlan(t, r, plan.ID), plan)
	missing := repo.NewID()
	for _, transition := range rules.Transitions() {
		_, err := r.Plans().Transition(t.Context(), missing, transition, causeOf(transition))
		wantNotFound(t, err, "plan", missing)
	}
}

// Cancelling a plan cancels its live descendants, each with its own event, and
// leaves the others and the rest of the tree unchanged.
func testLifecycleCancelTree(t *testing.T, r repo.Repositories) {
	name := plain(t, r)
	root := usePlan(t, r, name, repo.UseAction{})
	spawn := func(parent repo.ID, route ...repo.Transition) repo.ID {
		id := usePlan(t, r, name, repo.UseAction{ParentID: parent}).ID
		move(t, r, id, route...)
		return id
	}
	all := routes()
	target := spawn(root.ID, repo.TransitionStart)
	sibling := spawn(root.ID)
	queued := spawn(target)
	errored := spawn(target, repo.TransitionStart, repo.TransitionFail)
	applied := spawn(target)
	below := spawn(applied) // its parent is still live
	deep := spawn(queued, repo.TransitionStart)
	move(t, r, applied, all[repo.Stage{Phase: repo.PhaseApply, State: repo.PlanApplied}]...)
	gone := spawn(target)
	move(t, r, gone, repo.TransitionCancel)

	before := map[repo.ID]repo.Plan{}
	for _, id := range []repo.ID{root.ID, sibling, applied, gone, target, queued, errored, below, deep} {
		before[id] = getPlan(t, r, id)
	}
	cancelled, err := r.Plans().Transition(t.Context(), target, repo.TransitionCancel, repo.Cause{Actor: "who", Reason: "why"})
	wantPlan(t, getPlan(t, r, target), must(t, cancelled, err))
	for _, id := range []repo.ID{target, queued, errored, below, deep} {
		got, was := getPlan(t, r, id), before[id]
		if got.State != repo.PlanCancelled || got.Phase != was.Phase || got.Version != was.Version+1 || got.CancelReason != "why" || got.ErrorMessage != was.ErrorMessage {
			t.Errorf("%+v became %+v", was, got)
		}
		events := history(t, r, id)
		if last := events[len(events)-1]; int64(len(events)) != got.Version || last.Transition != repo.TransitionCancel || last.From != was.Stage || last.Actor != "who" || last.Reason != "why" {
			t.Errorf("the last event is %+v", last)
		}
	}
	for _, id := range []repo.ID{root.ID, sibling, applied, gone} {
		wantPlan(t, getPlan(t, r, id), before[id])
	}
}

func testLifecycleProgress(t *testing.T, r repo.Repositories) {
	id := usePlan(t, r, plain(t, r), repo.UseAction{}).ID
	step := func(step int64) repo.Progress { return repo.Progress{CompletedStep: &step} }
	_, err := r.Plans().Progress(t.Context(), id, step(1))
	wantTransitionConflict(t, err, repo.TransitionConflictError{
		PlanID: id, Transition: repo.TransitionProgress, Stage: repo.Stage{Phase: repo.PhaseStrategize, State: repo.PlanQueued}, Version: 1,
	})
	started := move(t, r, id, repo.TransitionStart)
	got, err := r.Plans().Progress(t.Context(), id, step(0))
	if must(t, got, err).LastCompletedStep == nil || *got.LastCompletedStep != 0 || got.Version != started.Version {
		t.Errorf("progressed to %+v", got)
	}
	got, err = r.Plans().Progress(t.Context(), id, repo.Progress{CompletedStep: ptr(int64(5)), CheckpointID: ptr("cp")})
	wantPlan(t, getPlan(t, r, id), must(t, got, err))
	if *got.LastCompletedStep != 5 || got.LastCheckpointID != "cp" {
		t.Errorf("progressed to %+v", got)
	}
	got, err = r.Plans().Progress(t.Context(), id, repo.Progress{CheckpointID: ptr("")})
	if must(t, got, err).LastCheckpointID != "" || *got.LastCompletedStep != 5 {
		t.Errorf("progressed to %+v", got)
	}
	if done := move(t, r, id, repo.TransitionComplete); done.LastCompletedStep == nil || *done.LastCompletedStep != 5 {
		t.Errorf("completed as %+v", done)
	}
	_, err = r.Plans().Progress(t.Context(), id, step(-1))
	wantInvalid(t, err, "completed_step")
	_, err = r.Plans().Progress(t.Context(), id, repo.Progress{CheckpointID: ptr(tooLong())})
	wantInvalid(t, err, "checkpoint_id")
	missing := repo.NewID()
	_, err = r.Plans().Progress(t.Context(), missing, step(1))
	wantNotFound(t, err, "plan", missing)
}

// Every transition records an entry in the audit trail in its transaction.
func testLifecycleAudit(t *testing.T, r repo.Repositories) {
	id := usePlan(t, r, plain(t, r), repo.UseAction{Actor: "user"}).ID
	child := usePlan(t, r, plain(t, r), repo.UseAction{ParentID: id}).ID
	steps := routes()[repo.Stage{Phase: repo.PhaseApply, State: repo.PlanErrored}]
	move(t, r, id, steps...)
	move(t, r, id, repo.TransitionApply) // already there: no entry
	move(t, r, id, repo.TransitionCancel)
	for _, plan := range []repo.ID{id, child} {
		page, err := r.Audit().List(t.Context(), repo.AuditFilter{PlanID: plan, OldestFirst: true}, repo.Page{})
		must(t, page, err)
		events := history(t, r, plan)
		if len(page.Items) != len(events) {
			t.Fatalf("%d entries, %d events", len(page.Items), len(events))
		}
		for i, entry := range page.Items {
			if entry.Type != rules.Event(events[i].Transition, events[i].To) || entry.Actor != events[i].Actor {
				t.Errorf("entry %d is %+v, the event %+v", i, entry, events[i])
			}
			if i > 0 && string(entry.Details) != string(rules.Details(events[i].Transition, events[i].From, events[i].To, events[i].Version)) {
				t.Errorf("entry %d says %s", i, entry.Details)
			}
		}
	}
}
