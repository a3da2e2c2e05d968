package repotest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

func planEndTests() []test {
	return []test{
		onPlans("Delete", testPlanDelete),
		onPlans("Keep", testPlanKeep),
		onPlans("Held", testPlanHeld),
		onPlans("MaxAge", testPlanMaxAge),
		onPlans("Missing", testPlanDeleteMissing),
		onPlans("Counts", testPlanCounts),
		onPlans("ListByAction", testPlanListByAction),
	}
}

func wantGone(t *testing.T, r repo.Repositories, ids ...repo.ID) {
	t.Helper()
	for _, id := range ids {
		if _, err := r.Plans().Get(t.Context(), id); !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("plan %s is still there: %v", id, err)
		}
		if _, err := r.Plans().History(t.Context(), id, 0, 1); !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("its history is still there: %v", err)
		}
		list, err := r.Audit().List(t.Context(), repo.AuditFilter{PlanID: id}, repo.Page{})
		if must(t, list, err); len(list.Items) < 2 || !slices.ContainsFunc(list.Items, func(e repo.AuditEntry) bool {
			return e.Type == "entity_deleted" && strings.Contains(string(e.Details), `"entity":"plan"`) && strings.Contains(string(e.Details), `"stage":"strategize/`)
		}) {
			t.Errorf("the audit trail does not say what was: %+v", list.Items)
		}
	}
}

func wantRefusedPlan(t *testing.T, err error, id repo.ID) {
	t.Helper()
	if refused, ok := errors.AsType[*repo.RefusedError](err); !ok || refused.Kind != "plan" || refused.ID != id {
		t.Errorf("got %v, want a refusal because of %s", err, id)
	}
}

// A plan is deleted with those below it, unless one of them is queued or processing.
// Guarantee: Plans: A plan with work at or below it is not deleted.
func testPlanDelete(t *testing.T, r repo.Repositories) {
	session := create(t, r.Sessions())
	action := plain(t, r)
	top := usePlan(t, r, action, repo.UseAction{Key: "k", SessionID: session, Projects: []repo.ProjectLink{{Project: "p" + action}}})
	child := usePlan(t, r, action, repo.UseAction{ParentID: top.ID})
	grandchild := usePlan(t, r, action, repo.UseAction{ParentID: child.ID})
	other := usePlan(t, r, action, repo.UseAction{ParentID: top.ID})
	wantRefusedPlan(t, r.Plans().Delete(t.Context(), other.ID), other.ID)
	move(t, r, top.ID, repo.TransitionStart, repo.TransitionComplete)
	wantRefusedPlan(t, r.Plans().Delete(t.Context(), top.ID), child.ID)
	move(t, r, child.ID, repo.TransitionStart, repo.TransitionFail)
	move(t, r, other.ID, repo.TransitionCancel)
	move(t, r, grandchild.ID, repo.TransitionStart)
	wantRefusedPlan(t, r.Plans().Delete(t.Context(), child.ID), grandchild.ID)
	move(t, r, grandchild.ID, repo.TransitionComplete)
	testPlanDeleteIf(t, r, child.ID, grandchild.ID)
	if err := r.Plans().Delete(t.Context(), child.ID, repo.DeleteIf{Version: getPlan(t, r, child.ID).Version}); err != nil {
		t.Fatal(err)
	}
	wantGone(t, r, child.ID, grandchild.ID)
	getPlan(t, r, other.ID)
	if err := r.Plans().Delete(t.Context(), top.ID); err != nil {
		t.Fatal(err)
	}
	wantGone(t, r, top.ID, other.ID)
	if found, err := r.Sessions().Get(t.Context(), session); len(must(t, found, err).Plans) > 0 {
		t.Errorf("the session has %+v", found.Plans)
	}
	for _, filter := range []repo.PlanFilter{{Project: "p" + action}, {SessionID: session}} {
		if list, err := r.Plans().List(t.Context(), filter, repo.Page{}); len(must(t, list, err).Items) > 0 {
			t.Errorf("the list of %+v has %+v", filter, list.Items)
		}
	}
	if again := usePlan(t, r, action, repo.UseAction{Key: "k", SessionID: session}); again.ID == top.ID || again.Version != 1 {
		t.Errorf("the key still finds %+v", again)
	}
}

