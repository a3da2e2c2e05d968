package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// One transaction holds 100 sessions and an append waits for each. Appends to other
// sessions continue, and few connections wait. When the transaction ends, having
// deleted one of the sessions, each append gets the right result.
// Guarantee: Held sessions: With 100 held sessions at most a quarter of the pool waits.
func TestManyHeldSessions(t *testing.T) {
	t.Parallel()
	const held = 100
	for _, connections := range []int{1, 2, 4, 16} {
		t.Run(fmt.Sprint(connections, " connections"), func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			holder := pgtest.NewPool(t, databaseURL)
			store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: connections})
			ids := make([]repo.ID, held+20)
			for i := range ids {
				ids[i] = pgtest.NewSession(t, store)
			}
			tx, err := holder.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.Background()) }()
			for _, id := range ids[:held] {
				if _, err := postgres.Bind(tx).Sessions().Append(t.Context(), id, user("in the transaction")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := postgres.Bind(tx).Sessions().Delete(t.Context(), ids[0]); err != nil {
				t.Fatal(err)
			}

			results := make([][2]error, held)
			var waiting, others sync.WaitGroup
			for i, id := range ids[:held] {
				for k := range results[i] {
					waiting.Go(func() { _, results[i][k] = store.Sessions().Append(t.Context(), id, user("waits")) })
				}
			}
			// One more for each append whose caller gives up.
			for _, id := range ids[:held] {
				waiting.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
					defer cancel()
					if _, err := store.Sessions().Append(ctx, id, user("gives up")); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("an append that gives up: %v", err)
					}
				})
			}
			time.Sleep(300 * time.Millisecond)
			locks := pgtest.Value[int](t, holder, `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`)
			if most := connections / 4; locks > most {
				t.Errorf("%d connections of %d wait for locks", locks, connections)
			}
			for _, id := range ids[held:] {
				others.Go(func() {
					for range 10 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						if _, err := store.Sessions().Append(ctx, id, user("another")); err != nil {
							t.Errorf("an append to another session: %v", err)
						}
						cancel()
					}
				})
			}
			// Reads and appends to a missing session are not affected either.
			others.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := store.Sessions().Append(ctx, repo.NewID(), user("nowhere")); !errors.Is(err, repo.ErrNotFound) {
					t.Errorf("an append to no session: %v", err)
				}
				if _, err := store.Sessions().Get(ctx, ids[0]); err != nil {
					t.Errorf("a read: %v", err)
				}
			})
			others.Wait()
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			waiting.Wait()
			for i, errs := range results {
				for _, err := range errs {
					if i == 0 && !errors.Is(err, repo.ErrNotFound) || i > 0 && err != nil {
						t.Errorf("session %d: %v", i, err)
					}
				}
			}
			for i, id := range ids[1:held] {
				if count := pgtest.CountDense(t, store, id); count < 3 || count > 4 {
					t.Errorf("session %d has %d messages", i, count)
				}
			}
		})
	}
}

// Transactions leave one connection of a pool of 4, and for each of their sessions an
// append has waited since the first began: appends to other sessions use that
// connection.
// Guarantee: Held sessions: A waiting append gives up its connection if transactions need it.
func TestTransactionsAndWaiters(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	other := pgtest.NewSession(t, store)
	var open, waiting sync.WaitGroup
	held, end := make(chan struct{}, 3), make(chan struct{})
	for range 3 {
		id := pgtest.NewSession(t, store)
		open.Go(func() {
			if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
				_, err := tx.Sessions().Append(ctx, id, user("in the transaction"))
				held <- struct{}{}
				<-end
				return err
			}); err != nil {
				t.Error(err)
			}
		})
		<-held
		waiting.Go(func() {
			if _, err := store.Sessions().Append(t.Context(), id, user("waits")); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(50 * time.Millisecond) // until it waits, which cannot always be observed
	}
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // an append to a held session would wait forever
		if _, err := store.Sessions().Append(ctx, other, user("another")); err != nil {
			t.Errorf("an append to another session: %v", err)
		}
		cancel()
	}
	close(end)
	open.Wait()
	waiting.Wait()
}

