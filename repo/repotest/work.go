package repotest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/limits"
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
		{"Deleted", testWorkDeleted},
		{"Deadline", testWorkDeadline},
		{"Panics", testWorkPanics},
		{"Finish", testWorkFinish},
		{"Many", testWorkMany},
		{"Fails", testWorkFails},
		{"Invalid", testWorkInvalid},
		{"Retries", testWorkRetries},
		{"WaitsUntilDue", testWorkWaitsUntilDue},
	}
}

// worker is a call of Work.
type worker struct {
	cancel context.CancelFunc
	done   chan error
}

func work(t *testing.T, store repo.Store, claim repo.Claim, do func(context.Context, repo.ClaimedPlan) error) worker {
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
	await.For(t, "plan that is "+string(state), func() bool {
		plan = getPlan(t, r, id)
		return plan.State == state
	})
	return plan
}

// Whatever the text of an error is, it fails its plan and no other.
func testWorkEnds(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	q.action = plain(t, store)
	texts := []string{"", "a\x00b", "\xff", strings.Repeat("é", limits.MaxTextBytes/2+1), "x" + strings.Repeat("é", limits.MaxTextBytes/2), "busy"}
	want := []string{"*errors.errorString", "a\uFFFDb", "\uFFFD", strings.Repeat("é", limits.MaxTextBytes/2), "x" + strings.Repeat("é", limits.MaxTextBytes/2-1), "busy"}
	failing, other := q.add(len(texts)), q.add(3)
	next := 0
	w := work(t, store, q.claim(), func(ctx context.Context, c repo.ClaimedPlan) error {
		plan := c.Plan
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
		if plan := waitFor(t, store, id, repo.PlanErrored); plan.ErrorMessage != want[i] {
			t.Errorf("%.9q became %.9q, of %d bytes", texts[i], plan.ErrorMessage, len(plan.ErrorMessage))
		}
	}
	waitFor(t, store, other[0], repo.PlanComplete)
	waitFor(t, store, other[1], repo.PlanComplete)
	w.stop(t)
}

// Work that is stopped is queued again, however often, and has cost no attempt.
func testWorkStopped(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	id := q.add(1)[0]
	claim := q.claim()
	for range 4 {
		begun := make(chan struct{})
		w := work(t, store, claim, func(ctx context.Context, _ repo.ClaimedPlan) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		})
		w.await(t, begun)
		w.stop(t)
		if plan := getPlan(t, store, id); plan.State != repo.PlanQueued || plan.Attempt != 1 {
			t.Fatalf("it is %s, at attempt %d", plan.State, plan.Attempt)
		}
	}
	begun := make(chan struct{})
	w := work(t, store, claim, func(ctx context.Context, _ repo.ClaimedPlan) error {
		close(begun)
		<-ctx.Done()
		return nil // it was done all the same
	})
	w.await(t, begun)
	w.stop(t)
	if plan := getPlan(t, store, id); plan.State != repo.PlanComplete || plan.Attempt != 1 {
		t.Errorf("it is %s, at attempt %d", plan.State, plan.Attempt)
	}
}

// The work ends when its plan is cancelled, and stays so, or when its lease is lost, which
// does not fail the plan. It does not take until the next renewal.
// Guarantee: Claims: A worker learns at once that its plan or lease has ended.
// Guarantee: Claims: A lost lease does not fail a plan; a worker's error does.
func testWorkLost(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	ids := q.add(2)
	claim := q.claim()
	w := work(t, store, claim, func(ctx context.Context, c repo.ClaimedPlan) error {
		plan := c.Plan
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
		if _, lost := errors.AsType[*repo.LeaseLostError](context.Cause(ctx)); !lost {
			t.Errorf("it ended because of %v", context.Cause(ctx))
		}
		return context.Cause(ctx)
	})
	if plan := waitFor(t, store, ids[1], repo.PlanComplete); plan.Attempt != 2 {
		t.Errorf("it was completed at attempt %d", plan.Attempt)
	}
	w.stop(t)
	if plan := getPlan(t, store, ids[0]); plan.State != repo.PlanCancelled || plan.CancelReason != "too late" {
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
// Guarantee: Claims: `Work` does no plan again because an answer was lost.
func testWorkAgain(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	q.action = plain(t, store)
	ids := q.add(3)
	var done []repo.ID
	begun := make(chan struct{})
	w := work(t, faulty{Store: store, transition: falter()}, q.claim(), func(ctx context.Context, c repo.ClaimedPlan) error {
		plan := c.Plan
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
	for i, state := range []repo.PlanState{repo.PlanComplete, repo.PlanErrored, repo.PlanQueued} {
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

// A transition is owed for longer than a lease lasts, if that is renewed. Where this process did not run in time, the
// lease is lost, and the plan done again: then it is tried with longer ones.
func testWorkOwed(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	claim := q.claim()
	for claim.TTL = repo.MinLeaseTTL; ; claim.TTL *= 4 { // short: tried again with a longer one
		id := q.add(1)[0]
		end := time.Now().Add(claim.TTL * 3 / 2)
		w := work(t, faulty{Store: store, transition: func(_ context.Context, run func() error) error {
			if time.Now().Before(end) { // short: otherwise tried again
				return repo.ErrContention
			}
			return run()
		}}, claim, func(context.Context, repo.ClaimedPlan) error { return nil })
		plan := waitFor(t, store, id, repo.PlanComplete)
		w.stop(t)
		if plan.Attempt == 1 || claim.TTL > renewedSoon {
			wantAttempt(t, store, id, repo.PlanComplete)
			return
		}
	}
}

// A transition without an answer does not end the worker, when its lease is lost meanwhile.
func testWorkStalled(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	id := q.add(1)[0]
	claim := q.claim()
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
	}}, claim, func(context.Context, repo.ClaimedPlan) error { return nil })
	if plan := waitFor(t, store, id, repo.PlanComplete); plan.Attempt != 2 {
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
			}, q.claim(), func(context.Context, repo.ClaimedPlan) error { return nil })
			close(ready)
			w.await(t, claimed)
			state := repo.PlanComplete
			if stopped {
				state = repo.PlanQueued
			}
			waitFor(t, store, id, state)
			w.stop(t)
			wantAttempt(t, store, id, state)
		}
	}
}

