package repotest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

func workTests() []test {
	return []test{
		{"Ends", testWorkEnds},
		{"Stopped", testWorkStopped},
		{"Lost", testWorkLost},
		{"Again", testWorkAgain},
		{"Owed", testWorkOwed},
		{"Stalled", testWorkStalled},
		{"Claimed", testWorkClaimed},
		{"Moved", testWorkMoved},
		{"Deadline", testWorkDeadline},
		{"Panics", testWorkPanics},
		{"Invalid", testWorkInvalid},
	}
}

// worker is a call of Work.
type worker struct {
	cancel context.CancelFunc
	done   chan error
}

func work(t *testing.T, store repo.Store, claim repo.Claim, do func(context.Context, repo.Plan) error) worker {
	ctx, cancel := context.WithCancel(t.Context())
	w := worker{cancel, make(chan error, 1)}
	go func() { w.done <- repo.Work(ctx, store, claim, do) }()
	return w
}

// await waits until do has begun what closes the channel.
func (w worker) await(t *testing.T, begun <-chan struct{}) {
	t.Helper()
	select {
	case <-begun:
	case err := <-w.done:
		t.Fatalf("Work: %v", err)
	}
}

// stop ends the call.
func (w worker) stop(t *testing.T) {
	t.Helper()
	w.cancel()
	if err := <-w.done; !errors.Is(err, context.Canceled) {
		t.Errorf("Work: %v", err)
	}
}

// waitFor waits until the plan is in a state.
func waitFor(t *testing.T, r repo.Repositories, id repo.ID, state repo.PlanState) repo.Plan {
	t.Helper()
	var plan repo.Plan
	await(t, "plan that is "+string(state), func() bool {
		plan = getPlan(t, r, id)
		return plan.State == state
	})
	return plan
}

// Whatever the text of an error is, it fails its plan and no other.
func testWorkEnds(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	texts := []string{"", "a\x00b", "\xff", strings.Repeat("é", repo.MaxTextBytes/2+1), "x" + strings.Repeat("é", repo.MaxTextBytes/2), "busy"}
	want := []string{"*errors.errorString", "a\uFFFDb", "\uFFFD", strings.Repeat("é", repo.MaxTextBytes/2), "x" + strings.Repeat("é", repo.MaxTextBytes/2-1), "busy"}
	failing, other := q.add(len(texts)), q.add(3)
	next := 0
	w := work(t, store, q.claim(), func(ctx context.Context, plan repo.Plan) error {
		switch plan.ID {
		case other[0]:
			return nil
		case other[1], other[2]: // which it moves itself
			transition := repo.TransitionComplete
			if plan.ID == other[2] {
				transition = repo.TransitionRevert
			}
			_, err := store.Plans().Transition(ctx, plan.ID, transition, repo.Cause{})
			if next++; plan.ReversionCount > 0 {
				return errors.New("enough")
			}
			return err
		}
		next++
		return errors.New(texts[next-1]) //nolint:err113 // each with another text
	})
	for i, id := range failing {
		if plan := waitFor(t, store, id, repo.StateErrored); plan.ErrorMessage != want[i] {
			t.Errorf("%.9q became %.9q, of %d bytes", texts[i], plan.ErrorMessage, len(plan.ErrorMessage))
		}
	}
	waitFor(t, store, other[0], repo.StateComplete)
	waitFor(t, store, other[1], repo.StateComplete)
	w.stop(t)
}

// Work that is stopped is queued again, however often, and has cost no attempt.
func testWorkStopped(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	id := q.add(1)[0]
	claim := q.claim()
	claim.MaxAttempts = 2
	for range 4 {
		begun := make(chan struct{})
		w := work(t, store, claim, func(ctx context.Context, _ repo.Plan) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		})
		w.await(t, begun)
		w.stop(t)
		if plan := getPlan(t, store, id); plan.State != repo.StateQueued || plan.Attempt != 1 {
			t.Fatalf("it is %s, at attempt %d", plan.State, plan.Attempt)
		}
	}
	begun := make(chan struct{})
	w := work(t, store, claim, func(ctx context.Context, _ repo.Plan) error {
		close(begun)
		<-ctx.Done()
		return nil // it was done all the same
	})
	w.await(t, begun)
	w.stop(t)
	if plan := getPlan(t, store, id); plan.State != repo.StateComplete || plan.Attempt != 1 {
		t.Errorf("it is %s, at attempt %d", plan.State, plan.Attempt)
	}
}

