package repotest

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

func leaseRaceTests() []test {
	return []test{
		{"OneHolder", testLeaseOneHolder},
		{"OneOwner", testLeaseOneOwner},
		{"Expiry", testLeaseExpiry},
		{"Tx", testLeaseTx},
		{"Contexts", testLeaseContexts},
		{"Hold", testHold},
		{"HoldIsLost", testHoldIsLost},
		{"HoldEnds", testHoldEnds},
		{"Waits", testLeaseWaits},
		{"WaitsForExpiry", testLeaseWaitsForExpiry},
		{"Slots", testLeaseSlots},
		{"SlotsHeld", testLeaseSlotsHeld},
		{"Await", testLeaseAwait},
	}
}

// Contenders for one key are never two at a time in the part that it guards, and fences
// grow from one to the next. The naive way, which the same contenders also go, looks
// whether the key is free and then takes it.
func testLeaseOneHolder(t *testing.T, store repo.Store) {
	key := newLease().Key
	var taken counter
	ours := notAlone(func(owner string) (int64, bool) {
		lease, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: key, Owner: owner})
		if _, isHeld := errors.AsType[*repo.LeaseConflictError](err); err != nil && !isHeld {
			t.Error(err)
		}
		if err == nil {
			taken.add()
		}
		return lease.Fence, err == nil
	}, func() {
		time.Sleep(2 * time.Millisecond) // pace: a round trip, so that the next one may come meanwhile
	}, func(_ string, fence int64) {
		if err := store.Leases().Release(t.Context(), repo.Lease{Key: key, Fence: fence}); err != nil {
			t.Error(err)
		}
	})
	if ours != 0 || taken.get() == 0 {
		t.Errorf("of %d holders, %d were not alone or had no larger fence", taken.get(), ours)
	}
	scope := shared()
	var fences atomic.Int64
	looked, entered := meeting(t), meeting(t) // so both find it free, and hold it at once
	naive := notAlone(func(owner string) (int64, bool) {
		holder, err := store.State().Get(t.Context(), scope, "holder")
		if err == nil && string(holder.Value) != `""` {
			return 0, false
		}
		looked()
		value, err := json.Marshal(owner)
		if err == nil {
			_, err = store.State().Change(t.Context(), []repo.StateChange{{Scope: scope, Key: "holder", Value: value}})
		}
		return fences.Add(1), err == nil
	}, entered, func(string, int64) {
		if _, err := store.State().Change(t.Context(), []repo.StateChange{set(scope, "holder", `""`)}); err != nil {
			t.Error(err)
		}
	})
	if naive == 0 {
		t.Error("the naive way had one holder at a time: this test would not find two")
	}
}

// notAlone returns how often a contender that has taken a key was not alone, or had no larger fence.
func notAlone(take func(owner string) (fence int64, ok bool), work func(), leave func(owner string, fence int64)) (times int32) {
	const contenders, rounds = 16, 12
	var inside, two atomic.Int32
	var last atomic.Int64
	together(contenders, func(int) {
		owner := randomName()
		for range rounds {
			fence, ok := take(owner)
			if !ok {
				tick()
				continue
			}
			if inside.Add(1) > 1 || last.Swap(fence) >= fence {
				two.Add(1)
			}
			work()
			inside.Add(-1)
			leave(owner, fence)
		}
	})
	return two.Load()
}

// Calls of one owner, which acquire the lease at once, get one lease.
func testLeaseOneOwner(t *testing.T, store repo.Store) {
	asked := newLease()
	fences := make([]int64, workers)
	together(workers, func(worker int) {
		lease, err := store.Leases().Acquire(t.Context(), asked)
		if err != nil {
			t.Error(err)
		}
		fences[worker] = lease.Fence
	})
	for _, fence := range fences {
		if fence != fences[0] {
			t.Fatalf("the fences differ: %v", fences)
		}
	}
}