// testPlanDeleteIf tries to delete a plan on conditions that it does not meet. The one below it waits for its next phase.
func testPlanDeleteIf(t *testing.T, r repo.Repositories, id, below repo.ID) {
	t.Helper()
	plan := getPlan(t, r, id)
	err := r.Plans().Delete(t.Context(), id, repo.DeleteIf{Version: plan.Version - 1}, repo.DeleteIf{IdleSince: plan.UpdatedAt.Add(time.Hour)})
	conflict, _ := wantError[*repo.VersionConflictError](t, err, repo.ErrConflict)
	if conflict != nil && (conflict.Kind != "plan" || conflict.ID != id || conflict.Expected != plan.Version-1 || conflict.Actual != plan.Version) {
		t.Errorf("%+v", conflict)
	}
	wantRefusedPlan(t, r.Plans().Delete(t.Context(), id, repo.DeleteIf{IdleSince: plan.UpdatedAt}), id)
	wantRefusedPlan(t, r.Plans().Delete(t.Context(), id, repo.DeleteIf{IdleSince: plan.UpdatedAt.Add(time.Hour)}), below) // for its age
	wantInvalid(t, r.Plans().Delete(t.Context(), id, repo.DeleteIf{Messages: ptr(int64(0))}), "conditions")
	wantInvalid(t, r.Plans().Delete(t.Context(), id, repo.DeleteIf{Version: -1}), "conditions[0].version")
	if missing := repo.NewID(); !errors.Is(r.Plans().Delete(t.Context(), missing, repo.DeleteIf{Version: 1}), repo.ErrNotFound) {
		t.Error("a plan that does not exist has another version")
	}
}

