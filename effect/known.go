package effect

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/repo"
)

// known answers what the record says. If the effect is to be sent, the record is free then. Errors: errTaken if the
// record has changed meanwhile.
func (o *once) known(ctx context.Context, r *record) (Outcome, error) {
	switch r.State {
	case StateDone:
		return o.done(ctx, r)
	case StateFailed:
		return Outcome{}, &Error{Effect: r.Effect}
	case StateFree:
		return Outcome{}, nil
	case StateReserved:
		if err := r.overdue(ctx, o.store.State()); err != nil {
			return Outcome{}, err
		}
		if err := r.write(ctx, o.store, way{}); err != nil {
			return Outcome{}, err
		}
	}
	return o.reconcile(ctx, r)
}

func (o *once) done(ctx context.Context, r *record) (Outcome, error) {
	outcome := Outcome{Effect: r.Effect, Repeated: true}
	value, err := o.store.State().Get(ctx, r.scope(), r.resultKey())
	outcome.Result = value.Value
	if errors.Is(err, repo.ErrNotFound) { // also if it could never be stored
		err = &Error{Effect: r.Effect, Err: errGone}
	}
	return outcome, err
}

// reconcile decides about an unknown effect: the tool says what has become of it, or it is sent again with its key, or a
// person is asked. What a fork has of its parent is not the fork's to send.
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
		at, err := now(ctx, o.store.State(), r.Key)
		if err != nil {
			return Outcome{}, err
		}
		if !at.Add(o.policy.Timeout).After(r.FirstSent.Add(o.policy.HonoursKey)) {
			r.State = StateFree
			return Outcome{}, nil
		}
	}
	if o.policy.Ask != nil && failed == nil && !r.Asked {
		r.Asked = true
		if err := r.write(ctx, o.store, way{also: func(ctx context.Context, tx repo.Repositories) error {
			return o.policy.Ask(ctx, tx, r.Effect)
		}}); err != nil {
			return Outcome{}, err
		}
	}
	return Outcome{}, &Error{Effect: r.Effect, Err: failed}
}

// decide makes a record that of somebody who knows what has become of the effect. The same answer has the same By.
func (r *record) decide(answer Answer) {
	r.State, r.Reason, r.By = answer.state, "", hashed(r.Attempts, string(answer.state), string(answer.result), answer.reason)
	if r.State == StateFailed {
		r.Reason = repo.ReasonOf(errors.New(answer.reason)) //nolint:err113 // a text alone
	}
}

// Resolve stores what a person, or somebody else who knows, says of an unknown effect: Happened, DidNotHappen or
// GivenUp. store may be a transaction's, with what else belongs to the answer. It may be repeated with the same answer.
//
// Errors: [Error] while a call is under way, or if something else is known already; NotFoundError; InvalidError, also
// for CannotTell and for a result that cannot be stored.
func Resolve(ctx context.Context, store repo.Repositories, key Key, answer Answer) (Effect, error) {
	if err := key.check(); err != nil {
		return Effect{}, err
	}
	if answer.state == "" {
		return Effect{}, &repo.InvalidError{Field: "answer", Reason: "does not say what has become of the effect"}
	}
	if err := unfit(orNull(answer.result)); err != nil {
		return Effect{}, err
	}
	for {
		r, err := read(ctx, store.State(), key)
		if err == nil {
			err = r.overdue(ctx, store.State())
		}
		if err != nil {
			return Effect{}, err
		}
		decided := r
		decided.decide(answer)
		switch {
		case r.State == StateUnknown:
		case r.By == decided.By:
			return r.Effect, nil
		default:
			return Effect{}, &Error{Effect: r.Effect, Err: errDecided}
		}
		changes, err := decided.changes(answer.result)
		if err == nil {
			err = decided.change(ctx, store.State(), changes)
		}
		if conflict, is := errors.AsType[*repo.VersionConflictError](err); is && r.isKey(conflict) {
			continue
		}
		return decided.Effect, err
	}
}
