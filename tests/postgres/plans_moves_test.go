package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// claimMany queues plans, and claims them.
func claimMany(t *testing.T, store *agentstore.Store, namespace string, count int) []repo.ClaimedPlan {
	t.Helper()
	queueMany(t, store.Pool(), namespace, count)
	claimed := claim(t, store, repo.Claim{Owner: "worker", Namespaces: []string{namespace}, Limit: count, TTL: time.Hour})
	if len(claimed) != count {
		t.Fatalf("claimed %d of %d", len(claimed), count)
	}
	return claimed
}

// Transitions that are asked for while others are under way are one statement. Each has its
// own answer, and leaves its own history.
func TestTransitionsShareStatements(t *testing.T) {
	t.Parallel()
	const plans = 50
	tracer := &claimTracer{claims: namedStatements{name: "PlanTransition"}, polls: namedStatements{name: "PlanLock"}}
	store := process(t, pgtest.NewDatabase(t), func(c *pgxpool.Config) { c.ConnConfig.Tracer, c.MaxConns = tracer, 4 })
	for attempt := 1; ; attempt++ {
		claimed := claimMany(t, store, fmt.Sprint("queue", attempt), plans)
		pgtest.Exec(t, store.Pool(), "UPDATE plans SET max_attempts = 1") // a failure is the end
		before := tracer.claims.count.Load()
		var running sync.WaitGroup
		for n, c := range claimed {
			running.Go(func() {
				cause := repo.Cause{Actor: fmt.Sprint("worker ", n), Fence: c.Lease.Fence}
				if n%5 == 1 {
					cause.Reason, cause.Details = fmt.Sprint("reason ", n), fmt.Appendf(nil, `{"n": %d}`, n)
				}
				checkMove(t, store, c, n, cause)
			})
		}
		running.Wait()
		groups := tracer.claims.count.Load() - before
		if t.Failed() || groups < plans/4 {
			return
		}
		if attempt == 20 {
			t.Fatalf("%d statements for %d transitions", groups, plans)
		}
	}
}

// checkMove makes one of five transitions of a claimed plan, and checks its answer and
// what it has left.
func checkMove(t *testing.T, store *agentstore.Store, c repo.ClaimedPlan, n int, cause repo.Cause) {
	t.Helper()
	id, transition, want := c.Plan.ID, repo.TransitionComplete, repo.PlanComplete
	switch n % 5 {
	case 1:
		transition, want = repo.TransitionFail, repo.PlanErrored
	case 2:
		cause.Version, want = c.Plan.Version+1, repo.PlanProcessing
	case 3:
		cause.Fence, want = c.Lease.Fence-1_000_000, repo.PlanProcessing
		cause.Fence = max(cause.Fence, 1)
	case 4:
		id, want = repo.NewID(), ""
	}
	moved, err := store.Plans().Transition(t.Context(), id, transition, cause)
	conflict, isConflict := errors.AsType[*repo.TransitionConflictError](err)
	fenced, isFenced := errors.AsType[*repo.FencedError](err)
	switch {
	case n%5 == 2 && (!isConflict || conflict.PlanID != id || conflict.Version != c.Plan.Version),
		n%5 == 3 && (!isFenced || fenced.Latest != c.Lease.Fence),
		n%5 == 4 && !errors.Is(err, repo.ErrNotFound),
		n%5 < 2 && err != nil:
		t.Errorf("%d: %v", n, err)
	}
	if n%5 == 4 {
		return
	}
	stored, err := store.Plans().Get(t.Context(), id)
	if err != nil || stored.State != want {
		t.Errorf("%d is %s, %v; want %s", n, stored.State, err, want)
	}
	if n%5 > 1 {
		return
	}
	if moved.UpdatedAt != stored.UpdatedAt || moved.Version != stored.Version || moved.State != want || string(moved.ErrorDetails) != string(stored.ErrorDetails) {
		t.Errorf("%d: answered %+v, stored %+v", n, moved, stored)
	}
	if stored.ErrorMessage != cause.Reason || string(stored.ErrorDetails) != string(cause.Details) {
		t.Errorf("%d: failed with %q, %s", n, stored.ErrorMessage, stored.ErrorDetails)
	}
	history, err := store.Plans().History(t.Context(), id, 1, 10)
	if err != nil || len(history) != 3 || history[2].Actor != cause.Actor || history[2].Reason != cause.Reason ||
		history[2].Transition != transition || history[2].To != stored.Stage || history[2].From != c.Plan.Stage {
		t.Errorf("%d: history %+v, %v", n, history, err)
	}
	entries, err := store.Audit().List(t.Context(), repo.AuditFilter{PlanID: id}, repo.Page{})
	if err != nil || len(entries.Items) != 2 { // the claim's, and this one's
		t.Errorf("%d: entries %+v, %v", n, entries, err)
	}
	if _, err := store.Leases().Renew(t.Context(), c.Lease, time.Minute); !errors.Is(err, repo.ErrConflict) && !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("%d: its lease is still there: %v", n, err)
	}
}