// A plan that was moved meanwhile is not moved again, although it is processing and
// unclaimed.
func testWorkMoved(t *testing.T, store repo.Store) {
	for _, failed := range []error{nil, errors.New("failed")} {
		q := newQueue(t, store)
		id := q.add(1)[0]
		moved := make(chan struct{})
		w := work(t, store, q.claim(), func(ctx context.Context, c repo.ClaimedPlan) error {
			plan := c.Plan
			defer close(moved)
			for _, transition := range []repo.Transition{repo.TransitionComplete, repo.TransitionExecute, repo.TransitionStart} {
				if _, err := store.Plans().Transition(t.Context(), plan.ID, transition, repo.Cause{}); err != nil {
					t.Errorf("%s: %v", transition, err)
				}
			}
			return failed
		})
		w.await(t, moved)
		w.stop(t)
		if plan := getPlan(t, store, id); plan.State != repo.PlanProcessing {
			t.Errorf("it is %s", plan.State)
		}
	}
}

// A plan that was cancelled and deleted while it was done keeps the worker from no other.
func testWorkDeleted(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	ids := q.add(2)
	w := work(t, store, q.claim(), func(_ context.Context, c repo.ClaimedPlan) error {
		if c.Plan.ID == ids[0] {
			move(t, store, ids[0], repo.TransitionCancel)
			return store.Plans().Delete(t.Context(), ids[0])
		}
		return nil
	})
	defer w.stop(t)
	waitFor(t, store, ids[1], repo.PlanComplete)
}

