package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
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
			ids := newSessions(t, store, held+20)
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
			var waiting, leaving, others sync.WaitGroup
			for i, id := range ids[:held] {
				for k := range results[i] {
					waiting.Go(func() { _, results[i][k] = store.Sessions().Append(t.Context(), id, user("waits")) })
				}
			}
			// One more for each append whose caller gives up.
			givingUp, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			for _, id := range ids[:held] {
				leaving.Go(func() {
					if _, err := store.Sessions().Append(givingUp, id, user("gives up")); !errors.Is(err, context.Canceled) {
						t.Errorf("an append that gives up: %v", err)
					}
				})
			}
			fewWait := func() {
				locks := pgtest.Value[int](t, holder, `SELECT count(*) FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock'`)
				if most := connections / 4; locks > most {
					t.Errorf("%d connections of %d wait for locks", locks, connections)
				}
			}
			await.For(t, "the sessions are known to be held", func() bool { fewWait(); return heldWrites(store).Locked >= 2*held })
			giveUp()
			leaving.Wait()
			fewWait()
			ctx := await.Context(t) // the sessions stay held until these have come back
			for _, id := range ids[held:] {
				others.Go(func() {
					for range 10 {
						if _, err := store.Sessions().Append(ctx, id, user("another")); err != nil {
							t.Errorf("an append to another session: %v", err)
						}
					}
				})
			}
			// Reads and appends to a missing session are not affected either.
			others.Go(func() {
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

// heldWrites returns what is known of the appends of a store.
func heldWrites(store *agentstore.Store) postgres.CommitterStats {
	for _, stats := range store.Stats().Committers {
		if stats.Kind == "append" {
			return stats
		}
	}
	return postgres.CommitterStats{}
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
	for i := range 3 {
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
		await.For(t, "it waits", func() bool { stats := heldWrites(store); return stats.Locked+stats.Groups > i })
	}
	for range 20 {
		if _, err := store.Sessions().Append(await.Context(t), other, user("another")); err != nil {
			t.Errorf("an append to another session: %v", err)
		}
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
					await.Value(t, "a transaction begins", held)
				}
				if err := operation(await.Context(t), store, other); err != nil {
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
// Guarantee: Held sessions: Held sessions do not slow a session that other processes write.
func TestContendedBesideHeld(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	holder, seen := pgtest.NewPool(t, databaseURL), newRecorder()
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 4, Observer: seen})
	shared := pgtest.NewSession(t, store)
	begin := time.Now()
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for range 3 {
		id := pgtest.NewSession(t, store)
		defer hold(t, holder, id)()
		waiting.Go(func() {
			ctx := context.WithValue(t.Context(), ctxKey("caller"), "held")
			if _, err := store.Sessions().Append(ctx, id, user("waits")); err != nil {
				t.Error(err)
			}
		})
	}
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
	for range 30 {
		if _, err := store.Sessions().Append(await.Context(t), shared, user("waits its turn")); err != nil {
			t.Fatal(err)
		}
	}
	// After each turn, of 250 ms, a held session rests: first for 5 s, and then for twice as long as before.
	// Otherwise each of the appends would wait for a turn of each of them.
	took, turns, most := time.Since(begin), 0, 3
	for rests := 5 * time.Second; rests < 2*took+10*time.Second; rests *= 2 {
		most += 3
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for _, group := range seen.groups {
		if group.Waits && slices.Contains(group.callers, any("held")) {
			turns++
		}
	}
	t.Logf("%d turns of held sessions in %v", turns, took)
	if turns > most {
		t.Errorf("held sessions took %d turns in %v, want %d at most", turns, took, most)
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
		results, waits := make([]error, 3), awaitsRow(t, store, holder)
		var waiting sync.WaitGroup
		waiting.Go(func() { _, results[0] = appendAt(t.Context(), store.Sessions(), id, 0, user("too late")) })
		waiting.Go(func() { _, results[1] = appendAt(t.Context(), store.Sessions(), id, 1, user("fits")) })
		waiting.Go(func() { _, results[2] = store.Sessions().Append(t.Context(), id, given) })
		waits()
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		waiting.Wait()
		if _, ok := errors.AsType[*repo.SequenceConflictError](results[0]); !ok || results[1] != nil || results[2] != nil {
			t.Errorf("%d connections: %v", connections, results)
		}
	}
}