// An expired lease has no holder: not even its owner renews it.
func testLeaseExpiry(t *testing.T, store repo.Store) {
	const keys = 4
	var expired [keys]repo.Lease
	var asked [keys]repo.NewLease
	lives, owner := livesOf(store), randomName()
	for i := range asked {
		asked[i] = newLease()
		asked[i].Owner, asked[i].TTL = owner, lives.ofLife(repo.MinLeaseTTL)
		expired[i] = acquire(t, store, asked[i])
	}
	kept := newLease()
	kept.Owner = owner
	held := acquire(t, store, kept)
	lives.elapse(t, Aged{Leases: expired[:]})
	await.For(t, "the leases expire", func() bool {
		return len(listLeases(t, store, repo.LeaseFilter{Owner: owner, Expired: true}, 2)) == keys
	})
	wantSame(t, "held", listLeases(t, store, repo.LeaseFilter{Owner: owner, Held: true}, 0), []repo.Lease{held})
	for _, lease := range listLeases(t, store, repo.LeaseFilter{Owner: owner}, 0) {
		if lease.Expired != (lease.Fence != held.Fence) {
			t.Errorf("listed %+v", lease)
		}
	}
	_, err := store.Leases().Renew(t.Context(), expired[0], 0)
	wantLeaseLost(t, err, expired[0])
	for i, ask := range []repo.NewLease{asked[0], ofAnother(asked[1])} {
		ask.TTL = time.Hour
		begun := time.Now()
		lease := acquire(t, store, ask)
		if lease.Fence <= expired[i].Fence || lease.Expired {
			t.Errorf("acquired %+v after %+v", lease, expired[i])
		}
		wantLife(t, lease, begun, ask.TTL)
		// What is done with the old lease does not matter any more.
		_, err := store.Leases().Renew(t.Context(), expired[i], 0)
		wantLeaseLost(t, err, expired[i])
		release(t, store, expired[i])
		_, err = store.Leases().Acquire(t.Context(), ofAnother(ask))
		wantLeaseConflict(t, err, lease)
	}
	release(t, store, expired[2])
	if released, err := store.Leases().ReleaseAll(t.Context(), owner); err != nil || released != 3 { // held, acquired again, expired
		t.Errorf("released %d, %v", released, err)
	}
}

// A lease in a transaction is there if and when it is committed.
func testLeaseTx(t *testing.T, store repo.Store) {
	if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		wantInvalid(t, second(tx.Leases().Acquire(ctx, patient(newLease()))), "wait")
		wantInvalid(t, tx.Leases().Await(ctx, repo.Lease{Key: newLease().Key, Fence: 1}), "wait")
		return nil
	}); err != nil {
		t.Error(err)
	}
	asked, failure := newLease(), errors.New("failure")
	var first repo.Lease
	if err := store.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
		first = acquire(t, tx, asked)
		wantSame(t, "list inside", listLeases(t, tx, repo.LeaseFilter{Owner: asked.Owner}, 0), []repo.Lease{first})
		return failure
	}); !errors.Is(err, failure) {
		t.Error(err)
	}
	if left := listLeases(t, store, repo.LeaseFilter{Owner: asked.Owner}, 0); len(left) > 0 {
		t.Errorf("rolled back, but listed: %+v", left)
	}
	begun, waited := make(chan struct{}), make(chan error, 1)
	go func() {
		<-begun
		_, err := store.Leases().Acquire(t.Context(), ofAnother(asked))
		waited <- err
	}()
	var second repo.Lease
	if err := store.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
		second = acquire(t, tx, asked)
		close(begun)
		time.Sleep(50 * time.Millisecond) // pace: the other one may be waiting by now
		return nil
	}); err != nil {
		t.Error(err)
	}
	wantLeaseConflict(t, <-waited, second)
	if second.Fence <= first.Fence {
		t.Errorf("the fence is %d after %d, which was rolled back", second.Fence, first.Fence)
	}
	if err := store.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
		release(t, tx, second)
		acquire(t, tx, ofAnother(asked))
		return failure
	}); !errors.Is(err, failure) {
		t.Error(err)
	}
	wantSame(t, "list after a rollback", listLeases(t, store, repo.LeaseFilter{Name: asked.Key.Name}, 0), []repo.Lease{second})
}

// A context that has ended stops every operation.
func testLeaseContexts(t *testing.T, store repo.Store) {
	asked := newLease()
	held := acquire(t, store, asked)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := newLease()
	for name, run := range leaseOperations(ctx, store, other, held) {
		if err := run(); !errors.Is(err, context.Canceled) || errors.Is(err, repo.ErrUnknownOutcome) {
			t.Errorf("%s gave %v", name, err)
		}
	}
	wantSame(t, "list", listLeases(t, store, repo.LeaseFilter{Name: asked.Key.Name}, 0), []repo.Lease{held})
	if left := listLeases(t, store, repo.LeaseFilter{Name: other.Key.Name}, 0); len(left) > 0 {
		t.Errorf("acquired: %+v", left)
	}
	closeStore(t, store)
	for name, run := range leaseOperations(t.Context(), store, other, held) {
		if err := run(); !errors.Is(err, repo.ErrClosed) {
			t.Errorf("%s after Close gave %v", name, err)
		}
	}
}