// A group of transitions waits for no lock: neither of a plan, nor of a claim or a lease
// that a transition would delete. The caller of that transition waits alone.
func TestTransitionsBesideALockedOne(t *testing.T) {
	t.Parallel()
	for what, lock := range map[string]string{
		"plan":  "SELECT FROM plans WHERE id = $1 FOR UPDATE",
		"lease": "SELECT FROM leases WHERE kind = 'plan' AND name = $1::uuid::text FOR UPDATE",
		"claim": "SELECT FROM plan_claims WHERE plan_id = $1 FOR UPDATE",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			store := process(t, databaseURL, func(c *pgxpool.Config) { c.MaxConns = 4 })
			claimed := claimMany(t, store, "queue", 17)
			holder, err := pgtest.Connect(t, databaseURL).Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if pgtest.Exec(t, holder, lock, [16]byte(claimed[0].Plan.ID)) != 1 {
				t.Fatal("nothing is locked")
			}
			complete := func(ctx context.Context, c repo.ClaimedPlan) error {
				_, err := store.Plans().Transition(ctx, c.Plan.ID, repo.TransitionComplete, repo.Cause{Fence: c.Lease.Fence})
				return err
			}
			waiting := make(chan error, 1)
			go func() { waiting <- complete(t.Context(), claimed[0]) }()
			ctx := await.Context(t) // for the others: the row stays locked until they have come back
			var running sync.WaitGroup
			for _, c := range claimed[1:] {
				running.Go(func() {
					if err := complete(ctx, c); err != nil {
						t.Error(err)
					}
				})
			}
			running.Wait()
			select {
			case err := <-waiting:
				t.Errorf("the plan was moved although it is locked: %v", err)
			default:
			}
			if err := holder.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-waiting; err != nil {
				t.Errorf("the transition that waited: %v", err)
			}
		})
	}
}

// A caller that gives up takes nothing from others, and callers that ask for the same plan
// at once make each transition once.
func TestTransitionsGoOnWithoutOne(t *testing.T) {
	t.Parallel()
	store := process(t, pgtest.NewDatabase(t), func(c *pgxpool.Config) { c.MaxConns = 2 })
	for n := range 20 {
		claimed := claimMany(t, store, fmt.Sprint("queue", n), 4)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for i, c := range claimed {
			for range 3 {
				running.Go(func() {
					of := t.Context()
					if i%2 > 0 {
						of = ctx
					}
					_, err := store.Plans().Transition(of, c.Plan.ID, repo.TransitionComplete, repo.Cause{Fence: c.Lease.Fence})
					if err != nil && !errors.Is(err, repo.ErrConflict) && (of != ctx || !errors.Is(err, context.Canceled)) {
						t.Error(err)
					}
				})
			}
		}
		running.Go(cancel)
		running.Wait()
		for i, c := range claimed {
			history, err := store.Plans().History(t.Context(), c.Plan.ID, 1, 10)
			if err != nil || len(history) > 3 || i%2 == 0 && len(history) != 3 {
				t.Errorf("history %+v, %v", history, err)
			}
		}
	}
}

