package repotest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func planRaceTests() []test {
	return []test{
		{"Rollback", testPlanTxRollback},
		{"Transitions", testRaceTransitions},
		{"CreateAction", testRaceCreateAction},
		{"Use", testRaceUse},
		{"TakenKey", testRaceTakenKey},
		{"NotReusable", testRaceNotReusable},
		{"UpdateAction", testRaceUpdateAction},
		{"SpawnAndCancel", testRaceSpawnAndCancel},
		{"RevertAndCancel", testRaceRevertAndCancel},
		{"LinkAndDelete", testRaceLinkAndDelete},
	}
}

// Of concurrent callers of one transition, one moves the plan, and is told so. The others get a
// conflict or, if the lifecycle allows it and they expect no version, the unchanged plan.
// Guarantee: Plans: Of several callers that attempt a transition one makes it.
func testRaceTransitions(t *testing.T, store repo.Store) {
	for _, versioned := range []bool{false, true} {
		raceTransitions(t, store, versioned)
	}
}

func raceTransitions(t *testing.T, store repo.Store, versioned bool) {
	name := plain(t, store)
	all := routes()
	stage := func(phase repo.Phase, state repo.PlanState) []repo.Transition {
		return all[repo.Stage{Phase: phase, State: state}]
	}
	for transition, route := range map[repo.Transition][]repo.Transition{
		repo.TransitionStart:     stage(repo.PhaseStrategize, repo.PlanQueued),
		repo.TransitionComplete:  stage(repo.PhaseApply, repo.PlanProcessing),
		repo.TransitionFail:      stage(repo.PhaseExecute, repo.PlanProcessing),
		repo.TransitionExecute:   stage(repo.PhaseStrategize, repo.PlanComplete),
		repo.TransitionApply:     stage(repo.PhaseExecute, repo.PlanComplete),
		repo.TransitionConstrain: stage(repo.PhaseApply, repo.PlanProcessing),
		repo.TransitionRevert:    stage(repo.PhaseExecute, repo.PlanErrored),
		repo.TransitionResume:    stage(repo.PhaseExecute, repo.PlanErrored),
		repo.TransitionCancel:    stage(repo.PhaseExecute, repo.PlanQueued),
	} {
		id := usePlan(t, store, name, repo.UseAction{}).ID
		move(t, store, id, route...)
		before := getPlan(t, store, id)
		to, _ := rules.To(transition, before.Stage)
		stays := false
		if then, allowed := rules.To(transition, to); allowed && then == to {
			stays = true
		}
		expected := int64(0)
		if versioned {
			expected, stays = before.Version, false
		}
		var moved, there, stayed counter
		together(workers, func(worker int) {
			cause := causeOf(transition)
			cause.Actor, cause.Version = fmt.Sprint(worker), expected
			got, err := store.Plans().Transition(t.Context(), id, transition, cause)
			switch {
			case err == nil && got.Version == before.Version+1 && got.Moved:
				moved.add()
			case err == nil && got.Version == before.Version+1 && stays:
				there.add()
			case err == nil:
				t.Errorf("%s gave version %d after %d", transition, got.Version, before.Version)
			case errors.Is(err, repo.ErrConflict) && !stays:
				wantTransitionConflict(t, err, repo.TransitionConflictError{PlanID: id, Transition: transition, Stage: to, Version: before.Version + 1, Expected: expected})
				stayed.add()
			default:
				t.Errorf("%s: %v", transition, err)
			}
		})
		after := getPlan(t, store, id)
		if after.Stage != to || after.Version != before.Version+1 || int64(len(history(t, store, id))) != after.Version {
			t.Errorf("%s: at %v, version %d, %d events", transition, after.Stage, after.Version, len(history(t, store, id)))
		}
		if moved.get() != 1 || stays && there.get() != workers-1 {
			t.Errorf("%s: %d callers have moved the plan, %d found it there, %d got a conflict", transition, moved.get(), there.get(), stayed.get())
		}
	}
}

func testRaceCreateAction(t *testing.T, store repo.Store) {
	name := actionName(store)
	var winners acknowledgedActors
	together(workers, func(worker int) {
		description := fmt.Sprint(worker % 4)
		created, err := store.Actions().Create(t.Context(), repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Description: description}})
		if err == nil {
			winners.add(created.Description)
			return
		}
		wantActionConflict(t, err, "description")
	})
	stored, err := store.Actions().Get(t.Context(), name)
	must(t, stored, err)
	if len(winners.actors) != workers/4 {
		t.Errorf("%d callers got the action, want %d", len(winners.actors), workers/4)
	}
	for _, description := range winners.actors {
		if description != stored.Description {
			t.Errorf("a caller got %q, stored is %q", description, stored.Description)
		}
	}
}

// One use, repeated concurrently, makes one plan.
// Guarantee: Plans: However often a use with a key is repeated, there is one plan.
func testRaceUse(t *testing.T, store repo.Store) {
	reusable, once := plain(t, store), createAction(t, store, repo.ActionDefinition{})
	parent := usePlan(t, store, reusable, repo.UseAction{}).ID
	for name, use := range map[string]repo.UseAction{
		"in a namespace": {}, "of an action that is not reusable": {},
		"in a session": {SessionID: create(t, store.Sessions())}, "below a plan": {ParentID: parent},
	} {
		use.Key, use.Namespace = "k", randomName()
		action := reusable
		if name == "of an action that is not reusable" {
			action = once
		}
		together(workers, func(int) {
			plan, err := store.Plans().Use(t.Context(), action, use)
			if err != nil || plan.Version != 1 {
				t.Errorf("%s: %s, %v", name, plan.ID, err)
			}
		})
		all := walkPlans(t, store, repo.PlanFilter{Namespace: use.Namespace}, 10)
		if len(all) != 1 || len(history(t, store, all[0].ID)) != 1 {
			t.Errorf("%s: %d plans were made", name, len(all))
		}
	}
}

