package effecttest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/effect"
	"github.com/seed-df90f812/agentstore/repo"
)

// testWork: a worker that loses its plan while the call is under way leaves the effect unknown, and the plan's next worker finds out instead
// of calling again.
func testWork(t *testing.T, w *world) {
	action := repo.NewAction{Name: "refund", ActionDefinition: repo.ActionDefinition{Reusable: true, MaxAttempts: 5}}
	if _, err := w.store.Actions().Create(t.Context(), action); err != nil {
		t.Fatal(err)
	}
	plan, err := w.store.Plans().Use(t.Context(), "refund", repo.UseAction{SessionID: w.session})
	if err != nil {
		t.Fatal(err)
	}
	work := func(do func(ctx context.Context, claimed repo.ClaimedPlan) error) {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		claim := repo.Claim{Owner: repo.NewID().String(), Actions: []string{"refund"}}
		if err := repo.Work(ctx, w.store, claim, func(ctx context.Context, claimed repo.ClaimedPlan) error {
			defer stop()
			return do(ctx, claimed)
		}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	call := plan.ID.String()
	work(func(ctx context.Context, claimed repo.ClaimedPlan) error {
		_, err := effect.Once(ctx, w.store, w.key(call), arguments, effect.Policy{}, func(ctx context.Context, e effect.Effect) (json.RawMessage, error) {
			_, _ = w.do(ctx, e)
			if _, err := w.store.Plans().Transition(t.Context(), plan.ID, repo.TransitionSnooze, repo.Cause{}); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		lost, is := errors.AsType[*repo.LeaseLostError](err)
		if w.is(err, effect.StateUnknown); !is || lost.Fence != claimed.Lease.Fence {
			t.Errorf("%+v, %v", lost, err)
		}
		return err
	})
	work(func(ctx context.Context, _ repo.ClaimedPlan) error {
		outcome, err := effect.Once(ctx, w.store, w.key(call), arguments, effect.Policy{Reconcile: func(context.Context, effect.Effect) (effect.Answer, error) {
			return effect.Happened(json.RawMessage(`{"receipt":1}`)), nil
		}}, w.do)
		if err != nil || string(outcome.Result) != `{"receipt":1}` {
			t.Errorf("%+v, %v", outcome, err)
		}
		return err
	})
	w.called(1)
}
