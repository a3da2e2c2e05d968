package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func acquireFor(t *testing.T, r repo.Repositories, key repo.LeaseKey) repo.Lease {
	t.Helper()
	lease, err := r.Leases().Acquire(t.Context(), repo.NewLease{Key: key, Owner: repo.NewID().String()})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func appendUnder(ctx context.Context, r repo.Repositories, id repo.ID, fence int64) error {
	_, err := r.Sessions().AppendTurn(ctx, repo.Turn{SessionID: id, Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "x"}}, Fence: fence})
	return err
}

func createWith(t *testing.T, store *agentstore.Store, id repo.ID) {
	t.Helper()
	if _, err := store.Sessions().Create(t.Context(), repo.NewSession{ID: id}); err != nil {
		t.Fatal(err)
	}
}

func wantFencedBy(t *testing.T, err error, lease repo.Lease) {
	t.Helper()
	if fenced, is := errors.AsType[*repo.FencedError](err); !is || fenced.Latest != lease.Fence {
		t.Errorf("%v, want a refusal because of fence %d", err, lease.Fence)
	}
}

// expire ends all leases, without deleting them.
func expire(t *testing.T, store *agentstore.Store) {
	t.Helper()
	pgtest.Exec(t, store.Pool(), "UPDATE leases SET expires_at = clock_timestamp() - interval '1 second'")
}

func beginTx(t *testing.T, store *agentstore.Store) pgx.Tx {
	t.Helper()
	return beginOn(t, store.Pool())
}

// A session is made while an earlier caller waits for its lease, unknown to its maker: the
// previous holder of the lease is refused all the same.
func TestFenceOfASessionMadeDuringAWait(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 6})
	id := repo.NewID()
	first := acquireFor(t, store, repo.SessionLease(id))
	expire(t, store)
	tx := beginTx(t, store)
	pgtest.Exec(t, tx, "SELECT FROM leases FOR SHARE")
	acquired := make(chan repo.Lease, 1)
	go func() {
		lease, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: first.Key, Owner: "second"})
		if err != nil {
			t.Error(err)
		}
		acquired <- lease
	}()
	awaitLockWait(t, store.Pool())
	createWith(t, store, id)
	if err := appendUnder(t.Context(), store, id, first.Fence); err != nil {
		t.Errorf("before another owner has the lease: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := <-acquired
	wantFencedBy(t, appendUnder(t.Context(), store, id, first.Fence), second)
	if err := appendUnder(t.Context(), store, id, second.Fence); err != nil {
		t.Error(err)
	}
}

// A session is made while an acquisition of its lease is not committed. The previous holder
// of the lease waits, and is refused then.
func TestFenceOfASessionMadeMeanwhile(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 6})
	id := repo.NewID()
	first := acquireFor(t, store, repo.SessionLease(id))
	expire(t, store)
	tx := beginTx(t, store)
	second := acquireFor(t, postgres.Bind(tx), first.Key)
	createWith(t, store, id)
	result := make(chan error, 1)
	go func() { result <- appendUnder(t.Context(), store, id, first.Fence) }()
	awaitLockWait(t, store.Pool())
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantFencedBy(t, <-result, second)
}

// A transaction that has written to a session acquires its lease, although another
// acquisition waits for the transaction: there is no deadlock.
func TestFenceLocksTheSessionFirst(t *testing.T) {
	t.Parallel()
	// Of a deadlock the transaction learns, not the other one, which would try again.
	store := pgtest.OpenStore(t, pgtest.WithParameter(pgtest.NewDatabase(t), "deadlock_timeout", "1h"), agentstore.Options{MaxConns: 6})
	id := repo.NewID()
	createWith(t, store, id)
	tx := beginTx(t, store)
	pgtest.Exec(t, tx, "SET LOCAL deadlock_timeout = '5ms'")
	bound := postgres.Bind(tx)
	if err := appendUnder(t.Context(), bound, id, 0); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		_, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.SessionLease(id), Owner: "other"})
		result <- err
	}()
	awaitLockWait(t, store.Pool())
	own := acquireFor(t, bound, repo.SessionLease(id))
	if err := appendUnder(t.Context(), bound, id, own.Fence); err != nil {
		t.Error(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if conflict, is := errors.AsType[*repo.LeaseConflictError](<-result); !is || conflict.Fence != own.Fence {
		t.Errorf("the other one got %v", conflict)
	}
}

// Acquiring waits for a write that is under way under the earlier lease: it comes before.
func TestFenceWaitsForAWrite(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 6})
	id := repo.NewID()
	createWith(t, store, id)
	first := acquireFor(t, store, repo.SessionLease(id))
	if err := store.Leases().Release(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	tx := beginTx(t, store)
	if err := appendUnder(t.Context(), postgres.Bind(tx), id, first.Fence); err != nil {
		t.Fatal(err)
	}
	acquired := make(chan int64, 1)
	go func() {
		_, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: first.Key, Owner: "second"})
		session, getErr := store.Sessions().Get(t.Context(), id)
		if err != nil || getErr != nil {
			t.Error(err, getErr)
		}
		acquired <- session.MessageCount
	}()
	awaitLockWait(t, store.Pool())
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if count := <-acquired; count != 1 {
		t.Errorf("the next holder sees %d messages", count)
	}
}

// While a session is locked, writes with the latest fence, an old one and none queue, and
// others with and without fences join their groups. Each gets its own answer.
func TestFencedGroups(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 6})
	const sessions, writers = 6, 12
	var running sync.WaitGroup
	type holder struct {
		id          repo.ID
		old, latest repo.Lease
	}
	var holders []holder
	for range sessions {
		h := holder{id: repo.NewID()}
		createWith(t, store, h.id)
		h.old = acquireFor(t, store, repo.SessionLease(h.id))
		if err := store.Leases().Release(t.Context(), h.old); err != nil {
			t.Fatal(err)
		}
		h.latest = acquireFor(t, store, h.old.Key)
		holders = append(holders, h)
	}
	tx := beginTx(t, store)
	pgtest.Exec(t, tx, "SELECT FROM session_counters ORDER BY session_id FOR UPDATE")
	for _, h := range holders {
		for writer := range writers {
			fence := []int64{h.latest.Fence, 0, h.old.Fence}[writer%3]
			running.Go(func() {
				for range 4 {
					err := appendUnder(t.Context(), store, h.id, fence)
					if fence == h.old.Fence {
						wantFencedBy(t, err, h.latest)
					} else if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	awaitQueued(t, store, sessions*writers/2)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	running.Wait()
	for _, h := range holders {
		session, err := store.Sessions().Get(t.Context(), h.id)
		if want := int64(writers / 3 * 2 * 4); err != nil || session.MessageCount != want {
			t.Errorf("%d messages, want %d: %v", session.MessageCount, want, err)
		}
	}
}
