package repotest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

func fenceRaceTests() []test {
	return []test{
		{"Overtaken", testFenceOvertaken},
		{"NaiveOvertaken", testFenceNaive},
		{"OvertakenPlan", testFenceOvertakenPlan},
		{"Neighbours", testFenceNeighbours},
		{"Creations", testFenceCreations},
		{"InTx", testFenceTx},
	}
}

// Writers that hold a lease are overtaken while they write in a loop: after another
// owner's acquisition, none of their writes is accepted.
// Guarantee: Leases: After an acquisition a session accepts no earlier fence.
func testFenceOvertaken(t *testing.T, store repo.Store) {
	scope, beside := shared(), create(t, store.Sessions())
	one := func(ctx context.Context, r repo.Repositories, id repo.ID, turn repo.Turn) error {
		_, err := r.Sessions().AppendTurn(ctx, inSession(id, turn))
		return err
	}
	for name, write := range map[string]func(id repo.ID, turn repo.Turn) error{
		"append": func(id repo.ID, turn repo.Turn) error { return one(t.Context(), store, id, turn) },
		"append with an id": func(id repo.ID, turn repo.Turn) error {
			turn.Messages = withIDs(slices.Concat(turn.Messages, turn.Messages))
			return one(t.Context(), store, id, turn)
		},
		"append at": func(id repo.ID, turn repo.Turn) error {
			session, err := store.Sessions().Get(t.Context(), id)
			if err != nil {
				return err
			}
			turn.Expected = &session.MessageCount
			return one(t.Context(), store, id, turn)
		},
		"turn": func(id repo.ID, turn repo.Turn) error {
			turn.State, turn.Usage = []repo.StateChange{increment(repo.Scope{}, "n", 1)}, &repo.NewUsage{Cost: 1}
			return one(t.Context(), store, id, turn)
		},
		"shared turn": func(id repo.ID, turn repo.Turn) error {
			turn.State = []repo.StateChange{increment(scope, "n", 1)}
			return one(t.Context(), store, id, turn)
		},
		"together with another": func(id repo.ID, turn repo.Turn) error {
			_, err := appendInTx(t.Context(), store, repo.Turn{SessionID: beside, Messages: users(1)}, inSession(id, turn))
			return err
		},
		"transaction": func(id repo.ID, turn repo.Turn) error {
			return store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error { return one(ctx, tx, id, turn) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var refused counter
			late, accepted := overtaken(t, store, func(id repo.ID, lease repo.Lease, message repo.NewMessage) bool {
				err := write(id, repo.Turn{Messages: []repo.NewMessage{message}, Fence: lease.Fence})
				_, isFenced := errors.AsType[*repo.FencedError](err)
				_, isLate := errors.AsType[*repo.SequenceConflictError](err)
				switch {
				case isFenced:
					refused.add()
				case err != nil && !isLate && !errors.Is(err, repo.ErrContention):
					t.Error(err)
					return false
				}
				return !isFenced
			})
			if late != 0 || accepted == 0 || refused.get() == 0 {
				t.Errorf("%d writes were accepted, %d of them after the lease was another's; %d writers were refused", accepted, late, refused.get())
			}
		})
	}
}

// A writer that looks at the lease before each write is not safe. The same harness finds that.
func testFenceNaive(t *testing.T, store repo.Store) {
	for range 200 {
		late, _ := overtaken(t, store, func(id repo.ID, lease repo.Lease, message repo.NewMessage) bool {
			page, err := store.Leases().List(t.Context(), repo.LeaseFilter{Kind: lease.Key.Kind, Name: lease.Key.Name}, repo.Page{})
			if err != nil || len(page.Items) == 0 || page.Items[0].Fence != lease.Fence {
				return false
			}
			time.Sleep(2 * time.Millisecond) // pace: a round trip, during which the lease may be lost
			_, err = store.Sessions().Append(t.Context(), id, message)
			if err != nil {
				t.Error(err)
			}
			return err == nil
		})
		if late > 0 {
			return
		}
	}
	t.Error("no write was late: this test would not find one")
}

