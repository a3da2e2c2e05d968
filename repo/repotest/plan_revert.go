package repotest

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// toExecute leads from strategize/queued to execute/queued, where a cancelled plan
// can be reverted.
var toExecute = []repo.Transition{repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute}

// family creates a plan, its child and its grandchild, all at execute/queued.
func family(t *testing.T, r repo.Repositories, action string) (root, child, grandchild repo.ID) {
	t.Helper()
	root = usePlan(t, r, action, repo.UseAction{}).ID
	child = usePlan(t, r, action, repo.UseAction{ParentID: root}).ID
	grandchild = usePlan(t, r, action, repo.UseAction{ParentID: child}).ID
	for _, id := range []repo.ID{root, child, grandchild} {
		move(t, r, id, toExecute...)
	}
	return root, child, grandchild
}

// wantRefusedBelow checks that the child cannot be reverted, because of the stage
// of its parent, and stays unchanged.
func wantRefusedBelow(t *testing.T, r repo.Repositories, parentID, childID repo.ID) {
	t.Helper()
	parent, before, events := getPlan(t, r, parentID), getPlan(t, r, childID), len(history(t, r, childID))
	_, err := r.Plans().Transition(t.Context(), childID, repo.TransitionRevert, repo.Cause{})
	wantTransitionConflict(t, err, repo.TransitionConflictError{
		PlanID: parentID, Child: childID, Transition: repo.TransitionRevert, Stage: parent.Stage, Version: parent.Version,
	})
	wantPlan(t, getPlan(t, r, childID), before)
	if got := len(history(t, r, childID)); got != events {
		t.Errorf("%d events, want %d", got, events)
	}
}

// A cancelled child becomes live again only if its parent is live: a tree is
// reverted from its root down.
func testRevertBelowCancelled(t *testing.T, r repo.Repositories) {
	root, child, grandchild := family(t, r, plain(t, r))
	move(t, r, root, repo.TransitionCancel)
	wantRefusedBelow(t, r, root, child)
	wantRefusedBelow(t, r, child, grandchild)

	move(t, r, root, repo.TransitionRevert)
	wantRefusedBelow(t, r, child, grandchild)
	move(t, r, child, repo.TransitionRevert)
	move(t, r, grandchild, repo.TransitionRevert)
}

// An applied parent is not live either.
func testRevertBelowApplied(t *testing.T, r repo.Repositories) {
	root, child, grandchild := family(t, r, plain(t, r))
	move(t, r, child, repo.TransitionCancel) // and the grandchild with it
	move(t, r, root, repo.TransitionStart, repo.TransitionComplete, repo.TransitionApply, repo.TransitionStart, repo.TransitionComplete)
	wantRefusedBelow(t, r, root, child)
	wantRefusedBelow(t, r, child, grandchild)
}

// A child that was cancelled alone can be reverted if its parent is live; one that
// is live can be reverted whatever its parent is.
func testRevertBelowLive(t *testing.T, r repo.Repositories) {
	root, child, grandchild := family(t, r, plain(t, r))
	move(t, r, grandchild, repo.TransitionCancel, repo.TransitionRevert)
	move(t, r, root, repo.TransitionStart, repo.TransitionComplete, repo.TransitionApply, repo.TransitionStart, repo.TransitionComplete)
	if got := move(t, r, child, repo.TransitionRevert); got.ReversionCount != 1 {
		t.Errorf("reverted is %+v", got)
	}
}

// If a tree is cancelled while its cancelled plans are reverted, none stays live.
func testRaceRevertAndCancel(t *testing.T, store repo.Store) {
	name := plain(t, store)
	revert := func(id repo.ID) {
		_, err := store.Plans().Transition(t.Context(), id, repo.TransitionRevert, repo.Cause{})
		if err != nil && !errors.Is(err, repo.ErrConflict) {
			t.Error(err)
		}
	}
	for range 20 {
		root, child, grandchild := family(t, store, name)
		move(t, store, child, repo.TransitionCancel)
		together(5, func(worker int) {
			switch worker {
			case 0:
				if _, err := store.Plans().Transition(t.Context(), root, repo.TransitionCancel, repo.Cause{Reason: "x"}); err != nil {
					t.Error(err)
				}
			case 1, 2:
				revert(child)
				revert(grandchild)
			default:
				revert(grandchild)
			}
		})
		for _, id := range []repo.ID{root, child, grandchild} {
			plan := getPlan(t, store, id)
			if plan.Live() {
				t.Errorf("the plan at depth %d is at %v", plan.Depth, plan.Stage)
			}
			if events := history(t, store, id); int64(len(events)) != plan.Version {
				t.Errorf("%d events, version %d", len(events), plan.Version)
			}
		}
	}
}
