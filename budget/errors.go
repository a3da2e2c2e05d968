package budget

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// ExceededError reports the limit that a reservation, or the excess of a settlement over what was reserved, would have
// passed. Nothing was written. It matches repo.ErrLimit.
type ExceededError struct {
	Limit Limit
	Until time.Time // when the period ends; zero: never
	// Err has what is reserved and settled (Current), and what would have been added (Requested), in the limit's unit.
	Err *repo.LimitExceededError
}

func (e *ExceededError) Error() string {
	return fmt.Sprintf("the limit of %s (%s) of %q would be passed", e.Limit.Unit, e.Limit.Period, e.Limit.Name)
}
func (e *ExceededError) Unwrap() error { return e.Err }

func invalidIf(is bool, field, reason string) error {
	if !is {
		return nil
	}
	return &repo.InvalidError{Field: field, Reason: reason}
}

// refusal returns err, or an ExceededError if a limit of the reservation is its reason.
func (r Reservation) refusal(err error) error {
	refused, is := errors.AsType[*repo.LimitExceededError](err)
	for _, p := range r.Parts {
		if is && refused.Scope == scopeOf(p.Name) && refused.Name == p.key() {
			_, until, _ := p.instance(r.At)
			return &ExceededError{p.Limit, until, refused}
		}
	}
	return err
}

// moved reports whether err says that a record of the reservation is not what it was.
func (r Reservation) moved(err error) bool {
	conflict, is := errors.AsType[*repo.VersionConflictError](err)
	return is && (conflict.Name == heldPrefix+r.ID || conflict.Name == r.expiredKey()) &&
		slices.ContainsFunc(r.Parts, func(p Part) bool { return scopeOf(p.Name) == conflict.Scope })
}
