package effect

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/repo"
)

// decide makes a record that of somebody who knows what has become of the effect. The same answer has the same By.
func (r *record) decide(answer Answer) {
	r.State, r.Reason = answer.state, ""
	r.By = hashed(r.Attempts, string(answer.state), string(answer.result), answer.reason)
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
	if err := check(key, Policy{Timeout: DefaultTimeout}); err != nil {
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
		if _, err = store.State().Change(ctx, decided.changes(answer.result)); !r.conflicts(err) {
			return decided.Effect, err
		}
	}
}
