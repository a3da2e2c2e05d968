package repotest

import (
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// A claim whose lease has ended, and was acquired by hand since, is over when that lease
// ends, too: not only when it would have expired.
func testClaimLeaseByHand(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	c := q.takeOneOf(q.add(1)[0])
	release(t, r, c.Lease)
	byHand := acquire(t, r, repo.NewLease{Key: c.Lease.Key, Owner: randomName()})
	wantClaimed(t, q.take(q.claim())) // which finds it held for an hour
	release(t, r, byHand)
	if again := q.takeOneOf(c.Plan.ID); again.Plan.Attempt != 2 {
		t.Errorf("claimed as %+v", again.Plan)
	}
}

// The owner of a claim whose lease has ended may acquire it again, as Hold does. What takes
// the plan out of processing releases that lease, too, but not another owner's.
func testClaimAcquiredAgain(t *testing.T, r repo.Repositories) {
	q := newQueue(t, r)
	for _, same := range []bool{true, false} {
		c := q.takeOneOf(q.add(1)[0])
		release(t, r, c.Lease)
		asked := repo.NewLease{Key: c.Lease.Key, Owner: c.Lease.Owner}
		if !same {
			asked.Owner = randomName()
		}
		again := acquire(t, r, asked)
		move(t, r, c.Plan.ID, repo.TransitionCancel)
		left := listLeases(t, r, repo.LeaseFilter{Kind: repo.LeaseOfPlan, Name: c.Lease.Key.Name}, 0)
		if want := map[bool]int{true: 0, false: 1}[same]; len(left) != want {
			t.Errorf("by the same owner: %t; after %+v the cancellation leaves %+v", same, again, left)
		}
	}
}

// takeOneOf claims one plan, which is this one.
func (q queue) takeOneOf(id repo.ID) repo.ClaimedPlan {
	q.t.Helper()
	c := q.takeOne()
	wantClaimed(q.t, []repo.ClaimedPlan{c}, id)
	return c
}