// overtaken has several writers write under a lease, until write returns false, and ends the lease
// meanwhile. It returns how many messages were accepted, and how many of them after another owner had
// acquired the lease.
func overtaken(t *testing.T, store repo.Store, write func(id repo.ID, lease repo.Lease, message repo.NewMessage) bool) (late, accepted int) {
	t.Helper()
	const writers = 4
	id := create(t, store.Sessions())
	lease := leaseOf(t, store, repo.SessionLease(id))
	var rounds atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		together(writers, func(int) {
			for write(id, lease, user("of the first")) {
				rounds.Add(1)
			}
		})
	}()
	await.For(t, "the writers write", func() bool { return rounds.Load() >= writers })
	overtake(t, store, lease)
	next := get(t, store.Sessions(), id).MessageCount
	await.Value(t, "the writers end", done)
	accepted = len(readAll(t, store.Sessions(), id))
	return accepted - int(next), accepted
}

// The same for plans: the second holder's progress is not overwritten, and no transition
// is made after its first.
// Guarantee: Leases: After an acquisition a plan accepts no earlier fence.
func testFenceOvertakenPlan(t *testing.T, store repo.Store) {
	plan := usePlan(t, store, plain(t, store), repo.UseAction{})
	first := leaseOf(t, store, repo.PlanLease(plan.ID))
	cycle := []repo.Transition{repo.TransitionStart, repo.TransitionFail, repo.TransitionResume}
	var moved, progressed atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		together(4, func(worker int) {
			for step := int64(0); ; step++ {
				var err error
				if worker == 0 {
					_, err = store.Plans().Transition(t.Context(), plan.ID, cycle[step%3], repo.Cause{Reason: map[bool]string{true: "r"}[step%3 == 1], Fence: first.Fence})
					moved.Add(1)
				} else {
					_, err = store.Plans().Progress(t.Context(), plan.ID, repo.Progress{CheckpointID: ptr("first"), Fence: first.Fence})
					progressed.Add(1)
				}
				if _, isFenced := errors.AsType[*repo.FencedError](err); isFenced {
					return
				}
				if _, isElsewhere := errors.AsType[*repo.TransitionConflictError](err); err != nil && (!isElsewhere || worker == 0) {
					t.Error(err)
					return
				}
			}
		})
	}()
	await.For(t, "the workers work", func() bool { return moved.Load() > 10 && progressed.Load() > 10 })
	now := overtake(t, store, first)
	left := getPlan(t, store, plan.ID)
	if left.State == repo.PlanErrored {
		must(t, left, second(store.Plans().Transition(t.Context(), plan.ID, repo.TransitionResume, repo.Cause{Fence: now.Fence})))
	}
	if left = getPlan(t, store, plan.ID); left.State == repo.PlanQueued {
		must(t, left, second(store.Plans().Transition(t.Context(), plan.ID, repo.TransitionStart, repo.Cause{Fence: now.Fence})))
	}
	must(t, left, second(store.Plans().Progress(t.Context(), plan.ID, repo.Progress{CheckpointID: ptr("second"), Fence: now.Fence})))
	left = getPlan(t, store, plan.ID)
	await.Value(t, "the workers end", done)
	wantSame(t, "plan", getPlan(t, store, plan.ID), left)
}

// Writers of one session and of others, with the latest fence, an old one and none, write
// at once: only those with the old one are refused.
func testFenceNeighbours(t *testing.T, store repo.Store) {
	const rounds = 20
	id := create(t, store.Sessions())
	old := leaseOf(t, store, repo.SessionLease(id))
	latest := overtake(t, store, old)
	others := []repo.ID{create(t, store.Sessions()), create(t, store.Sessions())}
	fences := []int64{latest.Fence, old.Fence, 0, latest.Fence, old.Fence, 0}
	together(len(fences)+len(others), func(worker int) {
		for range rounds {
			if worker >= len(fences) {
				if _, err := store.Sessions().Append(t.Context(), others[worker-len(fences)], users(1)...); err != nil {
					t.Error(err)
				}
				continue
			}
			_, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: users(1), Fence: fences[worker]})
			if _, isFenced := errors.AsType[*repo.FencedError](err); isFenced != (fences[worker] == old.Fence) {
				t.Errorf("fence %d of %d gave %v", fences[worker], latest.Fence, err)
			}
		}
	})
	wantCount(t, store.Sessions(), id, 4*rounds)
	for _, other := range others {
		wantCount(t, store.Sessions(), other, rounds)
	}
}

