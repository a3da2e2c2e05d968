package agentstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// work does one plan after another until ctx ends.
func work(ctx context.Context, store repo.Store, claim repo.Claim, do func(context.Context, repo.Plan) error) error {
	for {
		claimed, err := store.Plans().Claim(ctx, claim)
		if err != nil {
			return err
		}
		for _, c := range claimed {
			// Renews the lease; its context ends when somebody cancels or takes the plan.
			held, err := repo.Hold(ctx, store, repo.NewLease{Key: c.Lease.Key, Owner: claim.Owner, TTL: claim.TTL})
			if errors.Is(err, repo.ErrConflict) {
				continue // it expired before it was begun
			} else if err != nil {
				return err
			}
			transition, cause := repo.TransitionComplete, repo.Cause{Actor: claim.Owner, Fence: held.Lease().Token}
			if err := do(held.Context(), c.Plan); err != nil {
				transition, cause.Reason = repo.TransitionFail, err.Error()
			}
			if held.Context().Err() == nil {
				_, err = store.Plans().Transition(ctx, c.Plan.ID, transition, cause)
			}
			_ = held.Release(context.WithoutCancel(ctx)) // gives back what was not moved
			if err != nil && !errors.Is(err, repo.ErrConflict) {
				return err
			}
		}
	}
}

// A worker that waits for plans, and does them one by one.
func Example_worker() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store, err := agentstore.Open(ctx, exampleURL, agentstore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()

	_, err = store.Actions().Create(ctx, repo.NewAction{Name: "tidy", ActionDefinition: repo.ActionDefinition{Reusable: true}})
	if err != nil {
		log.Fatal(err)
	}
	for _, what := range []string{"the desk", "the kitchen"} {
		if _, err := store.Plans().Use(ctx, "tidy", repo.UseAction{Description: what}); err != nil {
			log.Fatal(err)
		}
	}
	claim := repo.Claim{Owner: "worker-3/" + repo.NewID().String(), TTL: time.Minute, Wait: true}
	var done []repo.ID
	err = work(ctx, store, claim, func(_ context.Context, plan repo.Plan) error {
		if len(done) == 2 {
			cancel() // the end of this example; the plan is given back
			return nil
		}
		fmt.Println("tidying", plan.Description)
		if done = append(done, plan.ID); len(done) == 2 {
			_, err := store.Plans().Use(ctx, "tidy", repo.UseAction{Description: "the attic"})
			return err
		}
		return nil
	})
	fmt.Println(errors.Is(err, context.Canceled))
	plan, err := store.Plans().Get(context.Background(), done[0])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(plan.State)
	// Output:
	// tidying the desk
	// tidying the kitchen
	// true
	// complete
}
