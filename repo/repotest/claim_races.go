package repotest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

func claimRaceTests() []test {
	return []test{
		{"Once", testRaceClaim},
		{"Expired", testRaceExpired},
		{"Complete", testRaceClaimAndComplete},
		{"Limits", testRaceLimits},
		{"Acquire", testRaceClaimAndAcquire},
		{"Cancel", testRaceClaimAndCancel},
		{"Rollback", testClaimRollback},
		{"Wait", testClaimWait},
		{"WaitMany", testClaimWaitMany},
		{"WaitEnds", testClaimWaitEnds},
		{"WaitInTx", testClaimWaitInTx},
	}
}

// taken counts how often plans were claimed.
type taken struct {
	mu     sync.Mutex
	counts map[repo.ID]int
}

func (s *taken) add(claimed ...repo.ClaimedPlan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[repo.ID]int{}
	}
	for _, c := range claimed {
		s.counts[c.Plan.ID]++
	}
}

func (s *taken) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.counts)
}

// wantOnce checks that each plan was claimed once.
func (s *taken) wantOnce(t *testing.T, ids []repo.ID) {
	t.Helper()
	for _, id := range ids {
		if got := s.counts[id]; got != 1 {
			t.Errorf("a plan was claimed %d times", got)
		}
	}
	if len(s.counts) != len(ids) {
		t.Errorf("%d plans were claimed, want %d", len(s.counts), len(ids))
	}
}

// Of concurrent claims, each plan is claimed by one, and none is left.
// Guarantee: Claims: Of concurrent claims each plan is claimed by one.
func testRaceClaim(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	ids := q.add(100)
	var seen taken
	together(workers, func(worker int) {
		claim := q.claim()
		claim.Limit = 1 + worker%3
		for seen.len() < len(ids) && !t.Failed() {
			claimed, err := store.Plans().Claim(t.Context(), claim)
			if err != nil {
				t.Error(err)
			}
			seen.add(claimed...)
		}
	})
	seen.wantOnce(t, ids)
	for _, id := range ids {
		if plan := getPlan(t, store, id); plan.Version != 2 || len(history(t, store, id)) != 2 {
			t.Errorf("a plan is at %v, version %d", plan.Stage, plan.Version)
		}
	}
}

// A claim that has expired has one successor.
func testRaceExpired(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	ids := q.add(20)
	claim := q.claim()
	claim.Limit = len(ids)
	for _, c := range q.take(claim) {
		release(t, store, c.Lease)
	}
	var seen taken
	together(workers, func(int) {
		claim := q.claim()
		for seen.len() < len(ids) && !t.Failed() {
			claimed, err := store.Plans().Claim(t.Context(), claim)
			if err != nil {
				t.Error(err)
			}
			seen.add(claimed...)
		}
	})
	seen.wantOnce(t, ids)
	for _, id := range ids {
		if plan := getPlan(t, store, id); plan.Attempt != 2 || plan.Version != 4 || len(history(t, store, id)) != 4 {
			t.Errorf("a plan is at %v, version %d, attempt %d", plan.Stage, plan.Version, plan.Attempt)
		}
	}
}

// While claims are released and made again, one of the claimers of a plan completes it.
func testRaceClaimAndComplete(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	ids := q.add(20)
	var completed taken
	together(workers, func(worker int) {
		claim := q.claim()
		for completed.len() < len(ids) && !t.Failed() {
			claimed, err := store.Plans().Claim(t.Context(), claim)
			if err != nil {
				t.Error(err)
			}
			for _, c := range claimed {
				if worker%2 == 0 {
					if err := store.Leases().Release(t.Context(), c.Lease); err != nil {
						t.Error(err)
					}
					tick()
				}
				_, err := store.Plans().Transition(t.Context(), c.Plan.ID, repo.TransitionComplete, repo.Cause{Version: c.Plan.Version})
				switch {
				case err == nil:
					completed.add(c)
				case !errors.Is(err, repo.ErrConflict):
					t.Error(err)
				}
			}
		}
	})
	completed.wantOnce(t, ids)
	for _, id := range ids {
		plan := getPlan(t, store, id)
		if plan.State != repo.PlanComplete || plan.Version != int64(2*plan.Attempt)+1 || int64(len(history(t, store, id))) != plan.Version {
			t.Errorf("a plan is at %v, version %d, attempt %d", plan.Stage, plan.Version, plan.Attempt)
		}
		if left := listLeases(t, store, repo.LeaseFilter{Kind: repo.LeaseOfPlan, Name: id.String()}, 0); len(left) > 0 {
			t.Errorf("left: %+v", left)
		}
	}
}