// The work ends when somebody cancels its plan, which stays cancelled, or when its lease is
// lost, which does not fail the plan.
func testWorkLost(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	ids := q.add(2)
	claim := q.claim()
	claim.TTL = repo.MinLeaseTTL
	w := work(t, store, claim, func(ctx context.Context, plan repo.Plan) error {
		var err error
		switch {
		case plan.ID == ids[0]:
			_, err = store.Plans().Transition(ctx, plan.ID, repo.TransitionCancel, repo.Cause{Reason: "too late"})
		case plan.Attempt == 1:
			_, err = store.Leases().ReleaseAll(ctx, claim.Owner)
		default:
			return nil
		}
		if err != nil {
			return err
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if plan := waitFor(t, store, ids[1], repo.StateComplete); plan.Attempt != 2 {
		t.Errorf("it was completed at attempt %d", plan.Attempt)
	}
	w.stop(t)
	if plan := getPlan(t, store, ids[0]); plan.State != repo.StateCancelled || plan.CancelReason != "too late" {
		t.Errorf("it is %s: %s", plan.State, plan.CancelReason)
	}
}

// faulty is a store whose calls that Work makes can be replaced.
type faulty struct {
	repo.Store
	transition func(ctx context.Context, run func() error) error
	claim      func(claimed []repo.ClaimedPlan, err error) ([]repo.ClaimedPlan, error)
	acquire    func(run func() error) error
}

func (s faulty) Plans() repo.Plans   { return faultyPlans{s.Store.Plans(), s} }
func (s faulty) Leases() repo.Leases { return faultyLeases{s.Store.Leases(), s} }

func (s faulty) InTx(ctx context.Context, fn func(context.Context, repo.Repositories) error) error {
	run := func() error { return s.Store.InTx(ctx, fn) }
	if s.transition == nil {
		return run()
	}
	return s.transition(ctx, run)
}

type faultyPlans struct {
	repo.Plans
	store faulty
}

func (p faultyPlans) Transition(ctx context.Context, id repo.ID, transition repo.Transition, cause repo.Cause) (plan repo.Plan, err error) {
	run := func() error {
		plan, err = p.Plans.Transition(ctx, id, transition, cause)
		return err
	}
	if p.store.transition == nil {
		return plan, run()
	}
	err = p.store.transition(ctx, run)
	return plan, err
}

func (p faultyPlans) Claim(ctx context.Context, claim repo.Claim) ([]repo.ClaimedPlan, error) {
	claimed, err := p.Plans.Claim(ctx, claim)
	if p.store.claim == nil {
		return claimed, err
	}
	return p.store.claim(claimed, err)
}

type faultyLeases struct {
	repo.Leases
	store faulty
}

func (l faultyLeases) Acquire(ctx context.Context, asked repo.NewLease) (lease repo.Lease, err error) {
	run := func() error {
		lease, err = l.Leases.Acquire(ctx, asked)
		return err
	}
	if l.store.acquire == nil {
		return lease, run()
	}
	err = l.store.acquire(run)
	return lease, err
}

// falter does not run every third call, and loses the answer of every third.
func falter() func(context.Context, func() error) error {
	var count atomic.Int64
	return func(_ context.Context, run func() error) error {
		switch count.Add(1) % 3 {
		case 1:
			return repo.ErrUnavailable
		case 2:
			if err := run(); err != nil {
				return err
			}
			return repo.ErrUnknownOutcome
		}
		return run()
	}
}

// Work is not done again because its transition has failed or its answer was lost.
func testWorkAgain(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	ids := q.add(3)
	var done []repo.ID
	begun := make(chan struct{})
	w := work(t, faulty{Store: store, transition: falter()}, q.claim(), func(ctx context.Context, plan repo.Plan) error {
		done = append(done, plan.ID)
		switch plan.ID {
		case ids[0]:
			return nil
		case ids[1]:
			return errors.New("failed")
		}
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	})
	w.await(t, begun)
	w.stop(t)
	if len(done) != len(ids) {
		t.Errorf("%d plans were done", len(done))
	}
	for i, state := range []repo.PlanState{repo.StateComplete, repo.StateErrored, repo.StateQueued} {
		if plan := getPlan(t, store, ids[i]); plan.State != state || plan.Attempt != 1 {
			t.Errorf("plan %d is %s, at attempt %d", i, plan.State, plan.Attempt)
		}
	}
}

// wantAttempt checks that a plan is in a state, at its first attempt.
func wantAttempt(t *testing.T, store repo.Store, id repo.ID, state repo.PlanState) {
	t.Helper()
	if plan := getPlan(t, store, id); plan.State != state || plan.Attempt != 1 {
		t.Errorf("it is %s, at attempt %d", plan.State, plan.Attempt)
	}
}

// A transition is owed for longer than a lease lasts, if that is renewed.
func testWorkOwed(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	id := q.add(1)[0]
	claim := q.claim()
	claim.TTL = repo.MinLeaseTTL
	end := time.Now().Add(claim.TTL * 3 / 2)
	w := work(t, faulty{Store: store, transition: func(_ context.Context, run func() error) error {
		if time.Now().Before(end) {
			return repo.ErrContention
		}
		return run()
	}}, claim, func(context.Context, repo.Plan) error { return nil })
	waitFor(t, store, id, repo.StateComplete)
	w.stop(t)
	wantAttempt(t, store, id, repo.StateComplete)
}

// A transition without an answer does not end the worker, when its lease is lost meanwhile.
func testWorkStalled(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	id := q.add(1)[0]
	claim := q.claim()
	claim.TTL = repo.MinLeaseTTL
	stalled := false
	w := work(t, faulty{Store: store, transition: func(ctx context.Context, run func() error) error {
		if stalled {
			return run()
		}
		stalled = true
		if _, err := store.Leases().ReleaseAll(ctx, claim.Owner); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}}, claim, func(context.Context, repo.Plan) error { return nil })
	if plan := waitFor(t, store, id, repo.StateComplete); plan.Attempt != 2 {
		t.Errorf("it was completed at attempt %d", plan.Attempt)
	}
	w.stop(t)
}

// A plan is done, or queued again, at its first attempt: although the answer to its claim was
// lost, or it could not be held at once, or the worker was stopped before it had begun.
func testWorkClaimed(t *testing.T, store repo.Store) {
	for _, lost := range []bool{false, true} {
		for _, stopped := range []bool{false, true} {
			q := newQueue(t, store)
			id := q.add(1)[0]
			claimed, refused := make(chan struct{}), false
			var w worker
			ready := make(chan struct{})
			w = work(t, faulty{
				Store: store,
				claim: func(answer []repo.ClaimedPlan, err error) ([]repo.ClaimedPlan, error) {
					if len(answer) == 0 {
						return answer, err
					}
					close(claimed)
					if <-ready; stopped {
						w.cancel()
					}
					if lost {
						return nil, repo.ErrUnknownOutcome
					}
					return answer, err
				},
				acquire: func(run func() error) error {
					if refused {
						return run()
					}
					refused = true
					return repo.ErrUnavailable
				},
			}, q.claim(), func(context.Context, repo.Plan) error { return nil })
			close(ready)
			w.await(t, claimed)
			state := repo.StateComplete
			if stopped {
				state = repo.StateQueued
			}
			waitFor(t, store, id, state)
			w.stop(t)
			wantAttempt(t, store, id, state)
		}
	}
}

// A plan that somebody has moved is not moved again, although it is processing and nobody has
// claimed it.
func testWorkMoved(t *testing.T, store repo.Store) {
	for _, failed := range []error{nil, errors.New("failed")} {
		q := newQueue(t, store)
		id := q.add(1)[0]
		moved := make(chan struct{})
		w := work(t, store, q.claim(), func(ctx context.Context, plan repo.Plan) error {
			defer close(moved)
			for _, transition := range []repo.Transition{repo.TransitionComplete, repo.TransitionExecute, repo.TransitionStart} {
				if _, err := store.Plans().Transition(ctx, plan.ID, transition, repo.Cause{}); err != nil {
					t.Errorf("%s: %v", transition, err)
				}
			}
			return failed
		})
		w.await(t, moved)
		w.stop(t)
		if plan := getPlan(t, store, id); plan.State != repo.StateProcessing {
			t.Errorf("it is %s", plan.State)
		}
	}
}

// What fails at the deadline of the worker's context has been stopped.
func testWorkDeadline(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	id := q.add(1)[0]
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	deadline, _ := ctx.Deadline()
	err := repo.Work(ctx, store, q.claim(), func(context.Context, repo.Plan) error {
		time.Sleep(time.Until(deadline))
		return errors.New("i/o timeout")
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Work: %v", err)
	}
	wantAttempt(t, store, id, repo.StateQueued)
}

// A claim whose work panics has expired, and leaves nothing that renews it.
func testWorkPanics(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	id := q.add(1)[0]
	claim := q.claim()
	claim.TTL = time.Hour
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Work did not panic")
			}
		}()
		_ = repo.Work(t.Context(), store, claim, func(context.Context, repo.Plan) error { panic("of the test") })
	}()
	if claimed := q.takeOne(); claimed.Plan.ID != id || claimed.Plan.Attempt != 2 {
		t.Errorf("claimed %s at attempt %d", claimed.Plan.ID, claimed.Plan.Attempt)
	}
}

func testWorkInvalid(t *testing.T, store repo.Store) {
	do := func(context.Context, repo.Plan) error { return nil }
	wantInvalid(t, repo.Work(t.Context(), store, repo.Claim{}, do), "owner")
	wantInvalid(t, repo.Work(t.Context(), store, repo.Claim{Owner: "o", Limit: 2}, do), "limit")
	wantInvalid(t, repo.Work(t.Context(), nil, repo.Claim{Owner: "o"}, do), "store")
	wantInvalid(t, repo.Work(t.Context(), store, repo.Claim{Owner: "o"}, nil), "do")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("stopped")
	cancel(cause)
	if err := repo.Work(ctx, store, repo.Claim{Owner: "o"}, do); !errors.Is(err, cause) {
		t.Errorf("Work: %v", err)
	}
}
