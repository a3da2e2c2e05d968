package repotest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

func patient(lease repo.NewLease) repo.NewLease {
	lease.Wait = true
	return lease
}

// Waiting callers get a lease one after the other: when it is released, or its owner's are, or when a
// transaction that does so is committed. One that gives up stops no other.
// Guarantee: Leases: A lease that is released is given to the next one who waits.
func testLeaseWaits(t *testing.T, store repo.Store) {
	asked := newLease()
	first := acquire(t, store, asked)
	ctx, giveUp := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- second(store.Leases().Acquire(ctx, patient(ofAnother(asked)))) }()
	const waiters = 6
	var holders atomic.Int64
	var running sync.WaitGroup
	for n := range waiters {
		running.Go(func() {
			held, err := repo.HoldLease(t.Context(), store, patient(ofAnother(asked)))
			if err != nil {
				t.Error(err)
				return
			}
			if at := holders.Add(1); at > 1 {
				t.Errorf("%d hold it", at)
			}
			tick()
			holders.Add(-1)
			switch lease := held.Lease(); n % 3 {
			case 0:
				err = store.Leases().Release(t.Context(), lease)
			case 1:
				err = second(store.Leases().ReleaseAll(t.Context(), lease.Owner))
			default:
				err = store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error { return tx.Leases().Release(ctx, lease) })
			}
			if err := errors.Join(err, held.Release(t.Context())); err != nil {
				t.Error(err)
			}
		})
	}
	_, err := store.Leases().Acquire(t.Context(), ofAnother(asked))
	wantLeaseConflict(t, err, first)
	again, err := store.Leases().Acquire(t.Context(), patient(asked)) // by the same owner
	if must(t, again, err); again.Fence != first.Fence && holders.Load() > 0 {
		t.Error("acquired twice")
	}
	giveUp()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	release(t, store, first)
	running.Wait()
}

// A lease that expires is given to a waiting caller.
func testLeaseWaitsForExpiry(t *testing.T, store repo.Store) {
	asked, lives := newLease(), livesOf(store)
	asked.TTL = lives.ofLife(repo.MinLeaseTTL)
	first := acquire(t, store, asked)
	acquired := make(chan repo.Lease, 1)
	go func() {
		next, err := store.Leases().Acquire(t.Context(), patient(ofAnother(asked)))
		if err != nil {
			t.Error(err)
		}
		acquired <- next
	}()
	time.Sleep(20 * time.Millisecond) // pace: it may be waiting by now
	lives.elapse(t, Aged{Leases: []repo.Lease{first}})
	next := await.Value(t, "the waiting caller gets the lease", acquired)
	if next.Fence <= first.Fence || lives.age == nil && next.AcquiredAt.Before(first.ExpiresAt) {
		t.Errorf("%+v was acquired after %+v", next, first)
	}
}

// Contenders for slots are never more at a time than there are slots.
// Guarantee: Leases: A lease with slots has at most as many holders.
func testLeaseSlots(t *testing.T, store repo.Store) {
	const slots, contenders = 3, 12
	asked := newLease()
	asked.Slots = slots
	var mu sync.Mutex
	holders, most := map[repo.LeaseKey]bool{}, 0
	var running sync.WaitGroup
	for range contenders {
		running.Go(func() {
			for range 3 {
				lease, err := store.Leases().Acquire(t.Context(), patient(ofAnother(asked)))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if holders[lease.Key] {
					t.Errorf("%v has two holders", lease.Key)
				}
				holders[lease.Key] = true
				most = max(most, len(holders))
				mu.Unlock()
				tick()
				mu.Lock()
				delete(holders, lease.Key)
				mu.Unlock()
				if err := store.Leases().Release(t.Context(), lease); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	if most > slots {
		t.Errorf("%d held it at once", most)
	}
}

// An owner has one slot, however often it asks. When all are held, the error has the one that expires first.
func testLeaseSlotsHeld(t *testing.T, store repo.Store) {
	asked := newLease()
	asked.Slots, asked.TTL = 2, time.Hour/2
	first := acquire(t, store, asked)
	again := acquire(t, store, asked)
	if again.Key != first.Key || again.Fence != first.Fence || first.Key == asked.Key || first.Key.Kind != asked.Key.Kind {
		t.Errorf("acquired %+v and %+v", first, again)
	}
	longer := ofAnother(asked)
	longer.TTL = time.Hour
	other := acquire(t, store, longer)
	if other.Key == first.Key {
		t.Errorf("%v has two holders", other.Key)
	}
	wantLeaseConflict(t, second(store.Leases().Acquire(t.Context(), ofAnother(asked))), again)
	held, err := repo.HoldLease(t.Context(), store, longer)
	must(t, held, err)
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if third := acquire(t, store, ofAnother(asked)); third.Key != other.Key || third.Fence <= other.Fence {
		t.Errorf("acquired %+v after %+v", third, other)
	}
}

// A caller that waits for the end of a lease learns of it, however it ends.
// Guarantee: Leases: The context of `HoldLease` ends soon after another process ended the lease.
func testLeaseAwait(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	transition := func(ctx context.Context, r repo.Repositories, id repo.ID, transition repo.Transition) error {
		return second(r.Plans().Transition(ctx, id, transition, repo.Cause{Reason: "enough"}))
	}
	for name, end := range map[string]func(claimed repo.ClaimedPlan) error{
		"released":     func(c repo.ClaimedPlan) error { return store.Leases().Release(t.Context(), c.Lease) },
		"all released": func(c repo.ClaimedPlan) error { return second(store.Leases().ReleaseAll(t.Context(), c.Lease.Owner)) },
		"cancelled": func(c repo.ClaimedPlan) error {
			return transition(t.Context(), store, c.Plan.ID, repo.TransitionCancel)
		},
		"completed": func(c repo.ClaimedPlan) error {
			return transition(t.Context(), store, c.Plan.ID, repo.TransitionComplete)
		},
		"with its parent": func(c repo.ClaimedPlan) error {
			return transition(t.Context(), store, c.Plan.ParentID, repo.TransitionCancel)
		},
		"in a transaction": func(c repo.ClaimedPlan) error {
			return store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
				return transition(ctx, tx, c.Plan.ID, repo.TransitionCancel)
			})
		},
	} {
		parent := usePlan(t, store, q.action, repo.UseAction{Namespace: "parents/" + q.namespace})
		usePlan(t, store, q.action, repo.UseAction{Namespace: q.namespace, ParentID: parent.ID})
		claimed := q.takeOne()
		ended := make(chan error, 1)
		go func() { ended <- store.Leases().Await(t.Context(), claimed.Lease) }()
		tick()
		if _, err := store.Leases().Renew(t.Context(), claimed.Lease, time.Hour); err != nil {
			t.Error(err)
		}
		select {
		case err := <-ended:
			t.Errorf("%s: ended before with %v", name, err)
			continue
		default:
		}
		if err := end(claimed); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wantLeaseLost(t, <-ended, claimed.Lease)
		wantLeaseLost(t, store.Leases().Await(t.Context(), claimed.Lease), claimed.Lease)
	}
}
