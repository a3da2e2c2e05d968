package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const (
	lockThem = "SELECT FROM plans WHERE namespace = 'queue' FOR UPDATE"
	holdThem = `INSERT INTO leases (namespace, kind, name, owner, fence, acquired_at, expires_at)
		SELECT 'local', 'plan', id::text, 'somebody', 1, now(), now() + interval '1 hour' FROM plans WHERE namespace = 'queue'`
	// expireThem has all plans processed under claims that have expired.
	expireThem = `WITH started AS (
			UPDATE plans SET state = 'processing', version = version + 1 WHERE namespace = 'queue' AND state = 'queued'
			RETURNING id, namespace, action_name, phase, attempt, version
		), told AS (
			INSERT INTO plan_history (plan_id, version, transition, from_phase, from_state, to_phase, to_state)
			SELECT id, version, 'start', phase, 'queued', phase, 'processing' FROM started
		) INSERT INTO plan_claims (plan_id, namespace, action_name, phase, owner, attempt, max_attempts, check_at)
		SELECT id, namespace, action_name, phase, 'dead', attempt, 5, now() - interval '1 second' + random() * interval '1 second' FROM started`
)

// A claim locks nothing that it does not ask for: while its transaction is open, claims that ask for that get it.
func TestClaimLocksWhatItAsksFor(t *testing.T) {
	t.Parallel()
	store := process(t, pgtest.NewDatabase(t), func(*pgxpool.Config) {})
	queueMany(t, store.Pool(), "queue", 3)
	pgtest.Exec(t, store.Pool(), expireThem)
	tx := beginOn(t, store.Pool())
	others := repo.Claim{Owner: "other", Namespaces: []string{"queue"}, Actions: []string{"another"}, Limit: 3}
	if claimed, err := postgres.Bind(tx).Plans().Claim(t.Context(), others); err != nil || len(claimed) > 0 {
		t.Fatalf("%d plans of another action, %v", len(claimed), err)
	}
	claimed, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: "worker", Namespaces: []string{"queue"}, Limit: 3})
	if err != nil || len(claimed) != 3 {
		t.Errorf("beside a claim of another action: %d plans, %v", len(claimed), err)
	}
}

// Plans that are behind many others that cannot be taken are claimed, at once: behind queued ones that
// are locked, or whose leases are held, and behind expired claims whose plans are locked. A claim
// reads a bounded number of them.
func TestClaimsBehindWhatCannotBeTaken(t *testing.T) {
	t.Parallel()
	const free = 10
	stuck := pgtest.Choose(10_000, 3_000) // more than the first look reads, and less than the first two
	for name, test := range map[string]struct{ before, stick, then string }{
		"queued and locked":  {"", lockThem, ""},
		"queued and held":    {"", holdThem, ""},
		"expired and locked": {expireThem, lockThem, expireThem},
	} {
		t.Run(name, func(t *testing.T) {
			tracer := newClaimTracer()
			store := process(t, pgtest.NewDatabase(t), func(c *pgxpool.Config) { c.ConnConfig.Tracer, c.MaxConns = tracer, 4 })
			queueMany(t, store.Pool(), "queue", stuck)
			do := func(statement string) {
				if statement != "" {
					pgtest.Exec(t, store.Pool(), statement)
				}
			}
			do(test.before)
			pgtest.Exec(t, store.Pool(), "ANALYZE")
			if tx := beginOn(t, store.Pool()); test.stick == lockThem {
				pgtest.Exec(t, tx, test.stick)
			} else {
				do(test.stick)
			}
			queueMany(t, store.Pool(), "queue", free)
			do(test.then)
			for n := range free {
				before := tracer.claims.count.Load()
				claimed, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: "worker", Namespaces: []string{"queue"}})
				if looks := tracer.claims.count.Load() - before; err != nil || len(claimed) != 1 || looks > 18 {
					t.Errorf("claim %d: %d plans, %v, with %d looks", n, len(claimed), err, looks)
				}
			}
		})
	}
}

// Expired claims behind others that cannot be taken are found, although there are always plans that
// are queued.
func TestExpiredClaimsBehindLockedOnes(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	const locked, free = 300, 3
	queueMany(t, store.Pool(), "queue", locked)
	pgtest.Exec(t, store.Pool(), expireThem)
	tx := beginOn(t, store.Pool())
	pgtest.Exec(t, tx, lockThem)
	queueMany(t, store.Pool(), "queue", free)
	pgtest.Exec(t, store.Pool(), expireThem)
	expired := 0
	await.For(t, "all expired ones are claimed", func() bool {
		queueMany(t, store.Pool(), "queue", 2)
		claimed, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: "worker", Namespaces: []string{"queue"}})
		if err != nil || len(claimed) != 1 {
			t.Fatalf("claimed %d, %v", len(claimed), err)
		}
		if claimed[0].Plan.Attempt > 1 {
			expired++
		}
		return expired == free
	})
}

// A claim of many actions passes over held leases as one of a single action does.
func TestClaimOfManyActionsBehindHeldOnes(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	claim := repo.Claim{Owner: "worker", Limit: 40}
	for n := range 16 {
		name := fmt.Sprint("action", n)
		claim.Actions = append(claim.Actions, name)
		if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Reusable: true, MaxAttempts: 5}}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 40 {
		plan, err := store.Plans().Use(t.Context(), "action0", repo.UseAction{})
		if err != nil {
			t.Fatal(err)
		}
		if n < 20 {
			if _, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.PlanLease(plan.ID), Owner: "somebody", TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, limit := range []int{1, 40} {
		claim.Limit = limit
		claimed, err := store.Plans().Claim(t.Context(), claim)
		if want := min(limit, 19); err != nil || len(claimed) != want {
			t.Errorf("%d plans, %v; want %d", len(claimed), err, want)
		}
	}
}

func beginOn(t *testing.T, pool *pgxpool.Pool) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}
