package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// openNarrow opens a store with one connection, which commits one group at a
// time, and a pool apart for the others who use its database.
func openNarrow(t *testing.T) (*agentstore.Store, *pgxpool.Pool) {
	t.Helper()
	databaseURL := pgtest.NewDatabase(t)
	others := pgtest.NewPool(t, databaseURL)
	return openURL(t, databaseURL, agentstore.Options{MaxConns: 1}), others
}

// stopWriters locks the messages against writers until the returned function is
// called, as a migration would: what is sent meanwhile waits, of whatever session.
func stopWriters(t *testing.T, pool *pgxpool.Pool) (release func()) {
	t.Helper()
	return lock(t, pool, "LOCK TABLE messages IN SHARE MODE")
}

// hold locks a session's counter row until the returned function is called, as a
// writer in another process would.
func hold(t *testing.T, pool *pgxpool.Pool, id repo.ID) (release func()) {
	t.Helper()
	return lock(t, pool, "SELECT FROM session_counters WHERE session_id = $1 FOR UPDATE", uuidText(id))
}

func lock(t *testing.T, pool *pgxpool.Pool, statement string, args ...any) (release func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// awaitLockWait waits until a statement waits for a lock.
func awaitLockWait(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var waiting bool
		if err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if waiting {
			return
		}
	}
	t.Fatal("nothing waits for the lock")
}

// An append whose context ends while it is at the server has an unknown outcome;
// one that still waits behind it is withdrawn.
func TestWithdrawnAndUnknown(t *testing.T) {
	t.Parallel()
	store, others := openNarrow(t)
	id := newSession(t, store)
	release := stopWriters(t, others)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// A context of its own, which ends first: what waits is sent as soon
	// as the one at the server is gone.
	waiting, withdraw := context.WithCancel(t.Context())
	defer withdraw()
	results := make([]error, 2)
	var atServer, behind sync.WaitGroup
	atServer.Go(func() { _, results[0] = store.Sessions().Append(ctx, id, user("at the server")) })
	awaitLockWait(t, others)
	behind.Go(func() { _, results[1] = store.Sessions().Append(waiting, id, user("behind it")) })
	time.Sleep(50 * time.Millisecond) // it waits: there is nothing to see it by
	withdraw()
	behind.Wait()
	cancel()
	atServer.Wait()
	release()

	if !errors.Is(results[0], repo.ErrUnknownOutcome) || !errors.Is(results[0], context.Canceled) {
		t.Errorf("at the server: %v", results[0])
	}
	if errors.Is(results[1], repo.ErrUnknownOutcome) || !errors.Is(results[1], context.Canceled) {
		t.Errorf("behind it: %v", results[1])
	}
	// Appends go on, and what was withdrawn is not there.
	last, err := store.Sessions().Append(t.Context(), id, user("after"))
	if err != nil {
		t.Fatal(err)
	}
	messages, err := store.Sessions().MessagesFrom(t.Context(), id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range messages {
		if message.Content == "behind it" {
			t.Error("a withdrawn append was written")
		}
	}
	if last[0].Sequence != int64(len(messages))-1 {
		t.Errorf("sequence %d of %d", last[0].Sequence, len(messages))
	}
}

// A retry by id after an unknown outcome stores the message once, whether or not
// it had been committed.
func TestRetryAfterUnknownOutcome(t *testing.T) {
	t.Parallel()
	store := openStore(t, agentstore.Options{MaxConns: 8})
	id := newSession(t, store)
	for i := range 20 {
		message := user(fmt.Sprint("message ", i))
		message.ID = repo.NewID()
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
		_, err := store.Sessions().Append(ctx, id, message)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("append %d: %v", i, err)
		}
		if _, err := store.Sessions().Append(t.Context(), id, message); err != nil {
			t.Fatalf("retry %d: %v", i, err)
		}
	}
	session, err := store.Sessions().Get(t.Context(), id)
	if err != nil || session.MessageCount != 20 {
		t.Fatalf("%d messages, %v", session.MessageCount, err)
	}
}

