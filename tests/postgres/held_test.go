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
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// besideHeld is the harness for one session that is held: an open transaction
// has appended to it, an append to it waits, and others are appended to. It
// returns how many of the 16 appends to others ended with an error.
func besideHeld(t *testing.T, store *agentstore.Store, add func(ctx context.Context, id repo.ID) error) (failed int) {
	t.Helper()
	held := newSession(t, store)
	others := make([]repo.ID, 16)
	for i := range others {
		others[i] = newSession(t, store)
	}
	waiting := make(chan error, 1)
	if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Sessions().Append(ctx, held, user("in the transaction")); err != nil {
			return err
		}
		go func() { waiting <- add(t.Context(), held) }()
		time.Sleep(50 * time.Millisecond) // it waits: not every way of waiting can be seen
		errs := make([]error, len(others))
		var all sync.WaitGroup
		for i, id := range others {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				errs[i] = add(ctx, id)
			})
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
	if err := <-waiting; err != nil {
		t.Errorf("the append that waited: %v", err)
	}
	session, err := store.Sessions().Get(t.Context(), held)
	if err != nil || session.MessageCount != 2 {
		t.Errorf("the held session has %d messages: %v", session.MessageCount, err)
	}
	return failed
}

// A session that an open transaction holds stops no append to another, in pools
// of any size that leaves a connection free.
func TestHeldSessionStopsNoOther(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{2, 3, 4, 8} {
		t.Run(fmt.Sprint(connections, " connections"), func(t *testing.T) {
			t.Parallel()
			store := openStore(t, agentstore.Options{MaxConns: connections})
			failed := besideHeld(t, store, func(ctx context.Context, id repo.ID) error {
				_, err := store.Sessions().Append(ctx, id, user("outside"))
				return err
			})
			if failed > 0 {
				t.Errorf("%d appends to other sessions failed", failed)
			}
		})
	}
}

// With a lock timeout the append that waits gets its error, and no other does.
func TestLockTimeoutIsTheSessionsOwn(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	holder := pgtest.NewPool(t, databaseURL)
	store := openURL(t, databaseURL, agentstore.Options{MaxConns: 4, LockTimeout: 100 * time.Millisecond})
	held := newSession(t, store)
	others := make([]repo.ID, 16)
	for i := range others {
		others[i] = newSession(t, store)
	}
	release := hold(t, holder, held)
	defer release()
	deadline := time.Now().Add(2 * time.Second)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for time.Now().Before(deadline) {
				if _, err := store.Sessions().Append(t.Context(), held, user("waits")); !errors.Is(err, repo.ErrContention) {
					t.Errorf("an append to the held session: %v", err)
				}
			}
		})
	}
	for _, id := range others {
		all.Go(func() {
			for time.Now().Before(deadline) {
				if _, err := store.Sessions().Append(t.Context(), id, user("another")); err != nil {
					t.Errorf("an append to another session: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
}

// waitingLane is group commit as it is written first: one goroutine takes what
// waits and commits it in one transaction, which waits for each counter row.
type waitingLane struct {
	pool *pgxpool.Pool
	jobs chan laneJob
}

type laneJob struct {
	id       repo.ID
	answered chan error
}

func newWaitingLane(t *testing.T, pool *pgxpool.Pool) *waitingLane {
	l := &waitingLane{pool: pool, jobs: make(chan laneJob, 1000)}
	var running sync.WaitGroup
	running.Go(func() {
		for first := range l.jobs {
			group := []laneJob{first}
			for len(l.jobs) > 0 {
				group = append(group, <-l.jobs)
			}
			err := l.commit(group)
			for _, job := range group {
				job.answered <- err
			}
		}
	})
	t.Cleanup(func() {
		close(l.jobs)
		running.Wait()
	})
	return l
}

func (l *waitingLane) commit(group []laneJob) error {
	ctx := context.Background()
	tx, err := l.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	for _, job := range group {
		var next int64
		if err := tx.QueryRow(ctx, "SELECT next_sequence FROM session_counters WHERE session_id = $1 FOR UPDATE",
			uuidText(job.id)).Scan(&next); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO messages (session_id, sequence, id, role, content)
			VALUES ($1, $2, gen_random_uuid(), 'user', 'lane')`, uuidText(job.id), next); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE session_counters SET next_sequence = $2 WHERE session_id = $1",
			uuidText(job.id), next+1); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

func (l *waitingLane) append(ctx context.Context, id repo.ID) error {
	job := laneJob{id, make(chan error, 1)}
	l.jobs <- job
	select {
	case err := <-job.answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The harness finds a lane that waits for the held session: it stops all others.
func TestWaitingLaneIsStopped(t *testing.T) {
	t.Parallel()
	store := openStore(t, agentstore.Options{MaxConns: 4})
	lane := newWaitingLane(t, store.Pool())
	if failed := besideHeld(t, store, lane.append); failed != 16 {
		t.Errorf("%d of 16 appends to other sessions failed: the harness does not see a lane that waits", failed)
	}
}
