package repotest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// A plan is not claimed before it is due, and one that is not due does not keep others away.
func testClaimDue(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond)
	delayed := usePlan(t, r, q.action, repo.UseAction{Namespace: q.namespace, NotBefore: later, Priority: 3})
	wantPlan(t, getPlan(t, r, delayed.ID), delayed)
	if !delayed.NotBefore.Equal(later) || delayed.Priority != 3 || delayed.MaxAttempts != 1000 {
		t.Errorf("the plan is %+v", delayed)
	}
	past := usePlan(t, r, q.action, repo.UseAction{Namespace: q.namespace, NotBefore: later.Add(-2 * time.Hour)})
	claim := q.claim()
	claim.Limit = 3
	wantClaimed(t, q.take(claim), past.ID)
	// Starting it does not ask whether it is due.
	if started := move(t, r, delayed.ID, repo.TransitionStart); !started.NotBefore.IsZero() {
		t.Errorf("it was started, but is due at %v", started.NotBefore)
	}
	for _, priority := range []int{-1, 4} {
		_, err := r.Plans().Use(t.Context(), q.action, repo.UseAction{Priority: priority})
		wantInvalid(t, err, "priority")
	}
	for _, year := range []int{-5000, 0, 10_000} {
		_, err := r.Plans().Use(t.Context(), q.action, repo.UseAction{NotBefore: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)})
		wantInvalid(t, err, "not_before")
	}
}

// In a namespace the plans of a higher priority come first.
func testClaimPriority(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	var ids [4]repo.ID
	for _, priority := range []int{1, 0, 3, 2} {
		ids[priority] = usePlan(t, r, q.action, repo.UseAction{Namespace: q.namespace, Priority: priority}).ID
		tick()
	}
	wantClaimed(t, q.take(q.claim()), ids[3])
	claim := q.claim()
	claim.Limit, claim.Actions = 2, []string{q.action}
	wantClaimed(t, q.take(claim), ids[2], ids[1])
	wantClaimed(t, q.take(q.claim()), ids[0])
	_, err := r.Plans().Use(t.Context(), q.action, repo.UseAction{Key: "k", Namespace: q.namespace, Priority: 1})
	must(t, 0, err)
	_, err = r.Plans().Use(t.Context(), q.action, repo.UseAction{Key: "k", Namespace: q.namespace, Priority: 2})
	if exists, ok := errors.AsType[*repo.ExistsError](err); !ok || exists.Field != "priority" {
		t.Errorf("a use with another priority: %v", err)
	}
}

// Failures and claims that have expired are counted together. A plan that has failed is not due
// before the backoff has passed, and its history has each error.
func testClaimRetry(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	q.action = createAction(t, r, repo.ActionDefinition{Reusable: true, MaxAttempts: 4})
	id := q.add(1)[0]
	fail := func(c repo.ClaimedPlan, cause repo.Cause) repo.Plan {
		t.Helper()
		cause.Fence = c.Lease.Fence
		plan, err := r.Plans().Transition(t.Context(), id, repo.TransitionFail, cause)
		wantPlan(t, getPlan(t, r, id), unmoved(must(t, plan, err)))
		return plan
	}
	first := fail(q.takeOne(), repo.Cause{Reason: "first"})
	pause := first.NotBefore.Sub(first.UpdatedAt)
	if first.State != repo.PlanQueued || first.Attempt != 2 || first.ErrorMessage != "" || pause < 500*time.Millisecond || pause > 1500*time.Millisecond {
		t.Errorf("after the first failure: %+v, due after %v", first, pause)
	}
	for _, again := range q.take(q.claim()) { // on a machine that is slower than the pause
		if again.Plan.UpdatedAt.Before(first.NotBefore) {
			t.Errorf("claimed at %v, before %v", again.Plan.UpdatedAt, first.NotBefore)
		}
	}
	move(t, r, id, repo.TransitionCancel)
	// Another one's pause is longer than this test takes.
	id = q.add(1)[0]
	fail(q.takeOne(), repo.Cause{Reason: "first", Delay: time.Hour})
	wantClaimed(t, q.take(q.claim()))
	started := move(t, r, id, repo.TransitionStart) // by hand, although it is not due
	if started.Attempt != 2 {
		t.Errorf("started in attempt %d", started.Attempt)
	}
	second, err := r.Plans().Transition(t.Context(), id, repo.TransitionFail, repo.Cause{Reason: "second", Delay: time.Microsecond})
	if must(t, second, err); second.Attempt != 3 || second.NotBefore.Sub(second.UpdatedAt) != time.Microsecond {
		t.Errorf("after the second failure: %+v", second)
	}
	tick()
	release(t, r, q.takeOne().Lease) // which counts, too
	last := fail(q.takeOne(), repo.Cause{Reason: "last", Details: []byte(`{"a":1}`)})
	if last.State != repo.PlanErrored || last.Attempt != 4 || last.ErrorMessage != "last" {
		t.Errorf("after the last attempt: %+v", last)
	}
	wantReasons(t, r, id)
	// Resumed later, it has one more attempt.
	resumed, err := r.Plans().Transition(t.Context(), id, repo.TransitionResume, repo.Cause{Delay: time.Hour})
	if must(t, resumed, err); resumed.NotBefore.Sub(resumed.UpdatedAt) != time.Hour {
		t.Errorf("resumed for %v", resumed.NotBefore)
	}
	wantClaimed(t, q.take(q.claim()))
	for field, cause := range map[string]repo.Cause{"delay": {Delay: -1}, "final": {Final: true}} {
		_, err := r.Plans().Transition(t.Context(), id, repo.TransitionResume, cause)
		wantInvalid(t, err, field)
	}
	_, err = r.Plans().Transition(t.Context(), id, repo.TransitionStart, repo.Cause{Delay: 1})
	wantInvalid(t, err, "delay")
	// A final failure is the last one.
	id = q.add(1)[0]
	if plan := fail(q.takeOne(), repo.Cause{Reason: "never again", Final: true}); plan.State != repo.PlanErrored || plan.Attempt != 1 {
		t.Errorf("after a final failure: %+v", plan)
	}
}

