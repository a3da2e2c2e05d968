package effect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Do makes the call, and returns its result: JSON of at most MaxResultBytes; nil: null. ctx ends at the call's
// time-out. The remote must get e.IdempotencyKey, if it honours such keys. An error says what is known:
//
//   - Failed: the effect has not happened, and never will.
//   - NotSent: nothing was sent.
//   - any other: it may have happened. It is unknown, as if the process had died. So it is after a panic, once its time
//     has passed.
type Do func(ctx context.Context, e Effect) (json.RawMessage, error)

// Outcome is an effect that happened, with its result.
type Outcome struct {
	Effect   Effect
	Result   json.RawMessage
	Repeated bool // the result was stored before
}

// Once makes an effect: it reserves it, and commits that, has do make the call, and stores what became of it. Of any
// number of calls with one key, in whatever processes, one at a time has do called. An effect that has ended is
// answered from the session's state, and do is not called.
//
// Errors: [Error] for everything that is known of an effect without a result, and beside the outcome where something is
// amiss with one; what do has marked as NotSent; repo.ExistsError of the field "arguments" if the key has other ones;
// InvalidError; NotFoundError for the session; Permit's and Ask's own. After another error of the store nothing was
// sent, unless there is an outcome with a result: then the effect happened, and is unknown to others.
func Once(
	ctx context.Context, store repo.Store, key Key, arguments json.RawMessage, policy Policy, do Do,
) (Outcome, error) {
	if store == nil || do == nil {
		return Outcome{}, &repo.InvalidError{Field: "store or do", Reason: "is nil"}
	}
	hash, err := hashOf(arguments)
	if err := cmp.Or(key.check(), policy.check(), err); err != nil {
		return Outcome{}, err
	}
	policy.Timeout = cmp.Or(policy.Timeout, DefaultTimeout)
	o := &once{store: store, policy: policy, do: do}
	r := record{Effect: Effect{Key: key, IdempotencyKey: key.idempotency()}, Arguments: hash}
	for {
		begun, outcome := time.Now(), Outcome{}
		if err = o.reserve(ctx, &r); err == nil {
			return o.call(ctx, begun, r)
		}
		for errors.Is(err, errTaken) { // r is what somebody else has written
			if r.Arguments != hash {
				return outcome, &repo.ExistsError{Kind: "effect", SessionID: key.Session, Name: key.Call, Field: "arguments"}
			}
			if outcome, err = o.known(ctx, &r); err == nil && r.State != StateFree {
				return outcome, nil
			}
		}
		if err != nil {
			return outcome, err
		}
	}
}

// once is a call of Once.
type once struct {
	store  repo.Store
	policy Policy
	do     Do
}

// reserve commits that the effect is about to be sent. Errors: those of write.
func (o *once) reserve(ctx context.Context, r *record) error {
	r.State, r.Attempts, r.By, r.Timeout = StateReserved, r.Attempts+1, repo.NewID(), o.policy.Timeout
	r.Asked, r.Reason, r.From, r.ChangedAt, r.Until = false, "", repo.ID{}, time.Time{}, time.Time{}
	r.Sequence = cmp.Or(o.policy.Sequence, r.Sequence)
	w := way{}
	if !r.Permitted && o.policy.Permit != nil {
		r.Permitted, w.also = true, o.policy.Permit
	}
	return r.write(ctx, o.store, w)
}

// call calls do, and stores what became of it. begun is before the reservation was sent: so no deadline of this process
// is later than the one that others count from the reservation.
func (o *once) call(ctx context.Context, begun time.Time, r record) (Outcome, error) {
	result, failed := o.send(ctx, begun, r)
	r.State = StateDone
	if failed != nil {
		r.State = StateUnknown
		if end, marked := errors.AsType[*ending](failed); marked {
			r.State = end.state
		}
		if r.State == StateFailed {
			r.Reason = repo.ReasonOf(failed)
		}
	}
	outcome, err := o.settle(ctx, &r, result)
	if r.State == StateFree || r.State == StateUnknown {
		err = errors.Join(failed, err)
	}
	if err != nil && r.State == StateUnknown {
		return outcome, &Error{Effect: r.Effect, Err: err}
	}
	return outcome, err
}

// send calls do, unless its time has passed by one of two clocks: one may stand still with the machine, and the other
// may be set back.
func (o *once) send(ctx context.Context, begun time.Time, r record) (json.RawMessage, error) {
	calling, cancel := context.WithDeadline(ctx, begun.Add(o.policy.Timeout))
	defer cancel()
	if wall := time.Now().Round(0).Sub(begun.Round(0)); calling.Err() != nil || wall >= o.policy.Timeout {
		return nil, NotSent(errLate)
	}
	return o.do(calling, r.Effect)
}

// settle stores the end of an effect, whatever has become of ctx, unless somebody else has decided it meanwhile.
func (o *once) settle(ctx context.Context, r *record, result json.RawMessage) (Outcome, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	w, outcome := way{}, Outcome{}
	var amiss error
	if r.State == StateDone {
		outcome.Result = orNull(result)
		if amiss = unfit(outcome.Result); amiss == nil {
			w.result = outcome.Result
		}
		if o.policy.Turn != nil {
			turn := o.policy.Turn(slices.Clone(outcome.Result))
			w.turn = &turn
		}
	}
	wanted := *r
	err := r.write(ctx, o.store, w)
	for errors.Is(err, errTaken) && r.By == wanted.By && (r.State == StateReserved || r.State == StateUnknown) {
		version := r.version // somebody has found that its time had passed
		*r = wanted
		r.version = version
		err = r.write(ctx, o.store, w)
	}
	if w.turn != nil && err != nil && !passes(err) && !errors.Is(err, errTaken) {
		amiss, w.turn = err, nil
		err = r.write(ctx, o.store, w)
	}
	outcome.Effect = r.Effect
	switch {
	case errors.Is(err, errTaken):
		return outcome, &Error{Effect: r.Effect, Err: errDecided}
	case err != nil:
		return outcome, err
	case r.State == StateFailed || amiss != nil:
		return outcome, &Error{Effect: r.Effect, Err: amiss}
	}
	return outcome, nil
}
