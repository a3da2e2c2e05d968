package postgres

import (
	"context"
	"errors"
	"slices"
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
	here, there := process(t, database), process(t, database)
	count := pgtest.Choose(400, 60)
	queueMany(t, here.Pool(), "queue", count)
	ctx, stop := context.WithCancel(t.Context())
	begun, ended := make(chan repo.ID), make(chan time.Time)
	worked := make(chan error, 1)
	go func() {
		claim := repo.Claim{Owner: "worker", Namespaces: []string{"queue"}, TTL: time.Hour}
		worked <- repo.Work(ctx, there, claim, func(ctx context.Context, claimed repo.ClaimedPlan) error {
			begun <- claimed.Plan.ID
			<-ctx.Done()
			ended <- time.Now()
			return ctx.Err()
		})
	}()
	var took []time.Duration
	for range count {
		id := <-begun
		before := time.Now()
		if _, err := here.Plans().Transition(t.Context(), id, repo.TransitionCancel, repo.Cause{Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
		took = append(took, (<-ended).Sub(before))
	}
	stop()
	if err := <-worked; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	slices.Sort(took)
	t.Logf("of %d cancellations, half took %v, 99 %% %v, and the last %v", count, took[count/2], took[count*99/100], took[count-1])
	if took[count/2] > 400*time.Millisecond { // what the poll takes, without load
		t.Errorf("half of them took more than %v", took[count/2])
	}
}

// A holder in another process learns of the end of its lease, and one who waits for a lease of its release, before
// the next poll. So does a worker of a plan that a turn has queued.
// Guarantee: Leases: A release wakes who waits in another process.
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
			_, err := there.Leases().Acquire(t.Context(), repo.NewLease{Key: c.Lease.Key, Owner: "waits", Wait: true})
			return err
		}, func(c repo.ClaimedPlan) error { return here.Leases().Release(t.Context(), c.Lease) }, 0},
		"a turn's plan": {&tracer.claims, func(repo.ClaimedPlan) error {
			_, err := there.Plans().Claim(t.Context(), repo.Claim{Owner: repo.NewID().String(), Wait: true})
			return err
		}, func(repo.ClaimedPlan) error {
			_, err := here.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: session, Action: "answer"})
			return err
		}, 0},
	} {
		hinted := false
		for range 20 { // a poll may come first
			c := claim()
			before, ended := test.polls.count.Load(), make(chan error, 1)
			go func() { ended <- test.waits(c) }()
			awaitListeners(t, here.Pool(), 1)
			await.For(t, "a poll", func() bool { return test.polls.count.Load() > before })
			before = test.polls.count.Load()
			if err := test.do(c); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := <-ended; err != nil && !errors.Is(err, repo.ErrConflict) {
				t.Fatalf("%s: %v", name, err)
			}
			if hinted = test.polls.count.Load()-before <= test.looks; hinted {
				break
			}
		}
		if !hinted {
			t.Errorf("%s: each time a poll found it", name)
		}
	}
	// A hint that comes before the wait is not lost.
	c := claim()
	if err := here.Leases().Release(t.Context(), c.Lease); err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	if err := here.Leases().Await(t.Context(), c.Lease); !errors.Is(err, repo.ErrConflict) {
		t.Error(err)
	}
	if took := time.Since(before); took > 300*time.Millisecond {
		t.Errorf("it took %v to learn of a release that was before", took)
	}
}

// A turn waits for whoever changes its action, and uses it as it is then.
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
	awaitLock(t, store)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var refused *repo.RefusedError
	if err := <-added; !errors.As(err, &refused) || refused.Reason != "is archived" {
		t.Errorf("the turn: %v", err)
	}
}