// An acquisition of a plan's lease by hand and a claim have one winner, and their tokens
// grow.
// Guarantee: Claims: A claim and an acquisition by hand never both get the plan.
func testRaceClaimAndAcquire(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	for range 20 {
		id := q.add(1)[0]
		var mu sync.Mutex
		var won []repo.Lease
		together(4, func(worker int) {
			if worker%2 == 0 {
				claimed, err := store.Plans().Claim(t.Context(), q.claim())
				if err != nil {
					t.Error(err)
				}
				for _, c := range claimed {
					mu.Lock()
					won = append(won, c.Lease)
					mu.Unlock()
				}
				return
			}
			lease, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.PlanLease(id), Owner: randomName()})
			if err == nil {
				mu.Lock()
				won = append(won, lease)
				mu.Unlock()
			} else if !errors.Is(err, repo.ErrConflict) {
				t.Error(err)
			}
		})
		if len(won) != 1 {
			t.Fatalf("%d have the lease: %+v", len(won), won)
		}
		wantSame(t, "lease", listLeases(t, store, repo.LeaseFilter{Kind: repo.LeaseOfPlan, Name: id.String()}, 0), won)
		move(t, store, id, repo.TransitionCancel)
	}
}

// A cancelled tree has no plan that is processing, and no claim.
func testRaceClaimAndCancel(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	for range 5 {
		root := usePlan(t, store, q.action, repo.UseAction{Namespace: "other/" + q.namespace}).ID
		var ids []repo.ID
		for range 5 {
			ids = append(ids, usePlan(t, store, q.action, repo.UseAction{ParentID: root, Namespace: q.namespace}).ID)
		}
		together(4, func(worker int) {
			if worker == 0 {
				if _, err := store.Plans().Transition(t.Context(), root, repo.TransitionCancel, repo.Cause{Reason: "x"}); err != nil {
					t.Error(err)
				}
				return
			}
			for range 3 {
				if _, err := store.Plans().Claim(t.Context(), q.claim()); err != nil {
					t.Error(err)
				}
			}
		})
		for _, id := range ids {
			if plan := getPlan(t, store, id); plan.State != repo.PlanCancelled || int64(len(history(t, store, id))) != plan.Version {
				t.Errorf("a plan is at %v", plan.Stage)
			}
			if left := listLeases(t, store, repo.LeaseFilter{Kind: repo.LeaseOfPlan, Name: id.String()}, 0); len(left) > 0 {
				t.Errorf("left: %+v", left)
			}
		}
		wantClaimed(t, q.take(q.claim()))
	}
}

// A claim that is rolled back was not made. Until then others do not wait for it.
func testClaimRollback(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	id := q.add(1)[0]
	over := errors.New("over")
	err := store.InTx(t.Context(), func(ctx context.Context, r repo.Repositories) error {
		claimed, err := r.Plans().Claim(ctx, q.claim())
		if err != nil || len(claimed) != 1 {
			t.Errorf("claimed %v, %v", claimed, err)
		}
		return over
	})
	if !errors.Is(err, over) {
		t.Fatal(err)
	}
	c := q.takeOne()
	wantClaimed(t, []repo.ClaimedPlan{c}, id)
	if c.Plan.Attempt != 1 || c.Plan.Version != 2 {
		t.Errorf("claimed as %+v", c.Plan)
	}
}

// waiting is a claim that waits.
type waiting struct {
	t       *testing.T
	claimed chan []repo.ClaimedPlan
	err     chan error
}

func (q queue) wait(ctx context.Context, store repo.Store, claim repo.Claim) waiting {
	w := waiting{q.t, make(chan []repo.ClaimedPlan, 1), make(chan error, 1)}
	claim.Wait = true
	go func() {
		claimed, err := store.Plans().Claim(ctx, claim)
		if err != nil {
			w.err <- err
			return
		}
		w.claimed <- claimed
	}()
	time.Sleep(20 * time.Millisecond) // pace: it usually waits by then
	return w
}