// What fails at the deadline of the worker's context has been stopped.
func testWorkDeadline(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	id := q.add(1)[0]
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // short: late, the plan is not begun, and queued all the same
	defer cancel()
	deadline, _ := ctx.Deadline()
	err := repo.Work(ctx, store, q.claim(), func(context.Context, repo.ClaimedPlan) error {
		time.Sleep(time.Until(deadline)) // pace: the context may not have ended yet
		return errors.New("i/o timeout")
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Work: %v", err)
	}
	wantAttempt(t, store, id, repo.PlanQueued)
}

// textError is an error whose text is not there if it is nil.
type textError struct{ text string }

func (e *textError) Error() string { return e.text }

// Work that panics, or ends its goroutine, fails its plan and no other. What the panic was about stays secret.
// Guarantee: Claims: A panic fails its plan and no other.
func testWorkPanics(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	q.action = plain(t, store)
	panicking := []struct {
		do   func() error
		want string
	}{
		{func() error { panic("a secret") }, "panic: string in "},
		{func() error { panic(fmt.Errorf("a %w", io.EOF)) }, "panic: *fmt.wrapError in "},
		{func() error { var m map[string]int; m["a"] = 1; return nil }, "panic: assignment to entry in nil map in "}, //nolint:staticcheck // it panics
		{func() error { return (*textError)(nil) }, "panic: runtime error: invalid memory address or nil pointer dereference in "},
		{func() error { runtime.Goexit(); return nil }, "the function has ended its goroutine"},
	}
	ids := q.add(len(panicking) + 1)
	claim := q.claim()
	w := work(t, store, claim, func(_ context.Context, claimed repo.ClaimedPlan) error {
		if i := slices.Index(ids, claimed.Plan.ID); i < len(panicking) {
			return panicking[i].do()
		}
		return nil
	})
	waitFor(t, store, ids[len(panicking)], repo.PlanComplete)
	for i, want := range panicking {
		message := waitFor(t, store, ids[i], repo.PlanErrored).ErrorMessage
		if !strings.HasPrefix(message, want.want) || strings.Contains(message, "secret") || i < 4 && !strings.Contains(message, "(work.go:") {
			t.Errorf("it failed with %q, want %q", message, want.want)
		}
	}
	w.stop(t)
}

// A worker that is stopped claims nothing more, and what runs may finish. Then it is told to stop, and why.
// Guarantee: Claims: A worker that is stopped claims nothing more.
func testWorkFinish(t *testing.T, store repo.Store) {
	for _, finish := range []time.Duration{time.Hour, 50 * time.Millisecond} {
		q := newQueue(t, store)
		ids := q.add(2)
		claim := q.claim()
		claim.Finish = finish
		begun, end := make(chan struct{}, 2), make(chan struct{})
		w := work(t, store, claim, func(ctx context.Context, claimed repo.ClaimedPlan) error {
			if claimed.Lease.Key != repo.PlanLease(claimed.Plan.ID) || claimed.Lease.Fence == 0 {
				t.Errorf("got the lease %+v", claimed.Lease)
			}
			begun <- struct{}{}
			select {
			case <-end:
				return ctx.Err()
			case <-ctx.Done():
			}
			if cause := context.Cause(ctx); !errors.Is(cause, repo.ErrStopped) || !errors.Is(cause, context.Canceled) {
				t.Errorf("stopped because of %v", cause)
			}
			return ctx.Err()
		})
		w.await(t, begun)
		state := repo.PlanQueued
		w.cancel()
		if finish == time.Hour {
			state = repo.PlanComplete
			close(end)
		}
		w.stop(t)
		wantAttempt(t, store, ids[0], state)
		wantAttempt(t, store, ids[1], repo.PlanQueued)
	}
}

// Several plans are done at once, and no more than that.
// Guarantee: Claims: One call of `Work` does up to `Claim.Limit` plans at once.
func testWorkMany(t *testing.T, store repo.Store) {
	const limit, count = 3, 7
	q := newQueue(t, store)
	ids := q.add(count)
	claim := q.claim()
	claim.Limit = limit
	var at atomic.Int64
	begun, end := make(chan struct{}, count), make(chan struct{})
	w := work(t, faulty{Store: store, claim: func(claimed []repo.ClaimedPlan, err error) ([]repo.ClaimedPlan, error) {
		if len(claimed) == 1 { // what runs is not begun again
			return nil, repo.ErrUnknownOutcome
		}
		return claimed, err
	}}, claim, func(context.Context, repo.ClaimedPlan) error {
		if now := at.Add(1); now > limit {
			t.Errorf("%d plans are done at once", now)
		}
		begun <- struct{}{}
		<-end
		at.Add(-1)
		return nil
	})
	for range limit {
		w.await(t, begun)
	}
	for range count - limit {
		end <- struct{}{}
		w.await(t, begun)
	}
	close(end)
	for _, id := range ids {
		waitFor(t, store, id, repo.PlanComplete)
		wantAttempt(t, store, id, repo.PlanComplete)
	}
	w.stop(t)
}

// An error that waiting does not mend stops what runs, and leaves the plan that it was about to others.
func testWorkFails(t *testing.T, store repo.Store) {
	q := newQueue(t, store)
	ids := q.add(2)
	claim := q.claim()
	claim.Limit, claim.Finish = 2, time.Hour
	refused, calls := errors.New("refused"), atomic.Int64{}
	err := repo.Work(t.Context(), faulty{Store: store, transition: func(_ context.Context, run func() error) error {
		if calls.Add(1) == 1 {
			return refused
		}
		return run()
	}}, claim, func(ctx context.Context, claimed repo.ClaimedPlan) error {
		if claimed.Plan.ID == ids[0] {
			return nil
		}
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, repo.ErrStopped) || !errors.Is(cause, refused) {
			t.Errorf("stopped because of %v", cause)
		}
		return ctx.Err()
	})
	if !errors.Is(err, refused) {
		t.Errorf("Work: %v", err)
	}
	wantAttempt(t, store, ids[1], repo.PlanQueued)
	if again := q.takeOne(); again.Plan.ID != ids[0] || again.Plan.Attempt != 2 { // its lease was released
		t.Errorf("claimed %+v", again.Plan)
	}
}

func testWorkInvalid(t *testing.T, store repo.Store) {
	do := func(context.Context, repo.ClaimedPlan) error { return nil }
	wantInvalid(t, repo.Work(t.Context(), store, repo.Claim{}, do), "owner")
	wantInvalid(t, repo.Work(t.Context(), store, repo.Claim{Owner: "o", Limit: -1}, do), "limit")
	wantInvalid(t, repo.Work(t.Context(), store, repo.Claim{Owner: "o", Limit: 101}, do), "limit")
	wantInvalid(t, repo.Work(t.Context(), store, repo.Claim{Owner: "o", Finish: -1}, do), "finish")
	wantInvalid(t, repo.Work(t.Context(), nil, repo.Claim{Owner: "o"}, do), "store")
	wantInvalid(t, repo.Work(t.Context(), store, repo.Claim{Owner: "o"}, nil), "do")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("stopped")
	cancel(cause)
	if err := repo.Work(ctx, store, repo.Claim{Owner: "o"}, do); !errors.Is(err, cause) {
		t.Errorf("Work: %v", err)
	}
}