// Of different uses that race for a key, one makes the plan. The others leave their
// actions as they are.
func testRaceTakenKey(t *testing.T, store repo.Store) {
	for range 5 {
		var actions [workers]string
		for i := range actions {
			actions[i] = createAction(t, store, repo.ActionDefinition{})
		}
		use := repo.UseAction{Namespace: spaceOf(store), Key: "k"}
		var made [workers]bool
		together(workers, func(worker int) {
			_, err := store.Plans().Use(t.Context(), actions[worker], use)
			if made[worker] = err == nil; err != nil {
				_, _ = wantError[*repo.ExistsError](t, err, repo.ErrConflict)
			}
		})
		plans := walkPlans(t, store, repo.PlanFilter{Namespace: use.Namespace}, 10)
		if len(plans) != 1 {
			t.Fatalf("%d plans were made", len(plans))
		}
		for i, name := range actions {
			action, err := store.Actions().Get(t.Context(), name)
			used := must(t, action, err).Name == plans[0].Action
			if made[i] != used || action.Archived != used {
				t.Errorf("archived: %t; its use made a plan: %t, %t", action.Archived, made[i], used)
			}
		}
	}
}

func testRaceNotReusable(t *testing.T, store repo.Store) {
	name, namespace := createAction(t, store, repo.ActionDefinition{}), randomName()
	var made counter
	together(workers, func(int) {
		_, err := store.Plans().Use(t.Context(), name, repo.UseAction{Namespace: namespace})
		if err == nil {
			made.add()
			return
		}
		_, _ = wantError[*repo.RefusedError](t, err, repo.ErrConflict)
	})
	if all := walkPlans(t, store, repo.PlanFilter{Namespace: namespace}, 10); made.get() != 1 || len(all) != 1 {
		t.Errorf("%d uses succeeded, %d plans", made.get(), len(all))
	}
}

// Of updates that expect the same version, one succeeds, so that none is lost.
func testRaceUpdateAction(t *testing.T, store repo.Store) {
	name := plain(t, store)
	var won counter
	together(8, func(worker int) {
		for range 10 {
			stored, err := store.Actions().Get(t.Context(), name)
			if err != nil {
				t.Error(err)
				return
			}
			definition := stored.ActionDefinition
			definition.Invariants = append(definition.Invariants, fmt.Sprint(worker))
			_, err = store.Actions().Update(t.Context(), name, stored.Version, definition)
			if err == nil {
				won.add()
				continue
			}
			wantActionConflict(t, err, "version")
		}
	})
	stored, err := store.Actions().Get(t.Context(), name)
	if must(t, stored, err); len(stored.Invariants) != won.get() || stored.Version != int64(won.get())+1 {
		t.Errorf("%d updates succeeded, %d are stored, version %d", won.get(), len(stored.Invariants), stored.Version)
	}
}

// A child that is spawned while its ancestors are cancelled is cancelled with them,
// or refused: none stays live.
// Guarantee: Plans: A cancelled plan has no live child.
func testRaceSpawnAndCancel(t *testing.T, store repo.Store) {
	name := plain(t, store)
	for range 5 {
		namespace := spaceOf(store)
		root := usePlan(t, store, name, repo.UseAction{Namespace: namespace})
		child := usePlan(t, store, name, repo.UseAction{ParentID: root.ID})
		together(9, func(worker int) {
			if worker == 8 {
				if _, err := store.Plans().Transition(t.Context(), root.ID, repo.TransitionCancel, repo.Cause{Reason: "x"}); err != nil {
					t.Error(err)
				}
				return
			}
			parent := child.ID
			for range 5 {
				plan, err := store.Plans().Use(t.Context(), name, repo.UseAction{ParentID: parent})
				if err != nil {
					_, _ = wantError[*repo.TransitionConflictError](t, err, repo.ErrConflict)
					return
				}
				if _, err := store.Plans().Transition(t.Context(), plan.ID, repo.TransitionStart, repo.Cause{}); err != nil && !errors.Is(err, repo.ErrConflict) {
					t.Error(err)
				}
				if worker%2 == 0 {
					parent = plan.ID
				}
			}
		})
		for _, plan := range walkPlans(t, store, repo.PlanFilter{Namespace: namespace}, 100) {
			if plan.State != repo.PlanCancelled {
				t.Errorf("a plan at depth %d is at %v", plan.Depth, plan.Stage)
			}
			if events := history(t, store, plan.ID); int64(len(events)) != plan.Version {
				t.Errorf("%d events, version %d", len(events), plan.Version)
			}
		}
	}
}

// A link that races with the deletion of its session is counted by it, or refused.
func testRaceLinkAndDelete(t *testing.T, store repo.Store) {
	name := plain(t, store)
	for range 5 {
		session := create(t, store.Sessions())
		var linked counter
		var deleted repo.DeletedSession
		together(9, func(worker int) {
			if worker == 8 {
				for linked.get() == 0 && !t.Failed() {
					tick()
				}
				var err error
				if deleted, err = store.Sessions().Delete(t.Context(), session); err != nil {
					t.Error(err)
				}
				return
			}
			for range 5 {
				_, err := store.Plans().Use(t.Context(), name, repo.UseAction{SessionID: session})
				if err != nil {
					wantNotFound(t, err, "session", session)
					return
				}
				linked.add()
			}
		})
		if len(deleted.Plans) != linked.get() {
			t.Errorf("%d plans lost the session, %d were linked", len(deleted.Plans), linked.get())
		}
	}
}