// wants checks what is claimed in the end.
func (w waiting) wants(ids ...repo.ID) repo.ClaimedPlan {
	w.t.Helper()
	select {
	case claimed := <-w.claimed:
		wantClaimed(w.t, claimed, ids...)
		return claimed[0]
	case err := <-w.err:
		w.t.Fatal(err)
	case <-await.Context(w.t).Done():
		w.t.Fatal("the claim still waits")
	}
	return repo.ClaimedPlan{}
}

// A claim that waits gets what is queued, in whichever way.
func testClaimWait(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	w := q.wait(t.Context(), store, q.claim())
	id := q.add(1)[0]
	c := w.wants(id)
	wantPlan(t, c.Plan, getPlan(t, store, id))

	for name, steps := range map[string][]repo.Transition{
		"execute": {repo.TransitionComplete, repo.TransitionExecute},
		"resume":  {repo.TransitionFail, repo.TransitionResume},
		"revert":  {repo.TransitionComplete, repo.TransitionExecute, repo.TransitionStart, repo.TransitionFail, repo.TransitionRevert},
	} {
		t.Run(name, func(*testing.T) {
			claim := q.claim()
			claim.Phases = []repo.Phase{repo.PhaseExecute}
			if name != "execute" {
				claim.Phases = []repo.Phase{repo.PhaseStrategize}
			}
			w := q.wait(t.Context(), store, claim)
			move(t, store, id, steps...)
			w.wants(id)
			move(t, store, id, repo.TransitionCancel)
			id = q.add(1)[0]
			q.takeOne()
		})
	}
	// A claim that expires, and a transaction.
	other := q.wait(t.Context(), store, q.claim())
	release(t, store, listLeases(t, store, repo.LeaseFilter{Name: id.String()}, 0)[0])
	if got := other.wants(id); got.Plan.Attempt != 2 {
		t.Errorf("claimed as %+v", got.Plan)
	}
	w = q.wait(t.Context(), store, q.claim())
	var inTx repo.ID
	err := store.InTx(t.Context(), func(ctx context.Context, r repo.Repositories) error {
		plan, err := r.Plans().Use(ctx, q.action, repo.UseAction{Namespace: q.namespace})
		inTx = plan.ID
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w.wants(inTx)
}

// Many waiting claims get many plans: each plan is claimed once, and none waits for ever.
func testClaimWaitMany(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	var seen taken
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const plans = 60
	var ids []repo.ID
	together(9, func(worker int) {
		if worker == 8 {
			for range plans { // in any order of their times
				ids = append(ids, usePlan(t, store, q.action, repo.UseAction{Namespace: q.namespace}).ID)
			}
			return
		}
		claim := q.claim()
		claim.Wait = true
		if worker%2 == 0 {
			claim.Actions = []string{q.action}
		}
		for seen.len() < plans {
			claimed, err := store.Plans().Claim(ctx, claim)
			if err != nil {
				if !errors.Is(err, context.Canceled) && !errors.Is(err, repo.ErrUnknownOutcome) {
					t.Error(err)
				}
				return
			}
			if len(claimed) != 1 {
				t.Errorf("%d plans were claimed", len(claimed))
			}
			seen.add(claimed...)
		}
		cancel() // the others wait in vain
	})
	seen.wantOnce(t, ids)
}

// A wait ends with its context, and with the store.
func testClaimWaitEnds(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	ctx, cancel := context.WithCancel(t.Context())
	w := q.wait(ctx, store, q.claim())
	closed := q.wait(t.Context(), store, q.claim())
	tick()
	cancel()
	for _, end := range []struct {
		w    waiting
		want error
	}{{w, context.Canceled}, {closed, repo.ErrClosed}} {
		select {
		case err := <-end.w.err:
			if !errors.Is(err, end.want) && !errors.Is(err, repo.ErrUnknownOutcome) {
				t.Errorf("the claim ended with %v, want %v", err, end.want)
			}
		case <-end.w.claimed:
			t.Error("a plan was claimed")
		case <-await.Context(t).Done():
			t.Fatal("the claim still waits")
		}
		closeStore(t, store)
	}
}

func testClaimWaitInTx(t *testing.T, store repo.Store) {
	claim := newQueue(t, store).claim()
	claim.Wait = true
	err := store.InTx(t.Context(), func(ctx context.Context, r repo.Repositories) error {
		_, err := r.Plans().Claim(ctx, claim)
		return err
	})
	wantInvalid(t, err, "wait")
}
