package effect

import (
	"cmp"
	"context"

	"github.com/seed-df90f812/agentstore/repo"
)

// decide stores in a record an answer from outside about the effect. The same answer has the same By.
func (r *record) decide(answer Answer) {
	r.State, r.Reason = answer.state, answer.reason
	r.By = hashed(r.Attempts, string(answer.state), string(answer.result), answer.reason)
}

// Resolve stores the answer of a person or a program about an unknown effect: Happened, DidNotHappen or GivenUp. store
// may be a transaction's, to store more with the answer. It may be repeated with the same answer.
//
// Errors: [Error] while a call is under way, or if something else is known already; NotFoundError; InvalidError, also
// for CannotTell and for a result that cannot be stored.
func Resolve(ctx context.Context, store repo.Repositories, key Key, answer Answer) (Effect, error) {
	said := rule{answer.state == "", "answer", "does not say what has become of the effect"}
	err := cmp.Or(check(key, Policy{Timeout: DefaultTimeout}, said), unfit(orNull(answer.result)))
	if err != nil {
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
		if r.By == decided.By {
			return r.Effect, nil
		}
		if r.State != StateUnknown || answer.attempt != 0 && answer.attempt != r.Attempts {
			return Effect{}, &Error{Effect: r.Effect, Err: errDecided}
		}
		if _, err = store.State().Change(ctx, decided.changes(answer.result)); !r.conflicts(err) {
			return decided.Effect, err
		}
	}
}
