// The command worker does background work by plans: an action, three uses of it, and a worker, until it is interrupted. It
// keeps them in memory, or with DATABASE_URL in PostgreSQL, where any number of these processes share them. It may be copied.
//
//	go run ./examples/worker
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

const action = "report"

// counters is a scope that all processes share.
var counters = repo.Scope{Name: "reports"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err) //nolint:gocritic // the process ends, and with it what stop would free
	}
}

func run(ctx context.Context) error {
	store, err := agentstore.Open(ctx, cmp.Or(os.Getenv("DATABASE_URL"), "memory://worker"), agentstore.Options{Migrate: true})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	if err := queue(ctx, store); err != nil {
		return err
	}
	// The owner is one worker in one run of its process. If it is killed, another worker has its plan after the TTL.
	claim := repo.Claim{Owner: "worker " + repo.NewID().String(), Actions: []string{action}, TTL: 10 * time.Second}
	err = repo.Work(ctx, store, claim, func(ctx context.Context, claimed repo.ClaimedPlan) error {
		return report(ctx, store, claimed) // after an error the plan is due again in a second
	})
	if errors.Is(err, context.Canceled) {
		return nil // the worker was interrupted, and its plan is queued again
	}
	return err
}

// queue makes the action and its plans. A repeated use has the same key, and returns the plan that is there.
func queue(ctx context.Context, store repo.Store) error {
	_, err := store.Actions().Create(ctx, repo.NewAction{Name: action, ActionDefinition: repo.ActionDefinition{
		Reusable: true, Phases: []repo.Phase{repo.PhaseExecute}, MaxAttempts: 3,
		Arguments: []repo.Argument{{Name: "customer", Type: repo.ArgumentString, Required: true}},
	}})
	if err != nil && !errors.Is(err, repo.ErrConflict) { // another process has made the action
		return err
	}
	run := repo.NewID().String() // a service takes the id of its request
	for _, customer := range []string{"Ada", "Bob", "Eve"} {
		value, _ := json.Marshal(customer)
		_, err := store.Plans().Use(ctx, action, repo.UseAction{
			Key: repo.JoinKey(run, customer), Arguments: []repo.ArgumentValue{{Name: "customer", Value: value}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// report is the work of a plan. It counts the report and completes the plan in one transaction: so each report counts once, even
// if a worker was taken for dead and goes on beside its successor.
func report(ctx context.Context, store repo.Store, claimed repo.ClaimedPlan) error {
	plan := claimed.Plan
	customer := string(plan.Arguments[0].Value)
	if customer == `"Bob"` && plan.Attempt == 1 {
		fmt.Println("report for", customer, "failed")
		return errors.New("the printer is on fire")
	}
	var done repo.StateValue
	err := store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) (err error) {
		cause := repo.Cause{Version: plan.Version, Fence: claimed.Lease.Fence}
		if _, err := tx.Plans().Transition(ctx, plan.ID, repo.TransitionComplete, cause); err != nil {
			return err
		}
		if _, err := tx.State().Change(ctx, []repo.StateChange{{Scope: counters, Key: "done", Op: repo.StateIncrement, By: 1}}); err != nil {
			return err
		}
		done, err = tx.State().Get(ctx, counters, "done")
		return err
	})
	if err == nil {
		fmt.Printf("report for %s is done, %s in all\n", customer, done.Value)
	}
	return err
}