func leaseOperations(ctx context.Context, store repo.Store, asked repo.NewLease, held repo.Lease) map[string]func() error {
	return map[string]func() error{
		"Acquire":    func() error { return second(store.Leases().Acquire(ctx, asked)) },
		"Renew":      func() error { return second(store.Leases().Renew(ctx, held, 0)) },
		"Await":      func() error { return store.Leases().Await(ctx, held) },
		"Wait":       func() error { return second(store.Leases().Acquire(ctx, patient(asked))) },
		"Release":    func() error { return store.Leases().Release(ctx, held) },
		"ReleaseAll": func() error { return second(store.Leases().ReleaseAll(ctx, held.Owner)) },
		"List":       func() error { return second(store.Leases().List(ctx, repo.LeaseFilter{}, repo.Page{})) },
		"Hold":       func() error { return second(repo.HoldLease(ctx, store, asked)) },
	}
}

// renewedSoon is a life that a busy machine does not exceed between two renewals.
const renewedSoon = 3 * repo.MinLeaseTTL

// Hold renews the lease, beyond its first life, until it is released. Where this process did not run in time, the lease is
// lost: then another one is held, for longer.
func testHold(t *testing.T, store repo.Store) {
	asked := newLease()
	asked.TTL = renewedSoon
	held, first := holdFor(t, store, asked)
	await.For(t, "the lease is renewed, or lost", func() bool {
		return held.Lease().ExpiresAt.After(first.ExpiresAt) || held.Context().Err() != nil
	})
	if held.Context().Err() != nil {
		asked.Key, asked.TTL = newLease().Key, 10*renewedSoon
		held, first = holdFor(t, store, asked)
		await.For(t, "the lease is renewed", func() bool { return held.Lease().ExpiresAt.After(first.ExpiresAt) })
	}
	if err := held.Context().Err(); err != nil || held.Lease().Fence != first.Fence {
		t.Errorf("the context ended: %v, lease %+v", err, held.Lease())
	}
	for range 2 {
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := held.Context().Err(); !errors.Is(err, context.Canceled) || !errors.Is(context.Cause(held.Context()), context.Canceled) {
		t.Errorf("the context ended with %v, because of %v", err, context.Cause(held.Context()))
	}
	if left := listLeases(t, store, repo.LeaseFilter{Name: asked.Key.Name}, 0); len(left) > 0 {
		t.Errorf("released, but listed: %+v", left)
	}
}

func holdFor(t *testing.T, store repo.Store, asked repo.NewLease) (held *repo.HeldLease, first repo.Lease) {
	t.Helper()
	held, err := repo.HoldLease(t.Context(), store, asked)
	return held, must(t, held, err).Lease()
}

// The context ends soon after another process has released the lease, and taken it.
func testHoldIsLost(t *testing.T, store repo.Store) {
	asked := newLease()
	held, lost := holdFor(t, store, asked)
	_, err := repo.HoldLease(t.Context(), store, ofAnother(asked))
	wantLeaseConflict(t, err, lost)
	derived, cancel := context.WithCancel(held.Context())
	defer cancel()
	release(t, store, lost)
	taken := acquire(t, store, ofAnother(asked))
	await.Value(t, "the context ends", derived.Done())
	for _, ctx := range []context.Context{held.Context(), derived} {
		if !errors.Is(ctx.Err(), context.Canceled) {
			t.Errorf("the context ended with %v", ctx.Err())
		}
		wantLeaseLost(t, context.Cause(ctx), lost)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	wantSame(t, "list", listLeases(t, store, repo.LeaseFilter{Name: asked.Key.Name}, 0), []repo.Lease{taken})
}

// The context ends with that of the caller, with its cause, and with the store.
func testHoldEnds(t *testing.T, store repo.Store) {
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := newLease()
	held, err := repo.HoldLease(ctx, store, asked)
	must(t, held, err)
	over := errors.New("over")
	cancel(over)
	<-held.Context().Done()
	if cause := context.Cause(held.Context()); !errors.Is(cause, over) {
		t.Errorf("the context ended because of %v", cause)
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	asked.TTL = renewedSoon
	end := time.Now().Add(renewedSoon / 2)
	held, _ = holdFor(t, store, asked)
	closeStore(t, store)
	await.Value(t, "the context ends", held.Context().Done())
	lost, ok := wantError[*repo.LeaseLostError](t, context.Cause(held.Context()), repo.ErrConflict)
	inTime := time.Now().Before(end) // short: otherwise it may have expired before a renewal was tried
	if ok && !errors.Is(lost.Err, repo.ErrClosed) && (inTime || lost.Err != nil) {
		t.Errorf("lost because of %v", lost.Err)
	}
	if err := held.Release(t.Context()); !errors.Is(err, repo.ErrClosed) {
		t.Errorf("Release after Close gave %v", err)
	}
}