// wantReasons wants the history of a plan to say why each of its four attempts failed.
func wantReasons(t *testing.T, r repo.Repositories, id repo.ID) {
	t.Helper()
	var reasons []string
	for _, event := range history(t, r, id) {
		if event.Transition == repo.TransitionFail || event.Transition == repo.TransitionExpire {
			reasons = append(reasons, event.Reason)
		}
	}
	if len(reasons) != 4 || reasons[0] != "first" || reasons[1] != "second" || !strings.Contains(reasons[2], "expired in attempt 3") || reasons[3] != "last" {
		t.Errorf("the history has %q", reasons)
	}
}

func unmoved(p repo.Plan) repo.Plan {
	p.Moved = false
	return p
}

// What is snoozed costs no attempt.
func testClaimSnooze(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	id := q.add(1)[0]
	claimed := q.takeOne()
	snoozed, err := r.Plans().Transition(t.Context(), id, repo.TransitionSnooze, repo.Cause{Fence: claimed.Lease.Fence, Delay: time.Hour})
	if must(t, snoozed, err); snoozed.State != repo.PlanQueued || snoozed.Attempt != 1 || snoozed.NotBefore.Sub(snoozed.UpdatedAt) != time.Hour {
		t.Errorf("snoozed: %+v", snoozed)
	}
	wantClaimed(t, q.take(q.claim()))
	if leases := listLeases(t, r, repo.LeaseFilter{Owner: claimed.Lease.Owner}, 0); len(leases) > 0 {
		t.Errorf("its lease is still there: %+v", leases)
	}
}

// An error is tried again, Snooze waits, and Final ends.
func testWorkRetries(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	q.action = createAction(t, store, repo.ActionDefinition{Reusable: true, MaxAttempts: 2})
	ids := q.add(3)
	calls := map[repo.ID]int{}
	w := work(t, store, q.claim(), func(_ context.Context, claimed repo.ClaimedPlan) error {
		plan := claimed.Plan
		calls[plan.ID]++
		switch {
		case plan.ID == ids[1]:
			return fmt.Errorf("given up: %w", repo.Final(errors.New("too bad"))) //nolint:err113 // any error
		case plan.ID == ids[2]:
			return repo.Snooze(math.MaxInt64) // as long as can be
		case calls[plan.ID] == 1:
			return fmt.Errorf("not yet: %w", repo.Snooze(time.Millisecond))
		}
		return fmt.Errorf("call %d", calls[plan.ID]) //nolint:err113 // any error
	})
	failed, final := waitFor(t, store, ids[0], repo.PlanErrored), waitFor(t, store, ids[1], repo.PlanErrored)
	await.For(t, "plan that is snoozed", func() bool { return getPlan(t, store, ids[2]).Version == 3 })
	w.stop(t)
	if failed.Attempt != 2 || failed.ErrorMessage != "call 3" || calls[ids[0]] != 3 {
		t.Errorf("after %d calls: %+v", calls[ids[0]], failed)
	}
	if final.Attempt != 1 || final.ErrorMessage != "given up: too bad" || calls[ids[1]] != 1 {
		t.Errorf("after %d calls: %+v", calls[ids[1]], final)
	}
	if forever := getPlan(t, store, ids[2]); forever.State != repo.PlanQueued || forever.NotBefore.Sub(forever.UpdatedAt) != limits.MaxDelay {
		t.Errorf("snoozed for ever: %+v", forever)
	}
	if repo.Final(nil) != nil {
		t.Error("no error is final")
	}
}

// A claim that waits gets a plan when it is due, without another hint.
func testWorkWaitsUntilDue(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	due := time.Now().Add(1500 * time.Millisecond)
	plan := usePlan(t, store, q.action, repo.UseAction{Namespace: q.namespace, NotBefore: due})
	claim := q.claim()
	claim.Wait = true
	claimed, err := store.Plans().Claim(await.Context(t), claim)
	wantClaimed(t, must(t, claimed, err), plan.ID)
	if claimed[0].Lease.AcquiredAt.Before(plan.NotBefore) {
		t.Errorf("claimed at %v, before %v", claimed[0].Lease.AcquiredAt, plan.NotBefore)
	}
}
