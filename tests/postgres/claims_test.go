package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// queuePlans makes an action and queues plans of it.
func queuePlans(t *testing.T, r repo.Repositories, namespace string, count int) (ids []repo.ID) {
	t.Helper()
	_, err := r.Actions().Create(t.Context(), repo.NewAction{Name: "claimed", ActionDefinition: repo.ActionDefinition{Reusable: true, MaxAttempts: 5}})
	if err != nil {
		t.Fatal(err)
	}
	for range count {
		plan, err := r.Plans().Use(t.Context(), "claimed", repo.UseAction{Namespace: namespace})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, plan.ID)
	}
	return ids
}

func claim(t *testing.T, r repo.Repositories, claim repo.Claim) []repo.ClaimedPlan {
	t.Helper()
	claimed, err := r.Plans().Claim(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	return claimed
}

func claimOne(t *testing.T, r repo.Repositories, namespace string) repo.ClaimedPlan {
	t.Helper()
	claimed := claim(t, r, repo.Claim{Owner: "worker", Namespaces: []string{namespace}})
	if len(claimed) != 1 {
		t.Fatalf("%d plans were claimed, want 1", len(claimed))
	}
	return claimed[0]
}

// claimedTwice has workers claim all plans of a queue, and returns how many plans more than
// one of them has claimed.
func claimedTwice(t *testing.T, plans int, claim func(ctx context.Context) (id repo.ID, found bool, err error)) (twice int) {
	t.Helper()
	var mu sync.Mutex
	counts := map[repo.ID]int{}
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for {
				id, found, err := claim(t.Context())
				if err != nil {
					t.Error(err)
				}
				if err != nil || !found {
					return
				}
				mu.Lock()
				counts[id]++
				mu.Unlock()
			}
		})
	}
	running.Wait()
	for _, count := range counts {
		if count > 1 {
			twice++
		}
	}
	if len(counts) != plans {
		t.Errorf("%d plans were claimed, want %d", len(counts), plans)
	}
	return twice
}

// Workers of one queue never claim a plan twice. A worker that looks for a plan and then
// takes it does.
func TestClaimAgainstTheNaiveOne(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 8})
	queuePlans(t, store, "ours", 200)
	ours := func(ctx context.Context) (repo.ID, bool, error) {
		claimed, err := store.Plans().Claim(ctx, repo.Claim{Owner: "worker", Namespaces: []string{"ours"}})
		if len(claimed) == 0 {
			return repo.ID{}, false, err
		}
		return claimed[0].Plan.ID, true, err
	}
	if twice := claimedTwice(t, 200, ours); twice > 0 {
		t.Errorf("%d plans were claimed twice", twice)
	}
	pool := naivePool(t, store)
	naive := func(ctx context.Context) (id repo.ID, found bool, err error) {
		var plan pgtype.UUID
		err = pool.QueryRow(ctx, "SELECT plan_id FROM plan_queue WHERE namespace = 'naive' ORDER BY since LIMIT 1").Scan(&plan)
		if errors.Is(err, pgx.ErrNoRows) {
			return id, false, nil
		}
		if err == nil {
			_, err = pool.Exec(ctx, "UPDATE plans SET state = 'processing', version = version + 1 WHERE id = $1", plan)
		}
		return plan.Bytes, true, err
	}
	await.For(t, "the naive claim is caught", func() bool {
		queuePlans(t, store, "naive", 20)
		return claimedTwice(t, 20, naive) > 0
	})
}

// namedStatements counts the statements of a query.
type namedStatements struct {
	name  string
	count atomic.Int64
}

func (n *namedStatements) begin(ctx context.Context, sql string) context.Context {
	if strings.HasPrefix(sql, "-- name: "+n.name+" ") {
		n.count.Add(1)
	}
	return ctx
}

// claimTracer counts the claims and polls of a pool.
type claimTracer struct{ claims, polls namedStatements }

func newClaimTracer() *claimTracer {
	return &claimTracer{claims: namedStatements{name: "PlanClaimQueue"}, polls: namedStatements{name: "PlanClaimable"}}
}

func (c *claimTracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	c.claims.begin(ctx, data.SQL)
	return c.polls.begin(ctx, data.SQL)
}

func (c *claimTracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *claimTracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	for _, query := range data.Batch.QueuedQueries {
		c.claims.begin(ctx, query.SQL)
		c.polls.begin(ctx, query.SQL)
	}
	return ctx
}

