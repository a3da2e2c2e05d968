package approval

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/repo"
)

// Use uses an approval up, in the transaction of what it permits: return its error from that transaction. Begin work
// outside of the database after the commit.
//
// Errors: StatusError, if the request is not approved, has expired by the database's clock, was used before, or is
// for another act; NotFoundError; ForeignError; repo.ErrContention, if another caller uses it and the transaction's
// isolation hides the outcome.
func (a *Approvals) Use(ctx context.Context, tx repo.Repositories, ref Ref, act Act) error {
	for again := false; ; again = true {
		r, err := load(ctx, tx.State(), ref)
		if err != nil {
			return err
		}
		if err := permits(r.Request, act); err != nil {
			return err
		}
		m := r.step(Used, r.Votes)
		err = a.carryOut(ctx, tx, r.By, []*step{m})
		if errors.Is(err, errMoved) {
			if again { // and the transaction does not see it
				return repo.ErrContention
			}
			continue
		}
		if err == nil && m.late {
			err = statusError(m.to)
		}
		return err
	}
}

// permits returns why a request does not permit an act.
func permits(r Request, act Act) error {
	refused := statusError(r)
	switch {
	case r.Kind != act.Kind:
		refused.Differs = "kind"
	case r.Subject != act.Subject:
		refused.Differs = "subject"
	case r.ArgumentsHash != hash(act.Arguments):
		refused.Differs = "arguments"
	case r.Status == Approved:
		return nil
	}
	return refused
}

// Permit returns Use as a function, for what calls one in its transaction.
func (a *Approvals) Permit(ref Ref, act Act) func(ctx context.Context, tx repo.Repositories) error {
	return func(ctx context.Context, tx repo.Repositories) error { return a.Use(ctx, tx, ref, act) }
}
