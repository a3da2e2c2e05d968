package repo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
)

const (
	// workPause is the pause before an operation that the database has prevented is repeated.
	workPause = time.Second
	// stopTimeout is for how long Work tries to put its plan in order after its context, or the lease, has ended.
	stopTimeout = 5 * time.Second
)

// ErrStopped is in the cause of the end of a context because [Work] was stopped.
var ErrStopped = errors.New("the worker was stopped")

// Work claims plans and calls do for each, for claim.Limit of them at once, until ctx ends. Each of several calls needs
// an owner of its own. The lease of the plan is renewed while do runs. do's context ends when it is lost, at once if
// the plan is cancelled or its lease is ended: context.Cause is then a LeaseLostError. When ctx has ended, nothing more
// is claimed, and do may go on for claim.Finish; then its context ends with a cause that matches ErrStopped. What do
// returns decides:
//
//   - nil: the plan is completed (TransitionComplete).
//   - an error, or a panic, of which only the place and the type are told: TransitionFail. The plan is queued again,
//     and due after a backoff; or errored, after its last attempt and if the error is Final.
//   - Snooze: the plan is queued again, and due when that has passed.
//   - an error after do was stopped: the same at once (TransitionSnooze).
//   - an error after the lease was lost: the plan is left to its new holder.
//
// A plan that is at another version by then stays as it is. If the database prevents a transition, Work tries again
// while the lease is held, or for 5 seconds after do was stopped.
//
// Work returns the cause of ctx's end when all of do have returned, or the first error that waiting does not mend,
// such as InvalidError or ErrClosed.
func Work(ctx context.Context, store Store, claim Claim, do func(ctx context.Context, claimed ClaimedPlan) error,
) error {
	switch {
	case store == nil:
		return invalid("store", "is nil")
	case do == nil:
		return invalid("do", "is nil")
	case claim.Limit < 0:
		return invalid("limit", "is %d", claim.Limit)
	}
	claim.Wait, claim.TTL, claim.Limit = true, cmp.Or(claim.TTL, limits.DefaultLeaseTTL), cmp.Or(claim.Limit, 1)
	claiming, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	working, end := finishing(ctx, claim.Finish)
	defer end(context.Canceled)
	w := &worker{store: store, claim: claim, do: do, claiming: claiming}
	w.fail = func(err error) {
		stop(err)
		end(err)
	}
	free := make(chan struct{}, claim.Limit)
	var running sync.WaitGroup
	for !hasEnded(claiming) {
		select {
		case free <- struct{}{}:
		case <-claiming.Done():
			continue
		}
		w.claim.Limit = claim.Limit - len(free) + 1
		sent := clock() // the leases' lives are counted from then
		claimed, err := store.Plans().Claim(claiming, w.claim)
		if errors.Is(err, ErrUnknownOutcome) {
			claimed, err = w.held(claiming)
			sent = moment{}
		}
		<-free
		for _, c := range claimed {
			free <- struct{}{}
			w.busy.Store(c.Plan.ID, nil)
			running.Go(func() {
				defer func() { <-free }()
				defer w.busy.Delete(c.Plan.ID)
				if err := w.work(working, c, sent); err != nil && !passes(err) {
					w.fail(err)
				}
			})
		}
		switch {
		case hasEnded(claiming):
		case err != nil && !passes(err):
			w.fail(err)
		case err != nil:
			sleep(claiming, workPause)
		}
	}
	<-claiming.Done()
	running.Wait()
	return context.Cause(claiming)
}

// finishing returns the context of what runs: it ends when finish has passed after ctx has ended.
func finishing(ctx context.Context, finish time.Duration) (context.Context, func(error)) {
	working, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := func(err error) { cancel(fmt.Errorf("%w: %w", ErrStopped, err)) }
	forget := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(finish, func() { stop(context.Cause(ctx)) })
		context.AfterFunc(working, func() { timer.Stop() })
	})
	limited, leave := working, context.CancelFunc(func() {})
	if deadline, has := ctx.Deadline(); has { // so that do knows of it, too
		limited, leave = context.WithDeadlineCause(working, deadline.Add(finish),
			fmt.Errorf("%w: %w", ErrStopped, context.DeadlineExceeded))
	}
	return limited, func(err error) { forget(); stop(err); leave() }
}

// worker is a call of Work.
type worker struct {
	store Store
	claim Claim
	do    func(context.Context, ClaimedPlan) error
	// claiming ends when nothing more is to be claimed, and fail ends it, and what runs.
	claiming context.Context //nolint:containedctx // the other one is an argument
	fail     func(error)
	busy     sync.Map // the ids of the plans that are worked on
}

// held returns the plans that are processed under a lease of the owner's, and that nothing runs for. If there are
// none, it looks again after a pause: the server may still be at the claim whose answer was lost.
func (w *worker) held(ctx context.Context) ([]ClaimedPlan, error) {
	ctx, cancel := lasting(ctx)
	defer cancel()
	claimed, err := w.look(ctx)
	if err == nil && len(claimed) == 0 {
		sleep(ctx, workPause)
		claimed, err = w.look(ctx)
	}
	return claimed, err
}

