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

// openNarrow opens a store with one connection, which commits one group at a time,
// and a separate pool for other clients of its database.
func openNarrow(t *testing.T) (*agentstore.Store, *pgxpool.Pool) {
	t.Helper()
	databaseURL := pgtest.NewDatabase(t)
	others := pgtest.NewPool(t, databaseURL)
	return pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 1}), others
}

// stopWriters locks the table of messages against writers, as a migration would,
// until the returned function is called: meanwhile appends to all sessions wait.
func stopWriters(t *testing.T, pool *pgxpool.Pool) (release func()) {
	t.Helper()
	return lock(t, pool, "LOCK TABLE messages IN SHARE MODE")
}

// hold locks a session's counter row, as a writer in another process would, until the
// returned function is called.
func hold(t *testing.T, pool *pgxpool.Pool, id repo.ID) (release func()) {
	t.Helper()
	return lock(t, pool, "SELECT FROM session_counters WHERE session_id = $1 FOR UPDATE", id.String())
}

func lock(t *testing.T, pool *pgxpool.Pool, statement string, args ...any) (release func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, tx, statement, args...)
	return func() {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// awaitLockWait waits until a statement waits for a lock.
func awaitLockWait(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	pgtest.AwaitLockWait(t, pool, 1)
}

// An append whose context ends while it is at the server has an unknown outcome. One
// that still waits in the queue is withdrawn.
func TestWithdrawnAndUnknown(t *testing.T) {
	t.Parallel()
	store, others := openNarrow(t)
	id := pgtest.NewSession(t, store)
	release := stopWriters(t, others)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	// A separate context, which ends first: what waits is sent as soon as the append
	// at the server has ended.
	waiting, withdraw := context.WithCancel(t.Context())
	defer withdraw()
	results := make([]error, 2)
	var atServer, behind sync.WaitGroup
	atServer.Go(func() { _, results[0] = store.Sessions().Append(ctx, id, user("at the server")) })
	awaitLockWait(t, others)
	behind.Go(func() { _, results[1] = store.Sessions().Append(waiting, id, user("behind it")) })
	awaitQueued(t, store, 1)
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
	// Appends continue, and what was withdrawn is not stored.
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

// A retry by id after an unknown outcome stores the message once, whether or not it
// had been committed.
func TestRetryAfterUnknownOutcome(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 8})
	id := pgtest.NewSession(t, store)
	for i := range 20 {
		message := user(fmt.Sprint("message ", i))
		message.ID = repo.NewID()
		// short: it may end before the append is sent, afterwards, or never.
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

// If some appends of a group fail, each gets its own error, and all others are
// stored.
func TestOneBadAppendFailsNoOther(t *testing.T) {
	t.Parallel()
	store, others := openNarrow(t) // all are in one group
	ids := []repo.ID{pgtest.NewSession(t, store), pgtest.NewSession(t, store)}
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
		_, err := appendAt(t.Context(), store.Sessions(), ids[0], 0, user("x"))
		return err
	})
	same := user("same id twice")
	same.ID = repo.NewID()
	check("same id", nil, add(ids[1], same))
	check("same id", nil, add(ids[1], same))
	awaitQueued(t, store, 50+6)
	release()
	wg.Wait()

	for i, want := range []int64{1 + 1 + 25, 25 + 1} {
		session, err := store.Sessions().Get(t.Context(), ids[i])
		if err != nil || session.MessageCount != want {
			t.Errorf("session %d: %d messages, want %d, %v", i, session.MessageCount, want, err)
		}
	}
}

// A session with thousands of waiting appends delays another session's by one group
// at most.
func TestFairness(t *testing.T) {
	t.Parallel()
	store, others := openNarrow(t)
	busy, quiet := pgtest.NewSession(t, store), pgtest.NewSession(t, store)
	release := stopWriters(t, others)
	var wg sync.WaitGroup
	add := func(id repo.ID) {
		wg.Go(func() {
			if _, err := store.Sessions().Append(t.Context(), id, user("x")); err != nil {
				t.Error(err)
			}
		})
	}
	add(busy)
	awaitLockWait(t, others)
	for range 10_000 {
		add(busy)
	}
	awaitQueued(t, store, 10_000)
	add(quiet)
	awaitQueued(t, store, 10_001)
	release()
	wg.Wait()
	// A message's time is that of its statement.
	before := pgtest.Value[int](t, store.Pool(), `SELECT count(*) FROM messages b, messages q
		WHERE q.session_id = $1 AND b.session_id = $2 AND b.created_at < q.created_at`,
		quiet.String(), busy.String())
	// At most the group under way, and the busy session's share of the next one.
	if before > 1+500 {
		t.Errorf("the quiet session's append came after %d of the busy one's", before)
	}
}

// Groups of several stores and callers' transactions lock many sessions in different
// orders. After a deadlock they are retried.
func TestDeadlocksAreRetried(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 12})
	ids := make([]repo.ID, 10)
	for i := range ids {
		ids[i] = pgtest.NewSession(t, store)
	}
	const rounds = 3 // the server needs a second to find a deadlock
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
				if _, err := store.Sessions().Append(t.Context(), ids[(w+i)%len(ids)], user("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for _, id := range ids {
		pgtest.CountDense(t, store, id)
	}
}

// The caller's row and our message are committed together, or not at all.
func TestBind(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	id := pgtest.NewSession(t, store)
	pgtest.Exec(t, store.Pool(), "CREATE TABLE orders (message_id uuid PRIMARY KEY)")
	place := func(end func(pgx.Tx) error) {
		tx, err := store.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		messages, err := postgres.Bind(tx).Sessions().Append(t.Context(), id, user("order"))
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, tx, "INSERT INTO orders VALUES ($1)", messages[0].ID.String())
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
