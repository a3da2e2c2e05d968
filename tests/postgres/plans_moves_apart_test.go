package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A caller may change the plan that a transition returns: callers that asked in the same
// group have others.
func TestTransitionsShareNoMemory(t *testing.T) {
	t.Parallel()
	store := process(t, pgtest.NewDatabase(t), func(c *pgxpool.Config) { c.MaxConns = 2 })
	claimed := claimMany(t, store, "queue", 2)
	step := int64(7)
	for _, c := range claimed {
		if _, err := store.Plans().Progress(t.Context(), c.Plan.ID, repo.Progress{CompletedStep: &step}); err != nil {
			t.Fatal(err)
		}
		for _, transition := range []repo.Transition{repo.TransitionComplete, repo.TransitionExecute} {
			if _, err := store.Plans().Transition(t.Context(), c.Plan.ID, transition, repo.Cause{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 20 {
		var running sync.WaitGroup
		for n := range 40 {
			running.Go(func() { // which changes nothing: it is queued already
				plan, err := store.Plans().Transition(t.Context(), claimed[n%2].Plan.ID, repo.TransitionExecute, repo.Cause{})
				if err != nil || plan.LastCompletedStep == nil || *plan.LastCompletedStep != step || string(plan.AutomationSnapshot) != "{}" {
					t.Errorf("%+v, %v", plan, err)
					return
				}
				*plan.LastCompletedStep++
				plan.AutomationSnapshot[0] = '['
			})
		}
		running.Wait()
	}
}

// If the context ends before anything is sent that writes, nothing is written, and the error
// says so: also in a group that goes on for others.
func TestTransitionsGivenUpUnsent(t *testing.T) {
	t.Parallel()
	store := process(t, pgtest.NewDatabase(t), func(c *pgxpool.Config) { c.MaxConns = 1 })
	claimed := claimMany(t, store, "queue", 4)
	conn, err := store.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var leaving, staying sync.WaitGroup
	for n, c := range claimed {
		running, ctx := &staying, ctx
		if n%2 > 0 {
			running = &leaving
		} else {
			ctx = t.Context()
		}
		running.Go(func() {
			_, err := store.Plans().Transition(ctx, c.Plan.ID, repo.TransitionComplete, repo.Cause{Fence: c.Lease.Fence})
			if n%2 == 0 && err != nil || n%2 > 0 && (!errors.Is(err, context.Canceled) || errors.Is(err, repo.ErrUnknownOutcome)) {
				t.Errorf("%d: %v", n, err)
			}
		})
	}
	await.For(t, "a group waits for the connection", func() bool {
		for _, c := range store.Stats().Committers {
			if c.Kind == "transition" {
				return c.Groups > 0
			}
		}
		return false
	})
	cancel()
	leaving.Wait()
	conn.Release()
	staying.Wait()
	states := ""
	for _, c := range claimed {
		plan, err := store.Plans().Get(t.Context(), c.Plan.ID)
		if err != nil {
			t.Fatal(err)
		}
		states += fmt.Sprint(plan.State, " ")
	}
	if want := "complete processing complete processing "; states != want {
		t.Errorf("the plans are %s, want %s", states, want)
	}
}
