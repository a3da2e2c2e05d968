package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A worker in another process learns of a cancellation by a notification: sooner than by the poll, and long
// before its next renewal.
func TestCancelReachesAnotherProcess(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t)
	tracer := &claimTracer{polls: namedStatements{name: "LeaseListEnded"}}
	here, there := process(t, database), process(t, database, func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	begun, ended, worked := make(chan repo.ID, 1), make(chan struct{}, 1), make(chan error, 1)
	go func() {
		claim := repo.Claim{Owner: "worker", Namespaces: []string{"queue"}, TTL: time.Hour}
		worked <- repo.Work(ctx, there, claim, func(ctx context.Context, claimed repo.ClaimedPlan) error {
			begun <- claimed.Plan.ID
			<-ctx.Done()
			ended <- struct{}{}
			return ctx.Err()
		})
	}()
	await.For(t, "a worker is told, and not by a poll, which may come first", func() bool {
		before := tracer.polls.count.Load()
		queueMany(t, here.Pool(), "queue", 1)
		id := await.Value(t, "the worker's claim", begun)
		await.For(t, "a poll", func() bool { return tracer.polls.count.Load() > before })
		before = tracer.polls.count.Load()
		if _, err := here.Plans().Transition(t.Context(), id, repo.TransitionCancel, repo.Cause{Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
		await.Value(t, "the end of the work", ended)
		return tracer.polls.count.Load()-before <= 1 // the look after the hint
	})
	stop()
	if err := await.Value(t, "the worker's end", worked); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A holder in another process learns of the end of its lease, and a waiting caller of a lease's release, before
// the next poll. So does a worker of a plan that a turn has queued.
// Guarantee: Leases: A release wakes callers that wait in another process.
func TestEndsAreAnnounced(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t)
	tracer := &claimTracer{claims: namedStatements{name: "PlanClaimable"}, polls: namedStatements{name: "LeaseListEnded"}}
	here, there := process(t, database), process(t, database, func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
	action := repo.ActionDefinition{Reusable: true}
	if _, err := here.Actions().Create(t.Context(), repo.NewAction{Name: "answer", ActionDefinition: action}); err != nil {
		t.Fatal(err)
	}
	session := pgtest.NewSession(t, here)
	claim := func() repo.ClaimedPlan {
		queueMany(t, here.Pool(), "queue", 1)
		claimed, err := here.Plans().Claim(t.Context(), repo.Claim{Owner: repo.NewID().String(), Namespaces: []string{"queue"}, TTL: time.Hour})
		if err != nil || len(claimed) != 1 {
			t.Fatalf("claimed %d, %v", len(claimed), err)
		}
		return claimed[0]
	}
	transition := func(ctx context.Context, r repo.Repositories, c repo.ClaimedPlan, transition repo.Transition) error {
		_, err := r.Plans().Transition(ctx, c.Plan.ID, transition, repo.Cause{Reason: "enough"})
		return err
	}
	end := func(c repo.ClaimedPlan) error { return there.Leases().Await(t.Context(), c.Lease) }
	for name, test := range map[string]struct {
		polls *namedStatements
		// waits is what ends when do has been done.
		waits func(repo.ClaimedPlan) error
		do    func(repo.ClaimedPlan) error
		looks int64 // after the hint
	}{
		"cancelled": {&tracer.polls, end, func(c repo.ClaimedPlan) error { return transition(t.Context(), here, c, repo.TransitionCancel) }, 1},
		"completed": {&tracer.polls, end, func(c repo.ClaimedPlan) error { return transition(t.Context(), here, c, repo.TransitionComplete) }, 1},
		"in a transaction": {&tracer.polls, end, func(c repo.ClaimedPlan) error {
			return here.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
				return transition(ctx, tx, c, repo.TransitionCancel)
			})
		}, 1},
		"released": {&tracer.polls, end, func(c repo.ClaimedPlan) error { return here.Leases().Release(t.Context(), c.Lease) }, 1},
		"all released": {&tracer.polls, end, func(c repo.ClaimedPlan) error {
			_, err := here.Leases().ReleaseAll(t.Context(), c.Lease.Owner)
			return err
		}, 1},
		"acquired": {&tracer.polls, func(c repo.ClaimedPlan) error {
			_, err := there.Leases().Acquire(t.Context(), repo.NewLease{Key: c.Lease.Key, Owner: "waits", Wait: true, TTL: time.Hour})
			return err
		}, func(c repo.ClaimedPlan) error { return here.Leases().Release(t.Context(), c.Lease) }, 0},
		"a turn's plan": {&tracer.claims, func(repo.ClaimedPlan) error {
			_, err := there.Plans().Claim(t.Context(), repo.Claim{Owner: repo.NewID().String(), Wait: true, TTL: time.Hour})
			return err
		}, func(repo.ClaimedPlan) error {
			_, err := here.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: session, Action: "answer"})
			return err
		}, 0},
	} {
		await.For(t, name+": a hint, and not by a poll, which may come first", func() bool {
			c := claim()
			before, ended := test.polls.count.Load(), make(chan error, 1)
			go func() { ended <- test.waits(c) }()
			awaitListeners(t, here.Pool(), 1)
			await.For(t, "a poll", func() bool { return test.polls.count.Load() > before })
			before = test.polls.count.Load()
			if err := test.do(c); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := await.Value(t, name+" ends the wait", ended); err != nil && !errors.Is(err, repo.ErrConflict) {
				t.Fatalf("%s: %v", name, err)
			}
			return test.polls.count.Load()-before <= test.looks
		})
	}
	// A hint that comes before the wait is not lost: there is one look at once, and not one after a poll. It has come
	// when a later one has.
	await.For(t, "a release before the wait is known at once", func() bool {
		c, later := claim(), claim()
		ended := make(chan error, 1)
		go func() { ended <- end(later) }()
		awaitListeners(t, here.Pool(), 1)
		await.For(t, "the wait begins", func() bool { return there.Stats().Followers.Leases > 0 })
		for _, lease := range []repo.Lease{c.Lease, later.Lease} {
			if err := here.Leases().Release(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
		}
		if err := await.Value(t, "the later hint", ended); !errors.Is(err, repo.ErrConflict) {
			t.Fatal(err)
		}
		before := tracer.polls.count.Load()
		if err := end(c); !errors.Is(err, repo.ErrConflict) {
			t.Fatal(err)
		}
		return tracer.polls.count.Load()-before == 1
	})
}

// A turn waits for a transaction that changes its action, and uses it as it is then.
func TestActionOfATurnIsLocked(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	action := repo.ActionDefinition{Reusable: true}
	if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: "answer", ActionDefinition: action}); err != nil {
		t.Fatal(err)
	}
	turn := repo.Turn{SessionID: pgtest.NewSession(t, store), Action: "answer"}
	if _, err := store.Sessions().AppendTurn(t.Context(), turn); err != nil { // which reads the action
		t.Fatal(err)
	}
	tx := beginTx(t, store)
	if _, err := postgres.Bind(tx).Actions().Archive(t.Context(), "answer"); err != nil {
		t.Fatal(err)
	}
	added := make(chan error, 1)
	go func() {
		_, err := store.Sessions().AppendTurn(t.Context(), turn)
		added <- err
	}()
	awaitLockWait(t, store.Pool())
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var refused *repo.RefusedError
	if err := <-added; !errors.As(err, &refused) || refused.Reason != "is archived" {
		t.Errorf("the turn: %v", err)
	}
}
