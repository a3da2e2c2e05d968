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
	claim := repo.Claim{Owner: "worker-3/" + repo.NewID().String(), TTL: time.Minute}
	var done []repo.ID
	err = repo.Work(ctx, store, claim, func(_ context.Context, claimed repo.ClaimedPlan) error {
		fmt.Println("tidying", claimed.Plan.Description)
		if done = append(done, claimed.Plan.ID); len(done) == 2 {
			cancel() // the end of this example
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