func (c *claimTracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (c *claimTracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// Workers that wait claim once each, and then cost one poll together. A plan that another
// process queues, or that is not announced, wakes one of them.
// Guarantee: Claims: Workers that wait cost one poll together.
func TestClaimWaitsWithoutPolling(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	tracer := newClaimTracer()
	workers := process(t, databaseURL, func(c *pgxpool.Config) { c.ConnConfig.Tracer, c.MaxConns = tracer, 2 })
	loneTracer := newClaimTracer() // of a process with one worker
	lone := process(t, databaseURL, func(c *pgxpool.Config) { c.ConnConfig.Tracer, c.MaxConns = loneTracer, 2 })
	other := process(t, databaseURL)
	queuePlans(t, other, "elsewhere", 1)
	const waiting = 20
	claimed := make(chan repo.ClaimedPlan, waiting)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	work := func(store *agentstore.Store, namespace string, n int) {
		running.Go(func() {
			// With a TTL of its own each is a statement, so that they can be counted.
			ttl := time.Hour - time.Duration(n)*time.Second
			got, err := store.Plans().Claim(ctx, repo.Claim{Owner: fmt.Sprint("worker ", n), Namespaces: []string{namespace}, TTL: ttl, Wait: true})
			if err == nil {
				claimed <- got[0]
			} else if ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	for n := range waiting {
		work(workers, "queue", n)
	}
	work(lone, "idle", waiting)
	t.Cleanup(running.Wait)
	t.Cleanup(cancel)
	awaitListeners(t, other.Pool(), 2)
	await.For(t, "all wait, and two polls of each process", func() bool {
		return tracer.claims.count.Load() >= waiting && min(tracer.polls.count.Load(), loneTracer.polls.count.Load()) >= 2
	})
	if claims := tracer.claims.count.Load(); claims != waiting {
		t.Errorf("%d claims of %d workers", claims, waiting)
	}
	if polls, one := tracer.polls.count.Load(), loneTracer.polls.count.Load(); polls > waiting/4*one {
		t.Errorf("%d polls for %d workers, and %d for one", polls, waiting, one)
	}
	wants := func(id repo.ID) {
		t.Helper()
		if got := await.Value(t, "a worker is woken", claimed); got.Plan.ID != id {
			t.Errorf("claimed %v, want %v", got.Plan.ID, id)
		}
	}
	wants(queuePlans(t, other, "queue", 1)[0])
	// In a transaction of the caller's, of whose commit the library does not learn.
	tx, err := other.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	id := repo.NewID()
	pgtest.Exec(t, tx, `INSERT INTO plans (id, namespace, action_name, root_id, phase, state)
		VALUES ($1, 'queue', 'local/claimed', $1, 'execute', 'queued')`, pgtype.UUID{Bytes: id, Valid: true})
	pgtest.Exec(t, tx, `INSERT INTO plan_history (plan_id, version, transition, to_phase, to_state)
		VALUES ($1, 1, 'use', 'execute', 'queued')`, pgtype.UUID{Bytes: id, Valid: true})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wants(id)
	// Each plan may wake a few in vain, but not all.
	if claims := tracer.claims.count.Load(); claims > 2*waiting {
		t.Errorf("%d claims of %d workers for two plans", claims, waiting)
	}
}

// A lease that is not renewed ends its claim, and a waiting one takes it over. The holder
// that has renewed keeps it.
// Guarantee: Claims: A claim expires with its lease, and not before.
func TestClaimExpires(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	ids := queuePlans(t, store, "queue", 2)
	claim(t, store, repo.Claim{Owner: "dead", Namespaces: []string{"queue"}})
	claim(t, store, repo.Claim{Owner: "alive", Namespaces: []string{"queue"}})
	begun, successor := writesOf(store).Begun, make(chan []repo.ClaimedPlan, 1)
	go func() {
		taken, err := store.Plans().Claim(await.Context(t), repo.Claim{Owner: "successor", Namespaces: []string{"queue"}, Limit: 2, Wait: true})
		if err != nil {
			t.Error(err)
		}
		successor <- taken
	}()
	awaitClaimsWait(t, store, 1, begun)
	// As if a time had passed, after which one of them has renewed its lease.
	pgtest.Exec(t, store.Pool(), "UPDATE leases SET expires_at = now() WHERE owner = 'dead'")
	pgtest.Exec(t, store.Pool(), "UPDATE plan_claims SET check_at = now()")
	taken := <-successor
	if len(taken) != 1 || taken[0].Plan.ID != ids[0] || taken[0].Plan.Attempt != 2 {
		t.Errorf("taken over: %+v", taken)
	}
}

// A claim looks at the lease, and not again before that may have expired.
func TestClaimLooksAgainWhenTheLeaseEnds(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	queuePlans(t, store, "queue", 1)
	held := claimOne(t, store, "queue")
	checkAt := func() time.Time { return pgtest.Value[time.Time](t, store.Pool(), "SELECT check_at FROM plan_claims") }
	soon := func(end time.Time) bool { // it is scattered a little
		after := checkAt().Sub(end)
		return after >= 0 && after < 20*time.Millisecond
	}
	if !soon(held.Lease.ExpiresAt) {
		t.Errorf("looks at %v, the lease expires at %v", checkAt(), held.Lease.ExpiresAt)
	}
	renewed, err := store.Leases().Renew(t.Context(), held.Lease, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	// After the last attempt, too.
	pgtest.Exec(t, store.Pool(), "UPDATE plan_claims SET check_at = now(), max_attempts = 1")
	if got := claim(t, store, repo.Claim{Owner: "other", Namespaces: []string{"queue"}}); len(got) > 0 {
		t.Errorf("claimed %+v", got)
	}
	if !soon(renewed.ExpiresAt) {
		t.Errorf("looks again at %v, the lease expires at %v", checkAt(), renewed.ExpiresAt)
	}
	if plan, err := store.Plans().Get(t.Context(), held.Plan.ID); err != nil || plan.State != repo.PlanProcessing {
		t.Errorf("the plan is at %v, %v", plan.Stage, err)
	}
	pgtest.Exec(t, store.Pool(), "UPDATE leases SET expires_at = now()")
	pgtest.Exec(t, store.Pool(), "UPDATE plan_claims SET check_at = now(), max_attempts = 5")
	if next := claimOne(t, store, "queue"); next.Plan.Attempt != 2 || next.Lease.Fence <= held.Lease.Fence {
		t.Errorf("claimed as %+v with %+v", next.Plan, next.Lease)
	}
}

// What is done leaves neither leases nor rows of the queue behind, however it was done: also
// by a library that does not know of claims.
// Guarantee: Claims: Work that is done leaves no rows behind.
func TestClaimLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	queuePlans(t, store, "queue", 4)
	claim(t, store, repo.Claim{Owner: "worker", Namespaces: []string{"queue"}, Limit: 3})
	rows := func() string {
		return pgtest.Value[string](t, store.Pool(), `SELECT concat_ws(' ', (SELECT count(*) FROM leases),
			(SELECT count(*) FROM plan_claims), (SELECT count(*) FROM plan_queue))`)
	}
	if got := rows(); got != "3 3 1" {
		t.Errorf("leases, claims and queue have %s rows", got)
	}
	pgtest.Exec(t, store.Pool(), "UPDATE plans SET state = 'complete', version = version + 1")
	if got := rows(); got != "0 0 0" {
		t.Errorf("leases, claims and queue have %s rows", got)
	}
	pgtest.Exec(t, store.Pool(), "UPDATE plans SET phase = 'execute', state = 'queued', version = version + 1")
	if got := rows(); got != "0 0 4" {
		t.Errorf("leases, claims and queue have %s rows", got)
	}
}

// A claim waits for no lock: neither for a plan that is locked, nor for one whose lease is
// being acquired.
// Guarantee: Claims: A claim waits for no lock.
func TestClaimSkipsWhatIsLocked(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 2})
	ids := queuePlans(t, store, "queue", 3)
	tx, err := store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	pgtest.Exec(t, tx, "SELECT FROM plans WHERE id = $1 FOR NO KEY UPDATE", pgtype.UUID{Bytes: ids[0], Valid: true})
	acquireFor(t, postgres.Bind(tx), repo.PlanLease(ids[1]))
	if got := claimOne(t, store, "queue"); got.Plan.ID != ids[2] {
		t.Errorf("claimed %v, want the third", got.Plan.ID)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids[:2] {
		if got := claimOne(t, store, "queue"); got.Plan.ID != id {
			t.Errorf("claimed %v, want %v", got.Plan.ID, id)
		}
	}
}