// The answer to each piece of what a group sends is lost. No transition is reported as not
// made that was made, nor the other way round.
func TestLostAnswersOfTransitions(t *testing.T) {
	t.Parallel()
	direct := pgtest.NewDatabase(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	network := pgtest.NewLosing(t, u.Host)
	u.Host = network.Addr
	store, other := openBreaking(t, u.String()), pgtest.OpenStore(t, direct, agentstore.Options{})
	for piece, lost := int32(1), true; lost; piece++ {
		claimed := claimMany(t, other, fmt.Sprint("queue", piece), 4)
		errs := make([]error, len(claimed))
		network.Lose(piece, false)
		var running sync.WaitGroup
		for i, c := range claimed {
			running.Go(func() {
				_, errs[i] = store.Plans().Transition(t.Context(), c.Plan.ID, repo.TransitionComplete, repo.Cause{Fence: c.Lease.Fence})
			})
		}
		running.Wait()
		lost = network.Stop()
		awaitDone(t, store, other.Pool())
		for i, c := range claimed {
			plan, err := other.Plans().Get(t.Context(), c.Plan.ID)
			if moved := plan.State == repo.PlanComplete; err != nil || moved != (errs[i] == nil) && !errors.Is(errs[i], repo.ErrUnknownOutcome) {
				t.Errorf("the answer to piece %d lost: %v; the plan is %s, %v", piece, errs[i], plan.State, err)
			}
		}
	}
}

// A group's statement is planned once, also if its first plans were for empty tables, and
// reads these by their indexes.
func TestTransitionsArePlannedOnce(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	if pgtest.Value[int](t, pgtest.Connect(t, databaseURL), "SELECT current_setting('server_version_num')::int") < 140000 {
		t.Log("PostgreSQL 13 does not count plans")
		return
	}
	pool := pgtest.NewPool(t, databaseURL, planMode("auto"))
	store := pgtest.OpenPool(t, pool, agentstore.Options{})
	for _, count := range []int{10, 10_000, 10} {
		pgtest.Exec(t, pool, "ANALYZE")
		queueMany(t, pool, "queue", count)
		for _, c := range claim(t, store, repo.Claim{Owner: "worker", Namespaces: []string{"queue"}, Limit: 10, TTL: time.Hour}) {
			if _, err := store.Plans().Transition(t.Context(), c.Plan.ID, repo.TransitionComplete, repo.Cause{Fence: c.Lease.Fence}); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantPlannedOnce(t, pool, "PlanTransition ")
	plan := strings.Join(explainGeneric(t, pool, "PlanTransition"), "\n")
	for _, index := range []string{"plans_pkey on plans", "plan_claims_pkey on plan_claims", "on leases"} {
		if !strings.Contains(plan, index) || strings.Contains(plan, "Seq Scan") {
			t.Errorf("does not use %s alone:\n%s", index, plan)
		}
	}
}

// A worker that waits is woken by a transition that queues a plan, and does not find it by
// its next poll.
func TestTransitionsWakeWorkers(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	tracer := newClaimTracer()
	workers := process(t, databaseURL, func(c *pgxpool.Config) { c.ConnConfig.Tracer, c.MaxConns = tracer, 2 })
	other := process(t, databaseURL)
	await.For(t, "a worker is woken, and not by a poll, which may come first", func() bool {
		c := claimMany(t, other, "queue", 1)[0]
		if _, err := other.Plans().Transition(t.Context(), c.Plan.ID, repo.TransitionComplete, repo.Cause{}); err != nil {
			t.Fatal(err)
		}
		claimed := make(chan error, 1)
		before := tracer.polls.count.Load()
		go func() {
			_, err := workers.Plans().Claim(t.Context(), repo.Claim{Owner: "worker", Namespaces: []string{"queue"}, Wait: true, TTL: time.Hour})
			claimed <- err
		}()
		awaitListeners(t, other.Pool(), 1)
		await.For(t, "a poll", func() bool { return tracer.polls.count.Load() > before })
		polls := tracer.polls.count.Load()
		if _, err := other.Plans().Transition(t.Context(), c.Plan.ID, repo.TransitionExecute, repo.Cause{}); err != nil {
			t.Fatal(err)
		}
		if err := await.Value(t, "the worker's claim", claimed); err != nil {
			t.Fatal(err)
		}
		return tracer.polls.count.Load() == polls
	})
}
