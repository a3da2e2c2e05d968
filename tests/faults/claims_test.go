package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// workTask is the task of a process of workers, which claim plans of a namespace until
// they are killed.
type workTask struct {
	DatabaseURL, Namespace, Process string
	Workers                         int
	Work                            time.Duration // of one plan, twice that at most
	Anywhere                        bool          // it claims from all namespaces
}

const workTaskVariable = "AGENTSTORE_FAULTS_WORKERS"

// runWorkers is the main function of a process of workers.
func runWorkers(ctx context.Context, task workTask) error {
	store, err := openPatiently(ctx, task.DatabaseURL, agentstore.Options{MaxConns: 4})
	if err != nil {
		return err
	}
	failed := make(chan error, task.Workers)
	for n := range task.Workers {
		go func() { failed <- task.work(ctx, store, fmt.Sprintf("%s/%d", task.Process, n)) }()
	}
	return <-failed
}

// work claims plans, and completes those that it still has after its work.
func (task workTask) work(ctx context.Context, store *agentstore.Store, owner string) error {
	for {
		claim := repo.Claim{Owner: owner, Namespaces: []string{task.Namespace}, TTL: time.Hour, Wait: true}
		if task.Anywhere {
			claim.Namespaces, claim.AllNamespaces = nil, true
			// So that they run into each other, and look at different plans.
			claim.Wait, claim.Actions = false, []string{limitedActions[rand.N(len(limitedActions))]}
		}
		claimed, err := store.Plans().Claim(ctx, claim)
		switch {
		case errors.Is(err, repo.ErrUnknownOutcome), errors.Is(err, repo.ErrUnavailable):
			continue // what was claimed expires
		case err != nil:
			return err
		}
		if len(claimed) == 0 {
			time.Sleep(rand.N(5 * time.Millisecond)) // pace: until it looks again
			continue
		}
		time.Sleep(task.Work + rand.N(task.Work)) // pace: the work
		for _, c := range claimed {
			err := task.complete(ctx, store, owner, c)
			if err != nil && !errors.Is(err, repo.ErrConflict) && !errors.Is(err, repo.ErrUnknownOutcome) {
				return err
			}
		}
	}
}

// complete completes a plan and, where limits are tested, writes something in the same transaction.
func (task workTask) complete(ctx context.Context, store *agentstore.Store, owner string, c repo.ClaimedPlan) error {
	cause := repo.Cause{Actor: owner, Version: c.Plan.Version}
	if !task.Anywhere {
		_, err := store.Plans().Transition(ctx, c.Plan.ID, repo.TransitionComplete, cause)
		return err
	}
	cause.Fence = c.Lease.Fence
	return store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Plans().Transition(ctx, c.Plan.ID, repo.TransitionComplete, cause); err != nil {
			return err
		}
		return agentstore.WithTx(tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO accepted (plan, fence) VALUES ($1, $2)", pgtype.UUID{Bytes: c.Plan.ID, Valid: true}, c.Lease.Fence)
			return err
		}, nil)
	})
}

// Processes of workers are killed one after another, while they hold plans. Each plan is
// completed once, by the last that claimed it; its attempts and its history agree; and
// none is stuck.
// Guarantee: Claims: Killed workers leave no plan behind, and each is completed once.
func TestKilledWorkers(t *testing.T) {
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	makeAction(t, store, "work", 1000)
	const namespace = "work"
	plans, processes := pgtest.Choose(10_000, 200), 4
	task := workTask{databaseURL, namespace, "", pgtest.Choose(16, 4), time.Duration(pgtest.Choose(40, 20)) * time.Millisecond, false}
	pgtest.Exec(t, store.Pool(), `WITH made AS (
		INSERT INTO plans (id, namespace, action_name, root_id, phase, state, max_attempts)
		SELECT m.id, $1, 'local/work', m.id, 'strategize', 'queued', 1000 FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, $2::integer)) AS m
		RETURNING id
	) INSERT INTO plan_history (plan_id, version, transition, to_phase, to_state) SELECT id, 1, 'use', 'strategize', 'queued' FROM made`, namespace, plans)
	left := func() int {
		return pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM plans WHERE state <> 'complete'")
	}
	workers := startCrew(t, databaseURL, workTaskVariable, processes, func(databaseURL, name string) any {
		task.DatabaseURL, task.Process = databaseURL, name
		return task
	})
	kills := 0
	for most := pgtest.Choose(1_000_000, 4); kills < most && workers.replace(t, rand.N(processes), func() bool { return left() == 0 }); {
		kills++
	}
	await.For(t, "all plans are complete", func() bool { return left() == 0 })
	expired := 0
	for _, id := range pgtest.Value[[]pgtype.UUID](t, store.Pool(), "SELECT array_agg(id) FROM plans") {
		expired += checkClaimed(t, store, id.Bytes)
	}
	t.Logf("%d plans, %d kills, %d claims expired", plans, kills, expired)
	if kills > 0 && expired == 0 {
		t.Error("no claim expired: the kills hit no worker")
	}
	if rows := pgtest.Value[string](t, store.Pool(), "SELECT concat_ws(' ', (SELECT count(*) FROM plan_claims), (SELECT count(*) FROM plan_queue))"); rows != "0 0" {
		t.Errorf("claims and queue have %s rows", rows)
	}
	// An idle worker has no lease, and none of those that were killed left one.
	if rows := pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM leases"); rows != 0 {
		t.Errorf("%d leases are left", rows)
	}
}

// checkClaimed checks the history of a plan that was claimed until it was complete, and
// returns how many claims have expired.
func checkClaimed(t *testing.T, store *agentstore.Store, id repo.ID) (expired int) {
	t.Helper()
	plan, err := store.Plans().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	events, err := store.Plans().History(t.Context(), id, 0, repo.MaxPageSize)
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for i, event := range events {
		steps = append(steps, string(event.Transition))
		if event.Transition == repo.TransitionExpire {
			expired++
		}
		if event.Transition == repo.TransitionComplete && event.Actor != events[i-1].Actor {
			t.Errorf("%s completed what %s had claimed", event.Actor, events[i-1].Actor)
		}
	}
	want := "use start" + strings.Repeat(" expire start", expired) + " complete"
	if got := strings.Join(steps, " "); got != want || plan.Attempt != expired+1 || plan.Version != int64(len(events)) {
		t.Errorf("attempt %d, version %d after %s", plan.Attempt, plan.Version, got)
	}
	return expired
}
