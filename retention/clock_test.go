package retention_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/retention"
)

// One of the two clocks, the store's and this machine's, is an hour off. What is younger than promised stays, and what is older by both goes.
func TestClocksApart(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} {
		clock := memory.NewClock(time.Now().Add(off - 3*time.Hour))
		store := memory.NewWith(memory.Options{Clock: clock})
		old := session(t, store, repo.NewSession{}, 1)
		clock.Advance(3 * time.Hour)
		young := session(t, store, repo.NewSession{}, 1)
		policy := retention.Policy{Sessions: map[string]time.Duration{repo.DefaultNamespace: 30 * time.Minute}}
		report, err := retention.Run(t.Context(), store, policy)
		if want := (retention.Report{Sessions: 1, Messages: 1}); err != nil || report != want {
			t.Errorf("the store's clock is off by %v: %+v, %v", off, report, err)
		}
		if _, err := store.Sessions().Get(t.Context(), old); !errors.Is(err, repo.ErrNotFound) {
			t.Error(err)
		}
		if _, err := store.Sessions().Get(t.Context(), young); err != nil {
			t.Error(err)
		}
	}
}

// A plan that was listed as cancelled long ago is begun again, and cancelled now, before it is its turn.
func TestPlanThatMovesMeanwhile(t *testing.T) {
	t.Parallel()
	clock := memory.NewClock(time.Now().Add(-2 * time.Hour))
	store := memory.NewWith(memory.Options{Clock: clock})
	if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: "a", ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		t.Fatal(err)
	}
	plan, err := store.Plans().Use(t.Context(), "a", repo.UseAction{})
	if err != nil {
		t.Fatal(err)
	}
	move := func(transitions ...repo.Transition) error {
		var err error
		for _, transition := range transitions {
			if err == nil {
				_, err = store.Plans().Transition(t.Context(), plan.ID, transition, repo.Cause{Reason: "x"})
			}
		}
		return err
	}
	if err := move(repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute, repo.TransitionCancel); err != nil {
		t.Fatal(err)
	}
	clock.Advance(10 * time.Minute)
	policy := retention.Policy{Plans: map[string]time.Duration{repo.DefaultNamespace: time.Minute}}
	for _, policy.DryRun = range []bool{true, false} {
		moved := false
		policy.Wait = func(context.Context) error {
			if moved {
				return nil
			}
			moved = true
			return move(repo.TransitionRevert, repo.TransitionStart, repo.TransitionComplete, repo.TransitionExecute, repo.TransitionCancel)
		}
		if report, err := retention.Run(t.Context(), store, policy); err != nil || report != (retention.Report{InUse: 1}) {
			t.Errorf("dry run %t: %+v, %v", policy.DryRun, report, err)
		}
		clock.Advance(10 * time.Minute)
	}
	if _, err := store.Plans().Get(t.Context(), plan.ID); err != nil {
		t.Error(err)
	}
}

// What a view cannot remove is refused, and not left in silence.
func TestPolicyOfViews(t *testing.T) {
	t.Parallel()
	store := open(t)
	for field, policy := range map[string]retention.Policy{"turns": {Turns: time.Hour}, "audit": {Audit: time.Hour}} {
		_, err := retention.Run(t.Context(), store.In("tenant"), policy)
		if invalid, is := errors.AsType[*repo.InvalidError](err); !is || invalid.Field != field {
			t.Errorf("%s in a view: %v", field, err)
		}
		if _, err := retention.Run(t.Context(), store, policy); err != nil {
			t.Error(err)
		}
	}
}
