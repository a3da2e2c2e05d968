package repo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// workPause is the pause before an operation that the database has prevented is repeated.
	workPause = time.Second
	// stopTimeout is for how long Work tries to put its plan in order after its context, or
	// the lease, has ended.
	stopTimeout = 5 * time.Second
)

// Work claims plans and has do do them, one at a time, until ctx ends. It waits for plans
// (claim.Wait), and claim.Limit may be at most 1. Several calls of Work may run at once, each
// with an owner that nobody else has: after ErrUnknownOutcome the plans whose leases the owner
// holds are taken for those that were claimed.
//
// The lease of the plan is renewed while do runs, and do's context ends when it is lost, for
// example because the plan was cancelled, and with ctx. What do returns decides:
//
//   - nil: the plan is completed (TransitionComplete).
//   - an error: the plan is errored (TransitionFail), for the reason ReasonOf(err).
//   - an error after ctx has ended: the plan is queued again, in one transaction by
//     TransitionFail and TransitionResume, which costs it no attempt. So is a plan that
//     was claimed as ctx ended.
//   - an error after the lease was lost: the plan is left to whoever has it.
//
// A plan that is at another version by then stays as it is: do may make transitions itself. If
// the database prevents a transition, Work tries again, for as long as the lease is renewed, or
// 5 seconds after ctx or the lease has ended; then the claim expires. It also expires if do
// panics.
//
// Work returns the cause of ctx's end, soon after do has returned, or the first error that
// waiting does not mend, such as InvalidError for the claim, ErrClosed or ErrPermission.
func Work(ctx context.Context, store Store, claim Claim, do func(ctx context.Context, plan Plan) error) error {
	switch {
	case store == nil:
		return invalid("store", "is nil")
	case do == nil:
		return invalid("do", "is nil")
	case claim.Limit > 1:
		return invalid("limit", "is %d: work is claimed one at a time", claim.Limit)
	}
	claim.Wait, claim.TTL = true, cmp.Or(claim.TTL, DefaultLeaseTTL)
	w := worker{store, claim, do}
	for {
		claimed, err := store.Plans().Claim(ctx, claim)
		if errors.Is(err, ErrUnknownOutcome) {
			claimed, err = w.held(ctx)
		}
		for _, c := range claimed {
			err = w.work(ctx, c)
		}
		switch {
		case hasEnded(ctx):
			<-ctx.Done()
			return context.Cause(ctx)
		case err != nil && !passes(err):
			return err
		case err != nil:
			sleep(ctx)
		}
	}
}

// worker is a call of Work.
type worker struct {
	store Store
	claim Claim
	do    func(context.Context, Plan) error
}

// held returns the plans that are processed under a lease of the owner's.
func (w worker) held(ctx context.Context) (claimed []ClaimedPlan, err error) {
	ctx, cancel := lasting(ctx)
	defer cancel()
	err = again(ctx, func() error {
		page, err := w.store.Leases().List(ctx, LeaseFilter{Kind: LeaseOfPlan, Owner: w.claim.Owner, Status: LeaseHeld}, Page{})
		if err != nil {
			return err
		}
		claimed = nil
		for _, lease := range page.Leases {
			id, err := ParseID(lease.Key.Name)
			if err != nil {
				continue
			}
			plan, err := w.store.Plans().Get(ctx, id)
			if err != nil {
				return err
			}
			if plan.State == StateProcessing {
				claimed = append(claimed, ClaimedPlan{plan, lease})
			}
		}
		return nil
	})
	return claimed, err
}

// work does one plan, and makes its transition.
func (w worker) work(ctx context.Context, claimed ClaimedPlan) error { //nolint:contextcheck // some of its contexts outlast ctx
	holding, leave := context.WithCancel(ctx)
	defer leave()
	held, err := w.hold(holding, claimed.Lease.Key)
	switch {
	case err == nil:
	case hasEnded(ctx):
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
	if held.Lease().Token != claimed.Lease.Token {
		return nil // the same
	}
	failed := w.do(held.Context(), claimed.Plan) //nolint:contextcheck // it is a child of ctx
	stopped := hasEnded(ctx)
	if failed != nil && !stopped && held.Err() != nil {
		return nil // lost
	}
	err = w.end(ending, claimed, failed, stopped) //nolint:contextcheck // it outlasts ctx
	moved = err == nil
	if errors.Is(err, ErrConflict) || ending.Err() != nil {
		return nil // it was moved, or is left to expire
	}
	return err
}

// hold renews the lease of a plan that was claimed just now.
func (w worker) hold(ctx context.Context, key LeaseKey) (held *HeldLease, err error) {
	lasts, cancel := context.WithTimeout(ctx, w.claim.TTL)
	defer cancel()
	err = again(lasts, func() (err error) {
		held, err = Hold(ctx, w.store, NewLease{Key: key, Owner: w.claim.Owner, TTL: w.claim.TTL})
		return err
	})
	return held, err
}

// end makes the transition of a plan that was done, or has failed, or was stopped.
func (w worker) end(ctx context.Context, claimed ClaimedPlan, failed error, stopped bool) error {
	id := claimed.Plan.ID
	cause := Cause{Version: claimed.Plan.Version, Actor: w.claim.Owner, Fence: claimed.Lease.Token}
	transition := TransitionComplete
	switch {
	case failed != nil && stopped:
		cause.Reason = "the worker was stopped"
		return again(ctx, func() error {
			return w.store.InTx(ctx, func(ctx context.Context, tx Repositories) error {
				plan, err := tx.Plans().Transition(ctx, id, TransitionFail, cause)
				if err != nil {
					return err
				}
				resume := cause
				resume.Version = plan.Version
				_, err = tx.Plans().Transition(ctx, id, TransitionResume, resume)
				return err
			})
		})
	case failed != nil:
		transition, cause.Reason = TransitionFail, ReasonOf(failed)
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
		sleep(ctx)
	}
}

// ReasonOf returns the text of err as Cause.Reason and StreamWriter.Fail accept it, however it
// was made: valid UTF-8 without NUL, of at most MaxTextBytes, and not empty.
func ReasonOf(err error) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > MaxTextBytes {
		text = strings.ToValidUTF8(text[:MaxTextBytes], "") // without half a character
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

// sleep pauses, until ctx ends at the latest.
func sleep(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(workPause):
	}
}
