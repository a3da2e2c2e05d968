package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// awaitsRow returns a function that waits until a write that is made from now on is known to wait for
// a row: a statement waits for a lock, or the store has tried again and again.
func awaitsRow(t *testing.T, store *agentstore.Store, others pgtest.Database) (wait func()) {
	t.Helper()
	before := store.Pool().Stat().AcquireCount()
	return func() {
		t.Helper()
		await.For(t, "a write waits for a row", func() bool {
			return store.Pool().Stat().AcquireCount() >= before+5 || pgtest.Value[bool](t, others, `SELECT EXISTS (
				SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`)
		})
	}
}

// besideHeld is the harness for a held session: an open transaction has appended to it, and an
// append to it waits, while 16 other sessions are appended to. It returns how many of these appends
// failed. Those that have to come back do so while the session is held. stopped, if set, says
// when they are known not to, and are given up.
func besideHeld(
	t *testing.T, store *agentstore.Store, add func(ctx context.Context, id repo.ID) error, stopped func() bool,
) (failed int) {
	t.Helper()
	conn := pgtest.Connect(t, store.Pool().Config().ConnString())
	held, others := pgtest.NewSession(t, store), newSessions(t, store, 16)
	waiting := make(chan error, 1)
	if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Sessions().Append(ctx, held, user("in the transaction")); err != nil {
			return err
		}
		waits := awaitsRow(t, store, conn)
		go func() { waiting <- add(t.Context(), held) }()
		waits()
		besides, giveUp := context.WithCancel(await.Context(t))
		defer giveUp()
		errs := make([]error, len(others))
		var all sync.WaitGroup
		for i, id := range others {
			all.Go(func() { errs[i] = add(besides, id) })
		}
		if stopped != nil {
			await.For(t, "the others are stopped", stopped)
			giveUp()
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				failed++
			}
		}
		if failed > 0 {
			t.Logf("%d of %d, such as: %v", failed, len(errs), errors.Join(errs...).(interface{ Unwrap() []error }).Unwrap()[0])
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := await.Value(t, "the append that waited", waiting); err != nil {
		t.Errorf("the append that waited: %v", err)
	}
	session, err := store.Sessions().Get(t.Context(), held)
	if err != nil || session.MessageCount != 2 {
		t.Errorf("the held session has %d messages: %v", session.MessageCount, err)
	}
	return failed
}

// A session that an open transaction holds delays no append to another, in pools of
// all sizes with a free connection.
// Guarantee: Held sessions: A session that a transaction holds stops no append to others.
func TestHeldSessionStopsNoOther(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{2, 3, 4, 8} {
		t.Run(fmt.Sprint(connections, " connections"), func(t *testing.T) {
			t.Parallel()
			store := pgtest.NewStore(t, agentstore.Options{MaxConns: connections})
			failed := besideHeld(t, store, func(ctx context.Context, id repo.ID) error {
				_, err := store.Sessions().Append(ctx, id, user("outside"))
				return err
			}, nil)
			if failed > 0 {
				t.Errorf("%d appends to other sessions failed", failed)
			}
		})
	}
}

// With a lock timeout the append that waits gets an error, and no other does.
// Guarantee: Held sessions: A lock timeout affects only its own session.
func TestLockTimeoutIsTheSessionsOwn(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(connections, " connections"), func(t *testing.T) {
			t.Parallel()
			lockTimeoutIsTheSessionsOwn(t, connections)
		})
	}
}

func lockTimeoutIsTheSessionsOwn(t *testing.T, connections int) {
	databaseURL := pgtest.NewDatabase(t)
	holder := pgtest.NewPool(t, databaseURL)
	ids := newSessions(t, pgtest.OpenPool(t, holder, agentstore.Options{}), 17)
	// short: one session stays held, and no call waits for another
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: connections, LockTimeout: 500 * time.Millisecond})
	defer hold(t, holder, ids[0])()
	ctx := await.Context(t)
	var waiting, all sync.WaitGroup
	for range 4 {
		waiting.Go(func() {
			for range 2 {
				if _, err := store.Sessions().Append(ctx, ids[0], user("waits")); !errors.Is(err, repo.ErrContention) {
					t.Errorf("an append to the held session: %v", err)
				}
			}
		})
	}
	ended := make(chan struct{})
	for _, id := range ids[1:] {
		all.Go(func() {
			for {
				if _, err := store.Sessions().Append(ctx, id, user("another")); err != nil {
					t.Errorf("an append to another session: %v", err)
					return
				}
				select {
				case <-ended:
					return
				case <-time.After(20 * time.Millisecond): // pace: enough of them, while the others wait
				}
			}
		})
	}
	waiting.Wait()
	close(ended)
	all.Wait()
}

// naiveGroupCommit is a naive group commit: one goroutine commits what waits in one
// transaction, which waits for each counter row.
type naiveGroupCommit struct {
	pool *pgxpool.Pool
	jobs chan naiveJob
}

type naiveJob struct {
	id       repo.ID
	answered chan error
}

func newNaiveGroupCommit(t *testing.T, pool *pgxpool.Pool) *naiveGroupCommit {
	n := &naiveGroupCommit{pool: pool, jobs: make(chan naiveJob, 1000)}
	var running sync.WaitGroup
	running.Go(func() {
		for first := range n.jobs {
			group := []naiveJob{first}
			for len(n.jobs) > 0 {
				group = append(group, <-n.jobs)
			}
			err := n.commit(group)
			for _, job := range group {
				job.answered <- err
			}
		}
	})
	t.Cleanup(func() {
		close(n.jobs)
		running.Wait()
	})
	return n
}

func (n *naiveGroupCommit) commit(group []naiveJob) error {
	ctx := context.Background()
	tx, err := n.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	for _, job := range group {
		var next int64
		if err := tx.QueryRow(ctx, "SELECT next_sequence FROM session_counters WHERE session_id = $1 FOR UPDATE",
			job.id.String()).Scan(&next); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO messages (session_id, sequence, id, role, content)
			VALUES ($1, $2, gen_random_uuid(), 'user', 'x')`, job.id.String(), next); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE session_counters SET next_sequence = $2 WHERE session_id = $1",
			job.id.String(), next+1); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

func (n *naiveGroupCommit) append(ctx context.Context, id repo.ID) error {
	job := naiveJob{id, make(chan error, 1)}
	n.jobs <- job
	select {
	case err := <-job.answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The harness finds that a group which waits for the held session stops all others.
func TestNaiveGroupCommitIsStopped(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	naive := newNaiveGroupCommit(t, naivePool(t, store))
	if failed := besideHeld(t, store, naive.append, func() bool { return len(naive.jobs) == 16 }); failed != 16 {
		t.Errorf("%d of 16 appends to other sessions failed: the harness does not catch a group that waits", failed)
	}
}