// Among many appends of one group, those that fail get their own errors, and all
// others are stored.
func TestOneBadAppendFailsNoOther(t *testing.T) {
	t.Parallel()
	store, others := openNarrow(t) // all are neighbours
	ids := []repo.ID{newSession(t, store), newSession(t, store)}
	missing := repo.NewID()
	known := user("known")
	known.ID = repo.NewID()
	if _, err := store.Sessions().Append(t.Context(), ids[0], known); err != nil {
		t.Fatal(err)
	}
	other := known
	other.Content = "another content"

	release := stopWriters(t, others)
	var wg sync.WaitGroup
	check := func(name string, target any, run func() error) {
		wg.Go(func() {
			err := run()
			switch target := target.(type) {
			case nil:
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			case error:
				if !errors.Is(err, target) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	add := func(id repo.ID, message repo.NewMessage) func() error {
		return func() error { _, err := store.Sessions().Append(t.Context(), id, message); return err }
	}
	check("first", nil, add(ids[0], user("first")))
	awaitLockWait(t, others)
	for i := range 50 {
		check("plain", nil, add(ids[i%2], user("plain")))
	}
	check("missing session", repo.ErrNotFound, add(missing, user("x")))
	check("stored", nil, add(ids[0], known))
	check("stored with another content", repo.ErrConflict, add(ids[0], other))
	check("stale", repo.ErrConflict, func() error {
		_, err := store.Sessions().AppendAt(t.Context(), ids[0], 0, user("x"))
		return err
	})
	same := user("same id twice")
	same.ID = repo.NewID()
	check("same id", nil, add(ids[1], same))
	check("same id", nil, add(ids[1], same))
	time.Sleep(50 * time.Millisecond) // let them gather
	release()
	wg.Wait()

	for i, want := range []int64{1 + 1 + 25, 25 + 1} {
		session, err := store.Sessions().Get(t.Context(), ids[i])
		if err != nil || session.MessageCount != want {
			t.Errorf("session %d: %d messages, want %d, %v", i, session.MessageCount, want, err)
		}
	}
}

// A session with thousands of appends in the queue delays another's by one group
// at the most.
func TestFairness(t *testing.T) {
	t.Parallel()
	store, others := openNarrow(t)
	busy, quiet := newSession(t, store), newSession(t, store)
	release := stopWriters(t, others)
	var wg sync.WaitGroup
	add := func(id repo.ID) {
		wg.Go(func() {
			if _, err := store.Sessions().Append(t.Context(), id, user("x")); err != nil {
				t.Error(err)
			}
		})
	}
	for range 10_000 {
		add(busy)
	}
	awaitLockWait(t, others)
	time.Sleep(100 * time.Millisecond) // the busy session's appends fill the queue
	add(quiet)
	time.Sleep(50 * time.Millisecond)
	release()
	wg.Wait()
	// The time of a message is taken when its statement runs.
	var before int
	if err := store.Pool().QueryRow(t.Context(), `SELECT count(*) FROM messages b, messages q
		WHERE q.session_id = $1 AND b.session_id = $2 AND b.created_at < q.created_at`,
		uuidText(quiet), uuidText(busy)).Scan(&before); err != nil {
		t.Fatal(err)
	}
	// The group that was under way, which has up to 2,000 when it found nobody else,
	// and the busy session's share of the next one.
	if before > 2000+500 {
		t.Errorf("the quiet session's append came after %d of the busy one's", before)
	}
}

// Groups of several stores and transactions of callers lock many sessions, in
// different orders: what deadlocks is done again.
func TestDeadlocksAreRetried(t *testing.T) {
	t.Parallel()
	store := openStore(t, agentstore.Options{MaxConns: 12})
	ids := make([]repo.ID, 10)
	for i := range ids {
		ids[i] = newSession(t, store)
	}
	const rounds = 3 // each deadlock takes the server a second to find
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for range rounds {
				err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
					for i := range ids {
						at := i
						if w%2 == 1 {
							at = len(ids) - 1 - i
						}
						if _, err := tx.Sessions().Append(ctx, ids[at], user("transaction")); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil && !errors.Is(err, repo.ErrContention) {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for i := range rounds {
				if _, err := store.Sessions().Append(t.Context(), ids[(w+i)%len(ids)], user("lane")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		var next int64
		for message, err := range store.Sessions().Stream(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if message.Sequence != next {
				t.Fatalf("sequence %d after %d messages", message.Sequence, next)
			}
			next++
		}
	}
}

// The caller's row and our message commit together, or not at all.
func TestBind(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	id := newSession(t, store)
	if _, err := store.Pool().Exec(t.Context(), "CREATE TABLE orders (message_id uuid PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	place := func(end func(pgx.Tx) error) {
		tx, err := store.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		messages, err := postgres.Bind(tx).Sessions().Append(t.Context(), id, user("order"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "INSERT INTO orders VALUES ($1)", uuidText(messages[0].ID)); err != nil {
			t.Fatal(err)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
	}
	count := func(want int) {
		t.Helper()
		var orders, messages int
		if err := store.Pool().QueryRow(t.Context(), "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM messages)").Scan(&orders, &messages); err != nil {
			t.Fatal(err)
		}
		if orders != want || messages != want {
			t.Errorf("%d orders, %d messages, want %d", orders, messages, want)
		}
	}
	place(func(tx pgx.Tx) error { return tx.Rollback(t.Context()) })
	count(0)
	place(func(tx pgx.Tx) error { return tx.Commit(t.Context()) })
	count(1)
}