// A plan is kept by the holds of its session, of that one's owner, and of its namespace, and with it those above it.
// Guarantee: Deletion: A legal hold keeps the plans of its sessions and of its namespace, too.
func testPlanHeld(t *testing.T, r repo.Repositories) {
	session := createAs(t, r.Sessions(), repo.NewSession{Namespace: spaceOf(r), Owner: randomName()})
	action := createAction(t, r, repo.ActionDefinition{Reusable: true, Keep: time.Microsecond})
	top := usePlan(t, r, action, repo.UseAction{Namespace: spaceOf(r)})
	child := usePlan(t, r, action, repo.UseAction{ParentID: top.ID, SessionID: session.ID})
	holds := []repo.LegalHold{{SessionID: session.ID, Reason: "x"}, {Namespace: session.Namespace, Owner: session.Owner, Reason: "x"}}
	if _, is := any(r).(spaced); !is { // where all tests share a namespace, its hold would be theirs, too
		holds = append(holds, repo.LegalHold{Namespace: top.Namespace, Reason: "x"})
	}
	for _, hold := range holds {
		if err := r.Sessions().AddHold(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}
	move(t, r, top.ID, repo.TransitionCancel)
	tick()
	sweep(t, r)
	for _, hold := range holds {
		err := r.Plans().Delete(t.Context(), top.ID)
		if refused, is := errors.AsType[*repo.RefusedError](err); !is || refused.Kind != "hold" {
			t.Errorf("%+v: %v", hold, err)
		}
		if err := r.Sessions().RemoveHold(t.Context(), hold); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Plans().Delete(t.Context(), top.ID); err != nil {
		t.Fatal(err)
	}
	wantGone(t, r, top.ID, child.ID)
}

func testPlanDeleteMissing(t *testing.T, r repo.Repositories) {
	if err := r.Plans().Delete(t.Context(), repo.NewID()); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("a plan that is not there: %v", err)
	}
	for _, limit := range []int{-1, limits.MaxSweep + 1} {
		_, err := r.Plans().Sweep(t.Context(), limit)
		wantInvalid(t, err, "limit")
	}
}

// sweepAway sweeps until none of the plans is there. A sweep skips locked rows, so it passes over what another one is
// deleting.
func sweepAway(t *testing.T, r repo.Repositories, ids ...repo.ID) {
	t.Helper()
	await.For(t, "plans that were kept long enough are deleted", func() bool {
		sweep(t, r)
		return !slices.ContainsFunc(ids, func(id repo.ID) bool {
			_, err := r.Plans().Get(t.Context(), id)
			return err == nil
		})
	})
	wantGone(t, r, ids...)
}

// sweep sweeps until only held plans are left.
func sweep(t *testing.T, r repo.Repositories) {
	t.Helper()
	for {
		swept, err := r.Plans().Sweep(t.Context(), 0)
		if must(t, swept, err) == 0 {
			return
		}
	}
}

// What has been kept long enough since its end is deleted with what is below it, once all of that has ended. A plan that waits for a
// decision, which is made on Monday, has not.
// Guarantee: Plans: A plan that waits for its next phase outlives Keep.
func testPlanKeep(t *testing.T, r repo.Repositories) {
	action := createAction(t, r, repo.ActionDefinition{Reusable: true, Keep: time.Microsecond, Phases: []repo.Phase{repo.PhaseStrategize}})
	decided := createAction(t, r, repo.ActionDefinition{Reusable: true, Keep: time.Microsecond})
	kept := plain(t, r)
	waiting := usePlan(t, r, decided, repo.UseAction{})
	above := usePlan(t, r, action, repo.UseAction{})
	waitingBelow := usePlan(t, r, decided, repo.UseAction{ParentID: above.ID})
	for _, id := range []repo.ID{waiting.ID, waitingBelow.ID, above.ID} {
		move(t, r, id, repo.TransitionStart, repo.TransitionComplete)
	}
	top := usePlan(t, r, action, repo.UseAction{})
	child := usePlan(t, r, kept, repo.UseAction{ParentID: top.ID})
	done, failed, forever := usePlan(t, r, action, repo.UseAction{}), usePlan(t, r, action, repo.UseAction{}), usePlan(t, r, kept, repo.UseAction{})
	queued := usePlan(t, r, action, repo.UseAction{})
	for _, id := range []repo.ID{top.ID, done.ID, forever.ID} {
		move(t, r, id, repo.TransitionStart, repo.TransitionComplete)
	}
	move(t, r, failed.ID, repo.TransitionStart, repo.TransitionFail)
	tick()
	sweepAway(t, r, done.ID, failed.ID)
	for _, id := range []repo.ID{top.ID, child.ID, forever.ID, queued.ID, waiting.ID, above.ID, waitingBelow.ID} {
		getPlan(t, r, id)
	}
	move(t, r, waiting.ID, repo.TransitionCancel)
	tick()
	sweepAway(t, r, waiting.ID)
	other := usePlan(t, r, action, repo.UseAction{})
	below := usePlan(t, r, kept, repo.UseAction{ParentID: other.ID})
	move(t, r, below.ID, repo.TransitionCancel)
	move(t, r, other.ID, repo.TransitionCancel)
	tick()
	sweepAway(t, r, other.ID, below.ID)
}

// A plan that is queued after its deadline is errored, and no claim takes it.
func testPlanMaxAge(t *testing.T, r repo.Repositories) {
	q, lives := newQueue(t, r), livesOf(r)
	q.action = createAction(t, r, repo.ActionDefinition{Reusable: true, MaxAttempts: 5, MaxAge: time.Microsecond})
	plan := usePlan(t, r, q.action, repo.UseAction{Namespace: q.namespace})
	id := plan.ID
	if plan.Deadline.Sub(plan.CreatedAt) != time.Microsecond {
		t.Errorf("created at %v, the deadline is %v", plan.CreatedAt, plan.Deadline)
	}
	tick()
	wantClaimed(t, q.take(q.claim()))
	await.For(t, "the plan is errored", func() bool {
		sweep(t, r)
		return getPlan(t, r, id).State == repo.PlanErrored
	})
	errored := getPlan(t, r, id)
	if errored.ErrorMessage != "was queued until its deadline" || errored.Attempt != 1 {
		t.Errorf("after its deadline: %+v", errored)
	}
	events := history(t, r, id)
	if last := events[len(events)-1]; last.Transition != repo.TransitionExpire || last.Reason != errored.ErrorMessage || last.From != plan.Stage || last.To != errored.Stage {
		t.Errorf("the history ends with %+v", last)
	}
	if resumed := move(t, r, id, repo.TransitionResume); !resumed.Deadline.IsZero() {
		t.Errorf("resumed, it still has the deadline %v", resumed.Deadline)
	}
	sweep(t, r)
	wantClaimed(t, q.take(q.claim()), id)

	wantAgeSinceDue(t, r, q, plan.CreatedAt.Add(24*time.Hour))

	var expired []repo.ClaimedPlan
	for age := lives.ofLife(time.Second / 2); len(expired) == 0; age *= 2 { // until it is claimed before its deadline
		q.action = createAction(t, r, repo.ActionDefinition{Reusable: true, MaxAttempts: 5, MaxAge: age})
		usePlan(t, r, q.action, repo.UseAction{Namespace: q.namespace})
		expired = q.take(q.claim())
	}
	lives.elapse(t, Aged{Plans: []repo.Plan{expired[0].Plan}})
	await.For(t, "its deadline passes", func() bool {
		return getPlan(t, r, expired[0].Plan.ID).Deadline.Add(20 * time.Millisecond).Before(time.Now())
	})
	release(t, r, expired[0].Lease)
	wantClaimed(t, q.take(q.claim())) // it would be queued again after its deadline
}

// wantAgeSinceDue wants the age of a plan, of a microsecond, to count from when it is due, and not while a delay lasts. Beginning its
// next phase makes it due at once.
func wantAgeSinceDue(t *testing.T, r repo.Repositories, q queue, due time.Time) {
	t.Helper()
	delayed := usePlan(t, r, q.action, repo.UseAction{Namespace: q.namespace, NotBefore: due})
	if delayed.Deadline != due.Add(time.Microsecond) || getPlan(t, r, delayed.ID).Deadline != delayed.Deadline {
		t.Errorf("due at %v, the deadline is %v", due, delayed.Deadline)
	}
	if last := usePlan(t, r, q.action, repo.UseAction{Namespace: q.namespace, NotBefore: time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)}); !last.Deadline.IsZero() {
		t.Errorf("due at the end of time, the deadline is %v", last.Deadline)
	}
	q.action = createAction(t, r, repo.ActionDefinition{Reusable: true, MaxAttempts: 2, MaxAge: time.Hour})
	aged := usePlan(t, r, q.action, repo.UseAction{Namespace: q.namespace})
	for i, delayed := range []repo.Transition{repo.TransitionSnooze, repo.TransitionFail} {
		move(t, r, aged.ID, repo.TransitionStart)
		later, err := r.Plans().Transition(t.Context(), aged.ID, delayed, repo.Cause{Reason: "x", Delay: 48 * time.Hour})
		want := aged.Deadline.Add(48 * time.Hour * time.Duration(i+1))
		if must(t, later, err); later.Deadline != want || getPlan(t, r, aged.ID).Deadline != want {
			t.Errorf("after %s the deadline is %v, was %v", delayed, later.Deadline, aged.Deadline)
		}
	}
	for _, next := range []repo.Transition{repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute, repo.TransitionStart} {
		aged = move(t, r, aged.ID, next)
	}
	if !aged.Deadline.IsZero() || !getPlan(t, r, aged.ID).Deadline.IsZero() {
		t.Errorf("executed, it still has the deadline %v", aged.Deadline)
	}
}
