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
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

var leaseOfA = repo.LeaseKey{Kind: "project", Name: "a"}

// turnOfA is how a statement waits for those that change the lease before it.
const turnOfA = "SELECT pg_advisory_xact_lock(hashtextextended('a', hashtext('project')))"

// holdTurn makes others wait for the turn until the returned transaction ends.
func holdTurn(t *testing.T, store *agentstore.Store) pgx.Tx {
	t.Helper()
	tx, err := store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	pgtest.Exec(t, tx, turnOfA)
	return tx
}

func awaitWaiting(t *testing.T, store *agentstore.Store) {
	t.Helper()
	pgtest.Await(t, time.Minute, "a statement waits for its turn", func() bool {
		return pgtest.Value[bool](t, store.Pool(), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
	})
}

func acquireA(ctx context.Context, r repo.Repositories, owner string) (repo.Lease, error) {
	return r.Leases().Acquire(ctx, repo.NewLease{Key: leaseOfA, Owner: owner, TTL: time.Minute})
}

func mustAcquireA(t *testing.T, r repo.Repositories, owner string) repo.Lease {
	t.Helper()
	lease, err := acquireA(t.Context(), r, owner)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// A statement takes its token, and reads the clock, after it has waited for others: also
// if they leave no row behind.
func TestLeaseTokenAfterTheWait(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	tx := holdTurn(t, store)
	acquired := make(chan repo.Lease, 1)
	go func() {
		lease, err := acquireA(t.Context(), store, "waits")
		if err != nil {
			t.Error(err)
		}
		acquired <- lease
	}()
	awaitWaiting(t, store)
	pgtest.Exec(t, tx, `INSERT INTO leases (name, kind, owner, token, acquired_at, expires_at)
		VALUES ('a', 'project', 'before', nextval('lease_tokens'), clock_timestamp(), clock_timestamp() + interval '1 minute')`)
	token := pgtest.Value[int64](t, tx, "DELETE FROM leases RETURNING token")
	end := pgtest.Value[time.Time](t, tx, "SELECT clock_timestamp()")
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	lease := <-acquired
	if lease.Token <= token {
		t.Errorf("the token is %d, after %d of a lease that was released meanwhile", lease.Token, token)
	}
	if lease.AcquiredAt.Before(end) || lease.ExpiresAt.Before(end.Add(time.Minute)) {
		t.Errorf("the lease begins at %v, before the end of the wait at %v", lease.AcquiredAt, end)
	}
}

// Contenders acquire and release one key, whose row is deleted each time. The naive way,
// which they also go, takes the next value of a sequence and then the row.
func TestLeaseTokensOfContenders(t *testing.T) {
	t.Parallel()
	const contenders, enough = 12, 100
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: contenders})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	naive := naivePool(t, store)
	pgtest.Exec(t, naive, "CREATE TABLE naive (name text PRIMARY KEY, token bigint); CREATE SEQUENCE naive_tokens")
	notLarger := func(acquire func() (int64, error), release func(token int64) error) (smaller int32) {
		var last atomic.Int64
		var times, wrong atomic.Int32
		var running sync.WaitGroup
		for range contenders {
			running.Go(func() {
				for times.Load() < enough && ctx.Err() == nil {
					token, err := acquire()
					if errors.Is(err, repo.ErrConflict) || errors.Is(err, pgx.ErrNoRows) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					times.Add(1)
					if last.Swap(token) >= token {
						wrong.Add(1)
					}
					if err := release(token); err != nil {
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
		return lease.Token, err
	}, func(token int64) error { return store.Leases().Release(ctx, repo.Lease{Key: leaseOfA, Token: token}) })
	if smaller > 0 {
		t.Errorf("%d tokens were not larger than the one before", smaller)
	}
	smaller = notLarger(func() (token int64, err error) {
		// The pause is one that the server may make between any two steps.
		err = naive.QueryRow(ctx, `WITH given AS MATERIALIZED (SELECT nextval('naive_tokens') AS token),
			paused AS MATERIALIZED (SELECT token, pg_sleep(random() * 0.003) FROM given)
			INSERT INTO naive (name, token) SELECT 'a', p.token FROM paused p ON CONFLICT DO NOTHING RETURNING token`).Scan(&token)
		return token, err
	}, func(int64) error { _, err := naive.Exec(ctx, "DELETE FROM naive"); return err })
	if smaller == 0 {
		t.Error("the naive tokens grow: this test would not find one that does not")
	}
}

// A renewal that waits until the lease has expired does not bring it back: for its turn,
// or for the row, which a transaction has released that is rolled back.
func TestLeaseRenewedTooLate(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(t *testing.T, tx pgx.Tx){
		"turn": func(t *testing.T, tx pgx.Tx) { pgtest.Exec(t, tx, turnOfA) },
		"row": func(t *testing.T, tx pgx.Tx) {
			if released, err := postgres.Bind(tx).Leases().ReleaseAll(t.Context(), "late"); err != nil || released != 1 {
				t.Fatalf("released %d, %v", released, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			store, pool := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 4}), pgtest.NewPool(t, databaseURL)
			lease := mustAcquireA(t, store, "late")
			pgtest.Exec(t, pool, "UPDATE leases SET expires_at = clock_timestamp() + interval '1 s'")
			tx, err := store.Pool().Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			wait(t, tx)
			renewed := make(chan error, 1)
			go func() {
				_, err := store.Leases().Renew(t.Context(), lease, 0)
				renewed <- err
			}()
			awaitLockWait(t, pool)
			pgtest.Await(t, time.Minute, "the lease expires", func() bool {
				return pgtest.Value[bool](t, pool, "SELECT expires_at <= clock_timestamp() FROM leases")
			})
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if lost, ok := errors.AsType[*repo.LeaseLostError](<-renewed); !ok || lost.Token != lease.Token {
				t.Errorf("renewed: %v", lost)
			}
		})
	}
}

// In a transaction that began long ago, a lease lives as long as in any other, and one
// that has expired since is free.
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
	if second.Token <= first.Token || second.AcquiredAt.Sub(began) < 10*time.Millisecond || second.ExpiresAt.Sub(began) < time.Minute+10*time.Millisecond {
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
				fine:   true,
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
func TestLeaseAnswersLost(t *testing.T) {
	t.Parallel()
	direct := pgtest.NewDatabase(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	network := newLosing(t, u.Host)
	u.Host = network.listener.Addr().String()
	store, other := pgtest.OpenStore(t, u.String(), agentstore.Options{MaxConns: 1}), pgtest.OpenStore(t, direct, agentstore.Options{})
	held := mustAcquireA(t, store, "own")
	for name, operation := range map[string]func() error{
		"acquire": func() error {
			again, err := acquireA(t.Context(), store, "own")
			if err == nil && again.Token != held.Token {
				t.Errorf("acquired again: token %d, not %d", again.Token, held.Token)
			}
			return err
		},
		"renew": func() error { _, err := store.Leases().Renew(t.Context(), held, 0); return err },
	} {
		for piece, lost := int32(1), true; lost; piece++ {
			network.lost.Store(false)
			network.left.Store(piece)
			err := operation()
			network.left.Store(0)
			if lost = network.lost.Load(); err != nil {
				t.Errorf("%s, the answer to piece %d lost: %v", name, piece, err)
			}
		}
	}
	network.left.Store(1)
	if err := store.Leases().Release(t.Context(), held); err != nil {
		t.Error(err)
	}
	if page, err := other.Leases().List(t.Context(), repo.LeaseFilter{}, repo.Page{}); err != nil || len(page.Leases) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

// An acquisition is sent, its connection breaks, and it is sent again, when somebody else
// has the lease. It may arrive when that one has released it.
func TestLeaseAttemptArrivesLate(t *testing.T) {
	t.Parallel()
	direct := pgtest.NewDatabase(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	network := newDelay(t, u.Host)
	u.Host = network.listener.Addr().String()
	store, other := pgtest.OpenStore(t, u.String(), agentstore.Options{MaxConns: 1}), pgtest.OpenStore(t, direct, agentstore.Options{})
	held := mustAcquireA(t, other, "other")
	if _, err := acquireA(t.Context(), store, "own"); !errors.Is(err, repo.ErrConflict) { // prepares the statement
		t.Fatal(err)
	}
	network.arm(store)
	_, err = acquireA(t.Context(), store, "own")
	if !errors.Is(err, repo.ErrUnknownOutcome) || errors.Is(err, repo.ErrConflict) {
		t.Errorf("got %v, want %v", err, repo.ErrUnknownOutcome)
	}
	if err := other.Leases().Release(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	close(network.release)
	pgtest.Await(t, time.Minute, "the first attempt arrives", func() bool {
		page, err := other.Leases().List(t.Context(), repo.LeaseFilter{Owner: "own"}, repo.Page{})
		return err == nil && len(page.Leases) == 1
	})
}

// Leases that are listed as held do not say that they have expired, also if they expire
// while the list is read.
func TestLeaseListAtTheExpiry(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 2})
	// Without indexes the list is sorted: all rows are selected before the first is returned.
	pgtest.Exec(t, store.Pool(), "ALTER TABLE leases DROP CONSTRAINT leases_pkey; DROP INDEX leases_kind_name_idx, leases_owner_name_kind_idx")
	pgtest.Exec(t, store.Pool(), `INSERT INTO leases (name, kind, owner, token, acquired_at, expires_at)
		SELECT n::text, 'k', 'o', n, now(), now() FROM generate_series(1, 2000) AS n`)
	for range 10 {
		pgtest.Exec(t, store.Pool(), "UPDATE leases SET expires_at = clock_timestamp() + interval '20 ms'")
		for listed := 1; listed > 0; {
			page, err := store.Leases().List(t.Context(), repo.LeaseFilter{Status: repo.LeaseHeld}, repo.Page{Limit: repo.MaxPageSize})
			if err != nil {
				t.Fatal(err)
			}
			if listed = len(page.Leases); slices.ContainsFunc(page.Leases, func(l repo.Lease) bool { return l.Expired }) {
				t.Fatal("a lease that is held has expired")
			}
		}
	}
}
