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
//   - Failed: the effect has not happened, also not when it was sent before (e.Attempts), and never will.
//   - NotSent: nothing was sent this time. If it was sent before, and may have happened then, it stays unknown.
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
	policy.Timeout = cmp.Or(policy.Timeout, DefaultTimeout)
	if policy.Sequence != nil {
		policy.Sequence = new(*policy.Sequence)
	}
	hash, err := hashOf(arguments)
	nothing := []rule{{store == nil, "store", "is nil"}, {do == nil, "do", "is nil"}}
	if err = cmp.Or(check(key, policy, nothing...), err); err != nil {
		return Outcome{}, err
	}
	o := &once{store: store, policy: policy, do: do}
	r := record{Effect: Effect{Key: key}, Arguments: hash}
	for outcome := (Outcome{}); ; {
		if err = o.reserve(ctx, &r); err == nil {
			return o.call(ctx, r)
		}
		for errors.Is(err, errTaken) { // r is what another caller has written
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
	begun  time.Time // no later than when it is sent, and than when the window of its key was looked at
	doubt  bool      // it is sent with its key again, and may have happened before
}

// reserve commits that the effect is about to be sent. Errors: as of write.
func (o *once) reserve(ctx context.Context, r *record) error {
	if !r.From.IsZero() { // from here on it is the fork's own
		r.FirstSent, r.Permitted = time.Time{}, false
	}
	r.State, r.Attempts, r.By, r.Timeout = StateReserved, r.Attempts+1, repo.NewID(), o.policy.Timeout
	r.Asked, r.Reason, r.From, r.ChangedAt, r.Until = false, "", repo.ID{}, time.Time{}, time.Time{}
	r.Sequence, r.IdempotencyKey = cmp.Or(o.policy.Sequence, r.Sequence), r.idempotency()
	o.begun = cmp.Or(o.begun, time.Now())
	send := sender(o.store.State().Change)
	if !r.Permitted && o.policy.Permit != nil {
		r.Permitted, send = true, o.with(o.policy.Permit)
	}
	return r.write(ctx, o.store.State(), nil, send)
}

// with makes changes in a transaction in which also is called.
func (o *once) with(also func(context.Context, repo.Repositories) error) sender {
	return func(ctx context.Context, changes []repo.StateChange, _ ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
		var made []repo.ScopeVersion
		err := o.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) (err error) {
			if made, err = tx.State().Change(ctx, changes); err != nil {
				return err
			}
			return also(ctx, tx)
		})
		return made, err
	}
}

// behind makes changes together with a turn, behind its own changes of state.
func (o *once) behind(turn repo.Turn, session repo.ID) sender {
	return func(ctx context.Context, changes []repo.StateChange, _ ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
		whole := turn
		whole.SessionID, whole.Create, whole.State = session, nil, append(slices.Clone(turn.State), changes...)
		appended, err := o.store.Sessions().AppendTurn(ctx, whole)
		if err == nil && appended.Repeated { // perhaps it was added before, without this
			return o.store.State().Change(ctx, changes)
		}
		return appended.Scopes, err
	}
}

// call calls do, and stores what became of it. o.begun is before the reservation was sent: so this process's
// deadline is never later than the deadline that others count from the reservation.
func (o *once) call(ctx context.Context, r record) (Outcome, error) {
	result, failed := o.send(ctx, r)
	if r.State = stateAfter(failed, o.doubt); r.State == StateFailed {
		r.Reason = repo.ReasonOf(failed)
	}
	outcome, err := o.settle(ctx, &r, result)
	if r.State == StateFree || r.State == StateUnknown {
		err = errors.Join(failed, err)
	}
	if err != nil && r.State == StateUnknown {
		err = &Error{Effect: r.Effect, Err: err}
	}
	return outcome, err
}

// send calls do, unless its time has passed by one of two clocks: one may stand still with the machine, and the other
// may be set back.
func (o *once) send(ctx context.Context, r record) (json.RawMessage, error) {
	calling, cancel := context.WithDeadline(ctx, o.begun.Add(o.policy.Timeout))
	defer cancel()
	if wall := time.Now().Round(0).Sub(o.begun.Round(0)); calling.Err() != nil || wall >= o.policy.Timeout {
		return nil, NotSent(errors.Join(errLate, context.Cause(calling)))
	}
	return o.do(calling, r.Effect)
}

