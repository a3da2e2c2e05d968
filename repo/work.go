package repo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// workPause is the pause before an operation that the database has prevented is repeated.
const workPause = time.Second

// Work claims plans and has do do them, one at a time, until ctx ends. It waits for plans
// (claim.Wait), and claim.Limit may be at most 1.
//
// The lease of the plan is renewed while do runs, and do's context ends when it is lost, for
// example because the plan was cancelled, and with ctx. What do returns decides:
//
//   - nil: the plan is completed (TransitionComplete).
//   - an error: the plan is errored (TransitionFail), for the reason ReasonOf(err).
//   - an error after the lease was lost: the plan is left to whoever has it.
//   - an error after ctx has ended: the plan is queued again, in one transaction by
//     TransitionFail and TransitionResume, which costs it no attempt.
//
// A transition that do has made itself stays. While the database is unavailable, Work tries
// again, to make a transition for as long as the lease lasts. If do panics, the claim expires.
//
// Work returns the cause of ctx's end, or the first error that waiting does not mend, such as
// InvalidError for the claim, ErrClosed or ErrPermission. Several calls of Work may run at once,
// each with an owner of its own.
func Work(ctx context.Context, store Store, claim Claim, do func(ctx context.Context, plan Plan) error) error {
	if claim.Limit > 1 {
		return invalid("limit", "is %d: work is claimed one at a time", claim.Limit)
	}
	claim.Wait = true
	for {
		claimed, err := store.Plans().Claim(ctx, claim)
		for _, c := range claimed {
			err = workOn(ctx, store, c, cmp.Or(claim.TTL, DefaultLeaseTTL), do)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !passes(err):
			return err
		case err != nil:
			sleep(ctx)
		}
	}
}

// workOn does one plan, and makes its transition.
func workOn(ctx context.Context, store Store, claimed ClaimedPlan, ttl time.Duration, do func(context.Context, Plan) error) error {
	owner, moved := claimed.Lease.Owner, false
	holding, leave := context.WithCancel(ctx)
	defer leave() // a transition ends the lease
	held, err := Hold(holding, store, NewLease{Key: claimed.Lease.Key, Owner: owner, TTL: ttl})
	if errors.Is(err, ErrConflict) {
		return nil // it expired before it was begun
	} else if err != nil {
		return err
	}
	defer func() {
		if !moved { // the next claim need not wait for the expiry
			releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), ttl)
			defer cancel()
			_ = held.Release(releasing)
		}
	}()
	failed := do(held.Context(), claimed.Plan) //nolint:contextcheck // it is a child of ctx
	stopped := ctx.Err() != nil
	if failed != nil && !stopped && held.Err() != nil {
		return nil // lost
	}
	// If it cannot be renewed, the lease lasts no longer.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), ttl)
	defer cancel()
	cause := Cause{Actor: owner, Fence: held.Lease().Token}
	for {
		err := endWork(ending, store, claimed.Plan.ID, cause, failed, stopped)
		moved = err == nil || errors.Is(err, ErrConflict) // it was moved before
		if moved {
			return nil
		} else if !passes(err) || ending.Err() != nil {
			return err
		}
		sleep(ending)
	}
}

// endWork makes the transition of a plan that was done, or has failed, or was stopped.
func endWork(ctx context.Context, store Store, id ID, cause Cause, failed error, stopped bool) error {
	switch {
	case failed == nil:
		_, err := store.Plans().Transition(ctx, id, TransitionComplete, cause)
		return err
	case !stopped:
		cause.Reason = ReasonOf(failed)
		_, err := store.Plans().Transition(ctx, id, TransitionFail, cause)
		return err
	}
	cause.Reason = "the worker was stopped"
	return store.InTx(ctx, func(ctx context.Context, tx Repositories) error {
		if _, err := tx.Plans().Transition(ctx, id, TransitionFail, cause); err != nil {
			return err
		}
		_, err := tx.Plans().Transition(ctx, id, TransitionResume, cause)
		return err
	})
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

// sleep pauses, until ctx ends at the latest.
func sleep(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(workPause):
	}
}
