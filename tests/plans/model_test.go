package plans

import (
	"errors"
	"flag"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// model is the expected state of one plan.
type model struct {
	id, parent repo.ID
	repo.Stage
	version    int64
	reversions int
	message    string
	events     []repo.PlanEvent // without the database's fields
}

// to implements the lifecycle again, with no table of states.
func (m *model) to(transition repo.Transition) (to repo.Stage, allowed bool) {
	at := m.Stage
	in := func(state repo.PlanState) repo.Stage { return repo.Stage{Phase: at.Phase, State: state} }
	ended := at.State == repo.PlanApplied || at.State == repo.PlanCancelled
	switch transition {
	case repo.TransitionStart:
		return in(repo.PlanProcessing), at.State == repo.PlanQueued
	case repo.TransitionComplete:
		if at.Phase == repo.PhaseApply {
			return in(repo.PlanApplied), at.State == repo.PlanProcessing
		}
		return in(repo.PlanComplete), at.State == repo.PlanProcessing
	case repo.TransitionFail:
		return in(repo.PlanErrored), at.State == repo.PlanProcessing
	case repo.TransitionConstrain:
		return in(repo.PlanConstrained), at == repo.Stage{Phase: repo.PhaseApply, State: repo.PlanProcessing}
	case repo.TransitionSnooze:
		return in(repo.PlanQueued), at.State == repo.PlanProcessing
	case repo.TransitionResume:
		return in(repo.PlanQueued), at.State == repo.PlanErrored
	case repo.TransitionCancel:
		return in(repo.PlanCancelled), !ended
	case repo.TransitionRevert:
		return repo.Stage{Phase: repo.PhaseStrategize, State: repo.PlanQueued},
			at.Phase != repo.PhaseStrategize && at.State != repo.PlanApplied || at.Phase == repo.PhaseStrategize && at.State == repo.PlanErrored
	case repo.TransitionExecute:
		if at.Phase != repo.PhaseStrategize {
			return at, true
		}
		return repo.Stage{Phase: repo.PhaseExecute, State: repo.PlanQueued}, at.State == repo.PlanComplete
	default: // apply
		if at.Phase == repo.PhaseApply {
			return at, true
		}
		return repo.Stage{Phase: repo.PhaseApply, State: repo.PlanQueued}, at.Phase == repo.PhaseExecute && at.State == repo.PlanComplete
	}
}

// move moves the model, and appends an event.
func (m *model) move(transition repo.Transition, to repo.Stage, reason string) {
	m.version++
	m.events = append(m.events, repo.PlanEvent{
		PlanID: m.id, Version: m.version, Transition: transition, From: m.Stage, To: to, Actor: "rapid", Reason: reason,
	})
	m.Stage = to
	switch transition {
	case repo.TransitionFail:
		m.message = reason
	case repo.TransitionCancel:
	default:
		m.message = ""
	}
}

type models struct {
	store  repo.Store
	action string
	plans  []*model
}

func (m *models) pick(t *rapid.T) *model {
	if len(m.plans) == 0 {
		t.Skip("no plan yet")
	}
	return rapid.SampledFrom(m.plans).Draw(t, "plan")
}

func (m *models) use(t *rapid.T) {
	use := repo.UseAction{Key: repo.NewID().String(), Actor: "rapid"}
	if len(m.plans) > 0 && rapid.Bool().Draw(t, "child") {
		parent := m.pick(t)
		use.ParentID = parent.id
		if parent.State == repo.PlanApplied || parent.State == repo.PlanCancelled {
			_, err := m.store.Plans().Use(t.Context(), m.action, use)
			wantConflict(t, err, parent, repo.TransitionUse, 0)
			return
		}
	}
	made := &model{parent: use.ParentID}
	for time := range rapid.IntRange(1, 2).Draw(t, "times") {
		plan, err := m.store.Plans().Use(t.Context(), m.action, use)
		if err != nil {
			if _, deep := errors.AsType[*repo.LimitExceededError](err); deep {
				return
			}
			t.Fatal(err)
		}
		if time > 0 && plan.ID != made.id {
			t.Fatalf("the use made the plan %s, and then %s", made.id, plan.ID)
		}
		made.id = plan.ID
	}
	made.move(repo.TransitionUse, repo.Stage{Phase: repo.PhaseStrategize, State: repo.PlanQueued}, "")
	m.plans = append(m.plans, made)
}

func (m *models) transition(t *rapid.T) {
	plan := m.pick(t)
	among := rules.Transitions()
	if rapid.Bool().Draw(t, "allowed") { // otherwise few plans would get far
		among = slices.DeleteFunc(among, func(transition repo.Transition) bool {
			to, allowed := plan.to(transition)
			return !allowed || to == plan.Stage
		})
	}
	if len(among) == 0 {
		t.Skip("the plan has ended")
	}
	transition := rapid.SampledFrom(among).Draw(t, "transition")
	cause := repo.Cause{Actor: "rapid", Reason: rapid.SampledFrom([]string{"one", "two"}).Draw(t, "reason")}
	cause.Version = max(0, plan.version-rapid.Int64Range(-1, 3).Draw(t, "behind"))
	if rapid.IntRange(0, 3).Draw(t, "any version") > 0 {
		cause.Version = 0
	}
	got, err := m.store.Plans().Transition(t.Context(), plan.id, transition, cause)
	to, allowed := plan.to(transition)
	switch {
	case !allowed || cause.Version != 0 && cause.Version != plan.version:
		wantConflict(t, err, plan, transition, cause.Version)
		return
	case to == plan.Stage:
		if err != nil {
			t.Fatal(err)
		}
	case transition == repo.TransitionRevert && plan.reversions == limits.MaxReversions:
		if _, ok := errors.AsType[*repo.LimitExceededError](err); !ok {
			t.Fatalf("the reversion above the limit gave %v", err)
		}
		return
	case transition == repo.TransitionRevert && plan.State == repo.PlanCancelled && !m.live(plan.parent):
		conflict, ok := errors.AsType[*repo.TransitionConflictError](err)
		if !ok || conflict.PlanID != plan.parent || conflict.Child != plan.id {
			t.Fatalf("the reversion below a plan that is not live gave %v", err)
		}
		return
	default:
		if err != nil {
			t.Fatal(err)
		}
		if transition == repo.TransitionRevert {
			plan.reversions++
		}
		plan.move(transition, to, cause.Reason)
		if transition == repo.TransitionCancel {
			m.cancelBelow(plan.id, cause.Reason)
		}
	}
	wantPlan(t, got, plan)
}

// live reports whether the parent of a plan, if any, is neither applied nor
// cancelled.
func (m *models) live(parent repo.ID) bool {
	for _, plan := range m.plans {
		if plan.id == parent && (plan.State == repo.PlanApplied || plan.State == repo.PlanCancelled) {
			return false
		}
	}
	return true
}

// belowCancelled reports whether an ancestor of the plan is cancelled.
func (m *models) belowCancelled(plan *model) bool {
	for _, above := range m.plans {
		if above.id == plan.parent {
			return above.State == repo.PlanCancelled || m.belowCancelled(above)
		}
	}
	return false
}

// cancelBelow cancels all live descendants, including those below plans that are not
// live.
func (m *models) cancelBelow(id repo.ID, reason string) {
	for _, child := range m.plans {
		if child.parent != id {
			continue
		}
		if to, allowed := child.to(repo.TransitionCancel); allowed {
			child.move(repo.TransitionCancel, to, reason)
		}
		m.cancelBelow(child.id, reason)
	}
}

// check compares a plan and its history with the expected ones.
func (m *models) check(t *rapid.T) {
	if len(m.plans) == 0 {
		return
	}
	plan := m.pick(t)
	stored, err := m.store.Plans().Get(t.Context(), plan.id)
	if err != nil {
		t.Fatal(err)
	}
	wantPlan(t, stored, plan)
	if stored.Live() && m.belowCancelled(plan) {
		t.Fatalf("a live plan below a cancelled one: %+v", stored)
	}
	events, err := m.store.Plans().History(t.Context(), plan.id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != len(plan.events) {
		t.Fatalf("%d events, want %d", len(events), len(plan.events))
	}
	for i, want := range plan.events {
		want.CreatedAt = events[i].CreatedAt
		if events[i] != want {
			t.Fatalf("event %d is %+v, want %+v", i, events[i], want)
		}
	}
}

func wantPlan(t *rapid.T, got repo.Plan, want *model) {
	t.Helper()
	cancelled := got.State == repo.PlanCancelled
	if got.ID != want.id || got.Stage != want.Stage || got.Version != want.version || got.ReversionCount != want.reversions ||
		got.ErrorMessage != want.message || got.ParentID != want.parent ||
		cancelled != !got.CancelledAt.IsZero() || cancelled != (got.CancelReason != "") {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func wantConflict(t *rapid.T, err error, plan *model, transition repo.Transition, expected int64) {
	t.Helper()
	if expected == plan.version {
		expected = 0 // the stage is why
	}
	got, ok := errors.AsType[*repo.TransitionConflictError](err)
	if !ok || *got != (repo.TransitionConflictError{PlanID: plan.id, Transition: transition, Stage: plan.Stage, Version: plan.version, Expected: expected}) {
		t.Fatalf("%s gave %v, want a conflict at %v, version %d", transition, err, plan.Stage, plan.version)
	}
}

// fewerChecks makes fewer checks than rapid does by itself.
var fewerChecks = sync.OnceFunc(func() {
	if !pgtest.Full() {
		_ = flag.Set("rapid.checks", "30") // it exists
	}
})

// The store and the model agree after any sequence of calls.
func TestModel(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	action := newAction(t, store)
	fewerChecks()
	rapid.Check(t, func(t *rapid.T) {
		m := &models{store: store, action: action}
		// The test is about moving: use is one of four.
		t.Repeat(map[string]func(*rapid.T){"use": m.use, "move": m.transition, "move again": m.transition, "move on": m.transition, "": m.check})
	})
}