// A waiting append that uses the pool's last connection but one gives it up when a
// transaction has taken the last: for a read, an append, or the next transaction.
func TestWaiterLeavesAConnection(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{3, 4, 8} {
		for name, operation := range map[string]func(ctx context.Context, store *agentstore.Store, id repo.ID) error{
			"read": func(ctx context.Context, store *agentstore.Store, id repo.ID) error {
				_, err := store.Sessions().Get(ctx, id)
				return err
			},
			"transaction": func(ctx context.Context, store *agentstore.Store, _ repo.ID) error {
				return store.InTx(ctx, func(context.Context, repo.Repositories) error { return nil })
			},
		} {
			t.Run(fmt.Sprint(name, " of ", connections), func(t *testing.T) {
				t.Parallel()
				databaseURL := pgtest.NewDatabase(t)
				holder := pgtest.NewPool(t, databaseURL)
				store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: connections})
				id, other := pgtest.NewSession(t, store), pgtest.NewSession(t, store)
				release := hold(t, holder, id)
				var open, waiting sync.WaitGroup
				waiting.Go(func() {
					if _, err := store.Sessions().Append(t.Context(), id, user("waits")); err != nil {
						t.Error(err)
					}
				})
				awaitLockWait(t, holder)
				held, end := make(chan struct{}), make(chan struct{})
				for range connections - 1 {
					open.Go(func() {
						if err := store.InTx(t.Context(), func(context.Context, repo.Repositories) error {
							held <- struct{}{}
							<-end
							return nil
						}); err != nil {
							t.Error(err)
						}
					})
					<-held
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := operation(ctx, store, other); err != nil {
					t.Errorf("with %d transactions open: %v", connections-1, err)
				}
				close(end)
				open.Wait()
				release()
				waiting.Wait()
			})
		}
	}
}

// Sessions that are held for long, and for which appends wait, do not take the
// waiting connections from a session that other processes append to.
// Guarantee: Held sessions: Held sessions take no turns from one that other processes write.
func TestContendedBesideHeld(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	holder := pgtest.NewPool(t, databaseURL)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 4})
	shared := pgtest.NewSession(t, store)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for range 3 {
		id := pgtest.NewSession(t, store)
		defer hold(t, holder, id)()
		waiting.Go(func() {
			if _, err := store.Sessions().Append(t.Context(), id, user("waits")); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(100 * time.Millisecond) // until they wait, which cannot always be observed
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	for range 4 { // as other processes, whose appends all wait for the row
		pool := pgtest.NewPool(t, databaseURL)
		for range 2 {
			others.Go(func() {
				for ctx.Err() == nil {
					_ = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
						_, err := postgres.Bind(tx).Sessions().Append(ctx, shared, user("from another process"))
						return err
					})
				}
			})
		}
	}
	time.Sleep(3 * time.Second) // until it is known which sessions are held for long
	// If the held sessions took their turns, each append would wait for three of 250 ms.
	const appends, bound = 20, 12 * time.Second
	begin, longest := time.Now(), time.Duration(0)
	for range appends {
		start := time.Now()
		if _, err := store.Sessions().Append(t.Context(), shared, user("waits its turn")); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(start))
	}
	t.Logf("%d appends in %v, the longest %v", appends, time.Since(begin), longest)
	if time.Since(begin) > bound {
		t.Errorf("%d appends took %v beside sessions that are held, the longest %v", appends, time.Since(begin), longest)
	}
}

// An append at a sequence waits like any other, and is answered according to what it
// then finds.
func TestHeldAppendAt(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{1, 4} {
		databaseURL := pgtest.NewDatabase(t)
		holder := pgtest.NewPool(t, databaseURL)
		store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: connections})
		id := pgtest.NewSession(t, store)
		tx, err := holder.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		given := user("given")
		given.ID = repo.NewID()
		if _, err := postgres.Bind(tx).Sessions().Append(t.Context(), id, given); err != nil {
			t.Fatal(err)
		}
		results := make([]error, 3)
		var waiting sync.WaitGroup
		waiting.Go(func() { _, results[0] = appendAt(t.Context(), store.Sessions(), id, 0, user("too late")) })
		waiting.Go(func() { _, results[1] = appendAt(t.Context(), store.Sessions(), id, 1, user("fits")) })
		waiting.Go(func() { _, results[2] = store.Sessions().Append(t.Context(), id, given) })
		time.Sleep(100 * time.Millisecond)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		waiting.Wait()
		if _, ok := errors.AsType[*repo.SequenceConflictError](results[0]); !ok || results[1] != nil || results[2] != nil {
			t.Errorf("%d connections: %v", connections, results)
		}
	}
}