func (w *worker) look(ctx context.Context) (claimed []ClaimedPlan, err error) {
	err = again(ctx, func() error {
		page, err := w.store.Leases().List(ctx, LeaseFilter{Kind: LeaseOfPlan, Owner: w.claim.Owner, Held: true},
			Page{Limit: MaxPageSize})
		if err != nil {
			return err
		}
		claimed = nil
		for _, lease := range page.Items {
			id, err := ParseID(lease.Key.Name)
			_, isBusy := w.busy.Load(id)
			if err != nil || isBusy || len(claimed) == w.claim.Limit {
				continue
			}
			plan, err := w.store.Plans().Get(ctx, id)
			switch {
			case errors.Is(err, ErrNotFound):
				continue
			case err != nil:
				return err
			}
			if plan.State == PlanProcessing {
				claimed = append(claimed, ClaimedPlan{plan, lease})
			}
		}
		return nil
	})
	return claimed, err
}

// work does one plan, and makes its transition.
func (w *worker) work(ctx context.Context, claimed ClaimedPlan, sent moment) error { //nolint:contextcheck // some of its contexts outlast ctx
	holding, leave := context.WithCancel(ctx)
	defer leave()
	held, err := w.hold(holding, claimed.Lease, sent)
	switch {
	case err == nil:
	case w.stopped(ctx):
		ending, cancel := lasting(ctx)
		defer cancel()
		return w.end(ending, claimed, err, true)
	case errors.Is(err, ErrConflict):
		return nil // it expired before it was begun
	default:
		return err
	}
	ending, cancel := lasting(held.Context())
	defer cancel()
	moved := false // which ends the lease
	defer func() {
		if !moved {
			_ = held.Release(ending)
		}
	}()
	if held.Lease().Fence != claimed.Lease.Fence {
		return nil // the same
	}
	claimed.Lease = held.Lease()
	failed := context.Cause(w.claiming) //nolint:contextcheck // it was claimed as that ended
	stopped := failed != nil
	if !stopped {
		failed = w.call(held.Context(), claimed) //nolint:contextcheck // it is a child of ctx
		stopped = w.stopped(ctx)
	}
	if failed != nil && !stopped && held.Err() != nil {
		return nil // lost
	}
	err = w.end(ending, claimed, failed, stopped) //nolint:contextcheck // it outlasts ctx
	moved = err == nil
	if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) || ending.Err() != nil {
		return nil // it was moved, or deleted after that, or is left to expire
	}
	return err
}

// stopped reports whether what runs was stopped.
func (w *worker) stopped(ctx context.Context) bool {
	return hasEnded(ctx) || w.claim.Finish <= 0 && hasEnded(w.claiming) //nolint:contextcheck // it is Work's own
}

// call has the function do a plan, in a goroutine of its own, which it may end.
func (w *worker) call(ctx context.Context, claimed ClaimedPlan) error {
	failed := make(chan error, 1)
	go func() {
		err := errors.New("the function has ended its goroutine")
		defer func() {
			if value := recover(); value != nil {
				err = panicked(value)
			}
			failed <- err
		}()
		err = told(w.do(ctx, claimed))
	}()
	return <-failed
}

// panicked returns the error of a panic, which a deferred function has recovered from. It has the value
// only if that is the runtime's.
func panicked(value any) error {
	text := fmt.Sprintf("%T", value)
	if err, is := value.(runtime.Error); is { // it was not wrapped
		text = err.Error()
	}
	var callers [32]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "runtime.") || !more {
			return fmt.Errorf("panic: %s in %s (%s:%d)", text, frame.Function, path.Base(frame.File), frame.Line) //nolint:err113 // a text alone
		}
	}
}

// hold holds the lease of a plan that was claimed just now.
func (w *worker) hold(ctx context.Context, lease Lease, sent moment) (held *HeldLease, err error) {
	lasts, cancel := context.WithTimeout(ctx, w.claim.TTL)
	defer cancel()
	err = again(lasts, func() (err error) {
		held, err = holdClaimed(ctx, w.store.Leases(), lease, w.claim.TTL, sent)
		return err
	})
	return held, err
}

// end makes the transition of a plan that was done, or has failed, or was stopped.
func (w *worker) end(ctx context.Context, claimed ClaimedPlan, failed error, stopped bool) error {
	id := claimed.Plan.ID
	cause := Cause{Version: claimed.Plan.Version, Actor: w.claim.Owner, Fence: claimed.Lease.Fence}
	transition, cause := outcome(failed, cause)
	if failed != nil && stopped {
		transition, cause.Reason, cause.Delay, cause.Final = TransitionSnooze, "the worker was stopped", 0, false
	}
	return again(ctx, func() error {
		_, err := w.store.Plans().Transition(ctx, id, transition, cause)
		return err
	})
}

// again repeats an operation that the database prevents, until ctx ends.
func again(ctx context.Context, operation func() error) error {
	for {
		err := operation()
		if err == nil || !passes(err) || ctx.Err() != nil {
			return err
		}
		sleep(ctx, workPause)
	}
}

// ReasonOf returns the text of err as Cause.Reason and Streams.Fail accept it.
func ReasonOf(err error) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > limits.MaxTextBytes {
		text = strings.ToValidUTF8(text[:limits.MaxTextBytes], "") // without half a character
	}
	return cmp.Or(text, fmt.Sprintf("%T", err))
}

// passes reports whether an operation may succeed when it is repeated.
func passes(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrContention) || errors.Is(err, ErrUnknownOutcome)
}

// hasEnded reports whether ctx has ended. What waits for its deadline may learn of it before
// Err does.
func hasEnded(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// lasting returns a context that ends stopTimeout after ctx.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() { time.AfterFunc(stopTimeout, cancel) })
	return longer, func() { forget(); cancel() }
}

// sleep pauses, and returns false if ctx has ended.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}
