package postgres

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

var leaseOfA = repo.LeaseKey{Kind: "project", Name: "a"}

func acquireA(ctx context.Context, r repo.Repositories, owner string) (repo.Lease, error) {
	return r.Leases().Acquire(ctx, repo.NewLease{Key: leaseOfA, Owner: owner, TTL: time.Hour})
}

func mustAcquireA(t *testing.T, r repo.Repositories, owner string) repo.Lease {
	t.Helper()
	lease, err := acquireA(t.Context(), r, owner)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// A lease gets its fence, and its life begins, after the wait for others: whether they leave
// a free row behind or none.
// Guarantee: Leases: A fence is larger than all before it.
func TestLeaseTokenAfterTheWait(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]string{"freed": "", "deleted": "DELETE FROM leases"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
			tx := beginTx(t, store)
			before := mustAcquireA(t, postgres.Bind(tx), "before")
			acquired := make(chan repo.Lease, 1)
			go func() {
				lease, err := acquireA(t.Context(), store, "waits")
				if err != nil {
					t.Error(err)
				}
				acquired <- lease
			}()
			awaitLockWait(t, store.Pool())
			if err := postgres.Bind(tx).Leases().Release(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			pgtest.Exec(t, tx, leave)
			end := pgtest.Value[time.Time](t, tx, "SELECT clock_timestamp()")
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			lease := <-acquired
			if lease.Fence <= before.Fence {
				t.Errorf("the fence is %d, after %d of a lease that was released meanwhile", lease.Fence, before.Fence)
			}
			if lease.AcquiredAt.Before(end) || lease.ExpiresAt.Before(end.Add(time.Hour)) {
				t.Errorf("the lease begins at %v, before the end of the wait at %v", lease.AcquiredAt, end)
			}
		})
	}
}