// settle stores the end of an effect, also after ctx has ended, unless another caller has decided it meanwhile.
func (o *once) settle(ctx context.Context, r *record, result json.RawMessage) (Outcome, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	var kept json.RawMessage
	var amiss error
	outcome, send, turn := Outcome{}, sender(o.store.State().Change), r.State == StateDone && o.policy.Turn != nil
	if r.State == StateDone {
		outcome.Result = orNull(result)
		if amiss = unfit(outcome.Result); amiss == nil {
			kept = outcome.Result
		}
	}
	switch {
	case turn:
		send = o.behind(o.policy.Turn(slices.Clone(outcome.Result)), r.Session)
	case r.State == StateUnknown:
		send = func(ctx context.Context, _ []repo.StateChange, _ ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
			reserved, err := read(ctx, o.store.State(), r.Key)
			if err != nil {
				return nil, err
			}
			r.FirstSent = reserved.FirstSent // by the database's clock
			return o.store.State().Change(ctx, r.changes(nil))
		}
	}
	wanted := *r
	err := r.write(ctx, o.store.State(), kept, send)
	for errors.Is(err, errTaken) && r.By == wanted.By { // another caller has found that its time had passed
		wanted.version, wanted.Asked = r.version, r.Asked
		*r = wanted
		err = r.write(ctx, o.store.State(), kept, send)
	}
	if turn && err != nil && !passes(err) && !errors.Is(err, errTaken) {
		amiss = errors.Join(amiss, err)
		err = r.write(ctx, o.store.State(), kept, o.store.State().Change)
	}
	outcome.Effect = r.Effect
	if errors.Is(err, errTaken) {
		err, amiss = nil, errDecided
	}
	if err == nil && (r.State == StateFailed || amiss != nil) {
		err = &Error{Effect: r.Effect, Err: amiss}
	}
	return outcome, err
}

// known answers what the record says. If the effect is to be sent, the record is free then. Errors: errTaken if the
// record has changed meanwhile.
func (o *once) known(ctx context.Context, r *record) (Outcome, error) {
	o.begun, o.doubt = time.Time{}, false
	switch r.State {
	case StateDone:
		value, err := o.store.State().Get(ctx, r.scope(), r.resultKey())
		if errors.Is(err, repo.ErrNotFound) { // also if it could never be stored
			err = &Error{Effect: r.Effect, Err: errGone}
		}
		return Outcome{Effect: r.Effect, Result: value.Value, Repeated: true}, err
	case StateFailed:
		return Outcome{}, &Error{Effect: r.Effect}
	case StateFree:
		return Outcome{}, nil
	case StateReserved:
		if err := r.overdue(ctx, o.store.State()); err != nil {
			return Outcome{}, err
		}
		if err := r.write(ctx, o.store.State(), nil, o.store.State().Change); err != nil {
			return Outcome{}, err
		}
	}
	return o.reconcile(ctx, r)
}

// reconcile decides about an unknown effect: the tool says what has become of it, or it is sent again with its key, or
// a person is asked. What a fork has of its parent is not the fork's to send.
func (o *once) reconcile(ctx context.Context, r *record) (Outcome, error) {
	var answer Answer
	var failed error
	own := r.From.IsZero()
	if o.policy.Reconcile != nil && own {
		asking, cancel := context.WithTimeout(ctx, o.policy.Timeout)
		answer, failed = o.policy.Reconcile(asking, r.Effect)
		cancel()
	}
	if failed == nil && answer.state != "" {
		r.decide(answer)
		if r.State == StateFree {
			return Outcome{}, nil
		}
		outcome, err := o.settle(ctx, r, answer.result)
		if errors.Is(err, errDecided) {
			err = errTaken
		}
		return outcome, err
	}
	if o.policy.HonoursKey > 0 && own {
		o.begun = time.Now()
		at, err := now(ctx, o.store.State(), r.Key)
		if err != nil {
			return Outcome{}, err
		}
		if !at.Add(o.policy.Timeout).After(r.FirstSent.Add(o.policy.HonoursKey)) {
			r.State, o.doubt = StateFree, true
			return Outcome{}, nil
		}
	}
	if o.policy.Ask != nil && failed == nil && !r.Asked {
		r.Asked = true
		ask := func(ctx context.Context, tx repo.Repositories) error { return o.policy.Ask(ctx, tx, r.Effect) }
		if err := r.write(ctx, o.store.State(), nil, o.with(ask)); err != nil {
			return Outcome{}, err
		}
	}
	return Outcome{}, &Error{Effect: r.Effect, Err: failed}
}