// A session is created while its lease goes from one writer to the next. After a lease was
// acquired, no write under an earlier one is accepted.
func testFenceCreations(t *testing.T, store repo.Store) {
	for range 8 {
		id := repo.NewID()
		const holders = 4
		var late atomic.Int32
		var newest atomic.Int64
		together(holders, func(int) {
			lease, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.SessionLease(id), Owner: randomName()})
			for ; errors.Is(err, repo.ErrConflict); lease, err = store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.SessionLease(id), Owner: randomName()}) {
				tick()
			}
			if err != nil {
				t.Error(err)
				return
			}
			newest.Store(lease.Fence) // one at a time has the lease
			for write := range 4 {
				if write == 2 {
					if err := store.Leases().Release(t.Context(), lease); err != nil {
						t.Error(err)
					}
				}
				overtaken := newest.Load() != lease.Fence
				_, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: users(1), Create: &repo.NewSession{}, Fence: lease.Fence})
				_, isFenced := errors.AsType[*repo.FencedError](err)
				switch {
				case err == nil && overtaken:
					late.Add(1)
				case err != nil && (write < 2 || !isFenced):
					t.Error(err)
				}
			}
		})
		if n := late.Load(); n > 0 {
			t.Fatalf("%d writes under a lease were accepted after a later one had been acquired", n)
		}
	}
}

// A lease that is acquired in a transaction fences with its commit.
func testFenceTx(t *testing.T, store repo.Store) {
	id, failure := create(t, store.Sessions()), errors.New("failure")
	first := leaseOf(t, store, repo.SessionLease(id))
	plan := usePlan(t, store, plain(t, store), repo.UseAction{})
	planned := leaseOf(t, store, repo.PlanLease(plan.ID))
	write := func(r repo.Repositories, fence int64) error {
		_, err := r.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: users(1), Fence: fence})
		return err
	}
	for _, outcome := range []error{failure, nil} {
		var inside repo.Lease
		if err := store.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
			inside = overtake(t, tx, first)
			overtake(t, tx, planned)
			wantFenced(t, write(tx, first.Fence), repo.FencedError{Key: first.Key, Fence: first.Fence, Latest: inside.Fence})
			if err := write(tx, inside.Fence); err != nil {
				t.Error(err)
			}
			return outcome
		}); !errors.Is(err, outcome) {
			t.Error(err)
		}
		err := write(store, first.Fence)
		_, planErr := store.Plans().Transition(t.Context(), plan.ID, repo.TransitionStart, repo.Cause{Fence: planned.Fence})
		if outcome == nil {
			wantFenced(t, err, repo.FencedError{Key: first.Key, Fence: first.Fence, Latest: inside.Fence})
			if _, isFenced := errors.AsType[*repo.FencedError](planErr); !isFenced {
				t.Errorf("the plan gave %v", planErr)
			}
		} else if err != nil || planErr != nil {
			t.Errorf("after the rollback: %v, %v", err, planErr)
		}
	}
	wantCount(t, store.Sessions(), id, 2)

	// One that creates the session as well.
	later := repo.NewID()
	var made repo.Lease
	if err := store.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
		made = leaseOf(t, tx, repo.SessionLease(later))
		addTurn(t, tx, later, repo.Turn{Messages: users(1), Create: &repo.NewSession{FencedOnly: true}, Fence: made.Fence})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	addTurn(t, store, later, repo.Turn{Messages: users(1), Fence: made.Fence})
}