// Contenders acquire and release one key. The naive way, which they also go, and which deletes
// the row each time, takes the next value of a sequence and then the row.
func TestLeaseTokensOfContenders(t *testing.T) {
	t.Parallel()
	const contenders, enough = 12, 100
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: contenders})
	ctx := await.Context(t)
	naive := naivePool(t, store)
	pgtest.Exec(t, naive, "CREATE TABLE naive (name text PRIMARY KEY, fence bigint); CREATE SEQUENCE naive_tokens")
	notLarger := func(acquire func() (int64, error), release func(fence int64) error) (smaller int32) {
		var last atomic.Int64
		var times, wrong atomic.Int32
		var running sync.WaitGroup
		for range contenders {
			running.Go(func() {
				for times.Load() < enough {
					fence, err := acquire()
					if errors.Is(err, repo.ErrConflict) || errors.Is(err, pgx.ErrNoRows) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					times.Add(1)
					if last.Swap(fence) >= fence {
						wrong.Add(1)
					}
					if err := release(fence); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		running.Wait()
		return wrong.Load()
	}
	smaller := notLarger(func() (int64, error) {
		lease, err := acquireA(ctx, store, repo.NewID().String())
		return lease.Fence, err
	}, func(fence int64) error { return store.Leases().Release(ctx, repo.Lease{Key: leaseOfA, Fence: fence}) })
	if smaller > 0 {
		t.Errorf("%d fences were not larger than the one before", smaller)
	}
	smaller = notLarger(func() (fence int64, err error) {
		// The pause is one that the server may make between any two steps.
		err = naive.QueryRow(ctx, `WITH given AS MATERIALIZED (SELECT nextval('naive_tokens') AS fence),
			paused AS MATERIALIZED (SELECT fence, pg_sleep(random() * 0.003) FROM given)
			INSERT INTO naive (name, fence) SELECT 'a', p.fence FROM paused p ON CONFLICT DO NOTHING RETURNING fence`).Scan(&fence)
		return fence, err
	}, func(int64) error { _, err := naive.Exec(ctx, "DELETE FROM naive"); return err })
	if smaller == 0 {
		t.Error("the naive fences grow: this test would not find one that does not")
	}
}

// A renewal that waits until the lease has expired does not bring it back: here for a
// transaction that has released it, and is rolled back.
func TestLeaseRenewedTooLate(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store, pool := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 4}), pgtest.NewPool(t, databaseURL)
	for life := 1; ; life *= 2 { // in seconds, until it is long enough for the renewal to begin to wait
		lease := mustAcquireA(t, store, "late")
		pgtest.Exec(t, pool, "UPDATE leases SET expires_at = clock_timestamp() + interval '1 s' * $1", life)
		tx := beginTx(t, store)
		released, err := postgres.Bind(tx).Leases().ReleaseAll(t.Context(), "late")
		if err != nil {
			t.Fatal(err)
		}
		inTime := false
		renewed := make(chan error, 1)
		if released == 1 {
			go func() {
				_, err := store.Leases().Renew(t.Context(), lease, 0)
				renewed <- err
			}()
			awaitLockWait(t, pool)
			inTime = pgtest.Value[bool](t, pool, "SELECT expires_at > clock_timestamp() FROM leases")
			await.For(t, "the lease expires", func() bool {
				return pgtest.Value[bool](t, pool, "SELECT expires_at <= clock_timestamp() FROM leases")
			})
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if released == 1 {
			if lost, ok := errors.AsType[*repo.LeaseLostError](await.Value(t, "the renewal", renewed)); !ok || lost.Fence != lease.Fence {
				t.Errorf("renewed: %v", lost)
			}
		}
		if inTime {
			return
		}
	}
}

// Where the clock is behind, a fence is still larger than the one before: the row of the key
// counts, and the fence of the session or plan, also if there is no row.
func TestLeaseTokensWhereTheClockIsBehind(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	const ahead = int64(1) << 52 // microseconds: in the year 2112
	wants := func(lease repo.Lease, want int64) {
		t.Helper()
		if lease.Fence != want {
			t.Errorf("the fence of %+v is not %d", lease, want)
		}
	}
	first := mustAcquireA(t, store, "first")
	pgtest.Exec(t, store.Pool(), "UPDATE leases SET fence = $1", ahead)
	first.Fence = ahead
	if err := store.Leases().Release(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	wants(mustAcquireA(t, store, "second"), ahead+1)

	session := pgtest.NewSession(t, store)
	pgtest.Exec(t, store.Pool(), "UPDATE session_counters SET fence = $1", ahead)
	wants(acquireFor(t, store, repo.SessionLease(session)), ahead+1)

	plan := queuePlans(t, store, "queue", 1)[0]
	pgtest.Exec(t, store.Pool(), "UPDATE plans SET fence = $1", ahead)
	wants(acquireFor(t, store, repo.PlanLease(plan)), ahead+1)
	pgtest.Exec(t, store.Pool(), "UPDATE leases SET expires_at = now(), fence = fence + 1")
	wants(claimOne(t, store, "queue").Lease, ahead+3)
	if _, err := store.Plans().Transition(t.Context(), plan, repo.TransitionComplete, repo.Cause{Fence: ahead + 3}); err != nil {
		t.Fatal(err)
	}
	wants(acquireFor(t, store, repo.PlanLease(plan)), ahead+4)
}

// Rows that have been free for a day are removed, a few with each release, which skips
// locked ones. A release in a caller's transaction removes none.
func TestLeaseRowsThatWereFreeForADay(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 3})
	pgtest.Exec(t, store.Pool(), `INSERT INTO leases (kind, name, fence, acquired_at, expires_at)
		SELECT 'project', n, n, now() - interval '1 hour' * n, '-infinity' FROM generate_series(13, 36) AS n`)
	wants := func(want string) {
		t.Helper()
		if got := pgtest.Value[string](t, store.Pool(), "SELECT concat_ws(' ', count(*), min(fence), max(fence)) FROM leases WHERE kind = 'project' AND name <> 'a'"); got != want {
			t.Errorf("free rows: number, youngest, oldest: %s; want %s", got, want)
		}
	}
	release := func(r repo.Repositories) {
		t.Helper()
		if err := r.Leases().Release(t.Context(), mustAcquireA(t, r, "x")); err != nil {
			t.Fatal(err)
		}
	}
	tx := beginTx(t, store)
	release(postgres.Bind(tx))
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wants("24 13 36")
	release(store)
	wants("20 13 32")
	tx = beginTx(t, store)
	pgtest.Exec(t, tx, "SELECT FROM leases WHERE name = '32' FOR UPDATE")
	for range 4 {
		release(store)
	}
	wants("12 13 32")
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Leases().ReleaseAll(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	wants("11 13 23")
	if page, err := store.Leases().List(t.Context(), repo.LeaseFilter{}, repo.Page{}); err != nil || len(page.Items) > 0 {
		t.Errorf("free rows are listed: %+v, %v", page.Items, err)
	}
}

// A renewal is heap-only: it writes to no index. With an index on what it changes it is not.
func TestLeaseRenewalsAreHeapOnly(t *testing.T) {
	t.Parallel()
	const renewals = 100
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 2})
	held := mustAcquireA(t, store, "x")
	heapOnly := func() (updates, hot int64) {
		before, hotBefore := updated(t, store)
		for range renewals {
			if _, err := store.Leases().Renew(t.Context(), held, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		await.For(t, "the updates are counted", func() bool {
			updates, hot = updated(t, store)
			return updates-before >= renewals
		})
		return updates - before, hot - hotBefore
	}
	await.For(t, "the acquisition is counted", func() bool { updates, _ := updated(t, store); return updates > 0 })
	if updates, hot := heapOnly(); hot < updates*95/100 {
		t.Errorf("of %d updates %d were heap-only", updates, hot)
	}
	pgtest.Exec(t, store.Pool(), "CREATE INDEX ON leases (expires_at)")
	if updates, hot := heapOnly(); hot > updates/2 {
		t.Errorf("of %d updates of an indexed column %d were heap-only: this test checks nothing", updates, hot)
	}
}

// updated returns how many rows of leases were updated, and how many of these heap-only.
func updated(t *testing.T, store *agentstore.Store) (updates, hot int64) {
	t.Helper()
	err := store.Pool().QueryRow(t.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'leases'").Scan(&updates, &hot)
	if err != nil {
		t.Fatal(err)
	}
	return updates, hot
}

// In a transaction that began long ago, a lease lives as long as in any other, and one
// that has expired since is free.
// Guarantee: Leases: Expiry is judged by the database's clock, after the wait.
func TestLeaseInAnOldTransaction(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	tx, err := store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	first := mustAcquireA(t, store, "first")
	pgtest.Exec(t, store.Pool(), "UPDATE leases SET expires_at = clock_timestamp()")
	pgtest.Exec(t, tx, "SELECT pg_sleep(0.01)")
	second := mustAcquireA(t, postgres.Bind(tx), "second")
	began := pgtest.Value[time.Time](t, tx, "SELECT now()")
	if second.Fence <= first.Fence || second.AcquiredAt.Sub(began) < 10*time.Millisecond || second.ExpiresAt.Sub(began) < time.Hour+10*time.Millisecond {
		t.Errorf("acquired %+v in a transaction that began at %v", second, began)
	}
}

// In a transaction of a higher level, what others did since its snapshot is not
// overlooked: the transaction is aborted.
func TestLeaseAtHigherLevels(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for name, test := range map[string]struct {
			others func() error
			own    func(r repo.Repositories, held repo.Lease) error
			// fine: it succeeds, or fails, as at read committed.
			fine bool
		}{
			"acquired by another": {
				others: func() error { return nil },
				own:    func(r repo.Repositories, _ repo.Lease) error { _, err := acquireA(ctx, r, "own"); return err },
			},
			"released by another": {
				others: func() error { _, err := store.Leases().ReleaseAll(ctx, "other"); return err },
				own:    func(r repo.Repositories, _ repo.Lease) error { _, err := acquireA(ctx, r, "own"); return err },
			},
			"released beside": {
				others: func() error { return nil },
				own:    func(r repo.Repositories, held repo.Lease) error { return r.Leases().Release(ctx, held) },
				fine:   true,
			},
		} {
			pgtest.Exec(t, store.Pool(), "DELETE FROM leases")
			tx, err := store.Pool().BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			pgtest.Exec(t, tx, "SELECT FROM leases") // the snapshot
			held := mustAcquireA(t, store, "other")
			if err := test.others(); err != nil {
				t.Fatal(err)
			}
			err = test.own(postgres.Bind(tx), held)
			if test.fine && err != nil || !test.fine && !errors.Is(err, repo.ErrContention) {
				t.Errorf("%s at %s: %v", name, level, err)
			}
			_ = tx.Rollback(ctx)
		}
	}
}

// The answer to each piece of an operation is lost. It is repeated: the lease is the same.
// Guarantee: Leases: A lost acquisition is asked for again, and gives the same lease.
func TestLeaseAnswersLost(t *testing.T) {
	t.Parallel()
	direct := pgtest.NewDatabase(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	network := pgtest.NewLosing(t, u.Host)
	u.Host = network.Addr
	store, other := pgtest.OpenStore(t, u.String(), agentstore.Options{MaxConns: 1}), pgtest.OpenStore(t, direct, agentstore.Options{})
	held := mustAcquireA(t, store, "own")
	for name, operation := range map[string]func() error{
		"acquire": func() error {
			again, err := acquireA(t.Context(), store, "own")
			if err == nil && again.Fence != held.Fence {
				t.Errorf("acquired again: fence %d, not %d", again.Fence, held.Fence)
			}
			return err
		},
		"renew": func() error { _, err := store.Leases().Renew(t.Context(), held, 0); return err },
	} {
		for piece, lost := int32(1), true; lost; piece++ {
			network.Lose(piece, false)
			err := operation()
			if lost = network.Stop(); err != nil {
				t.Errorf("%s, the answer to piece %d lost: %v", name, piece, err)
			}
		}
	}
	network.Left.Store(1)
	if err := store.Leases().Release(t.Context(), held); err != nil {
		t.Error(err)
	}
	if page, err := other.Leases().List(t.Context(), repo.LeaseFilter{}, repo.Page{}); err != nil || len(page.Items) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

// An acquisition is sent, its connection breaks, and it is sent again, when another owner
// has the lease. It may arrive when that one has released it.
func TestLeaseAttemptArrivesLate(t *testing.T) {
	t.Parallel()
	direct := pgtest.NewDatabase(t)
	network, through := newDelay(t, direct)
	store, other := pgtest.OpenStore(t, through, agentstore.Options{MaxConns: 1}), pgtest.OpenStore(t, direct, agentstore.Options{})
	held := mustAcquireA(t, other, "other")
	if _, err := acquireA(t.Context(), store, "own"); !errors.Is(err, repo.ErrConflict) { // prepares the statement
		t.Fatal(err)
	}
	network.arm(store)
	_, err := acquireA(t.Context(), store, "own")
	if !errors.Is(err, repo.ErrUnknownOutcome) || errors.Is(err, repo.ErrConflict) {
		t.Errorf("got %v, want %v", err, repo.ErrUnknownOutcome)
	}
	if err := other.Leases().Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	close(network.release)
	await.For(t, "the first attempt arrives", func() bool {
		page, err := other.Leases().List(t.Context(), repo.LeaseFilter{Owner: "own"}, repo.Page{})
		return err == nil && len(page.Items) == 1
	})
}

// Leases that are listed as held do not say that they have expired, also if they expire
// while the list is read.
func TestLeaseListAtTheExpiry(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 2})
	// Without indexes the list is sorted: all rows are selected before the first is returned.
	pgtest.Exec(t, store.Pool(), "ALTER TABLE leases DROP CONSTRAINT leases_pkey; DROP INDEX leases_namespace_owner_kind_name_idx")
	pgtest.Exec(t, store.Pool(), `INSERT INTO leases (name, kind, owner, fence, acquired_at, expires_at)
		SELECT n::text, 'k', 'o', n, now(), now() FROM generate_series(1, 2000) AS n`)
	for range 10 {
		pgtest.Exec(t, store.Pool(), "UPDATE leases SET expires_at = clock_timestamp() + interval '20 ms'")
		for listed := 1; listed > 0; {
			page, err := store.Leases().List(t.Context(), repo.LeaseFilter{Held: true}, repo.Page{Limit: repo.MaxPageSize})
			if err != nil {
				t.Fatal(err)
			}
			if listed = len(page.Items); slices.ContainsFunc(page.Items, func(l repo.Lease) bool { return l.Expired }) {
				t.Fatal("a lease that is held has expired")
			}
		}
	}
}
