package repo

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
)

// Snooze is for [Work]'s function to return: the plan is due again after d.
func Snooze(d time.Duration) error { return &snoozed{d} }

// Final wraps an error of [Work]'s function: the plan is errored at once.
func Final(err error) error {
	if err == nil {
		return nil
	}
	return &final{err}
}

type snoozed struct{ d time.Duration }

func (s *snoozed) Error() string { return fmt.Sprintf("snoozed for %s", s.d) }

// Snoozed tells what wraps the function of Work that this is no failure.
func (s *snoozed) Snoozed() bool { return true }

type final struct{ err error }

func (f *final) Error() string { return f.err.Error() }
func (f *final) Unwrap() error { return f.err }

// outcome returns the transition that follows from what the function of Work has returned,
// and its cause.
func outcome(failed error, cause Cause) (Transition, Cause) {
	var snooze *snoozed
	var last *final
	switch {
	case failed == nil:
		return TransitionComplete, cause
	case errors.As(failed, &snooze):
		cause.Delay = min(max(snooze.d, 0), limits.MaxDelay)
		return TransitionSnooze, cause
	}
	cause.Reason, cause.Final = ReasonOf(failed), errors.As(failed, &last)
	return TransitionFail, cause
}

// told returns an error with the same outcome. It calls the methods of failed, which may panic, such as
// of a nil pointer in an error that is not nil.
func told(failed error) error {
	transition, cause := outcome(failed, Cause{})
	switch {
	case transition == TransitionComplete:
		return nil
	case transition == TransitionSnooze:
		return &snoozed{cause.Delay}
	case cause.Final:
		return &final{errors.New(cause.Reason)} //nolint:err113 // a text alone
	}
	return errors.New(cause.Reason) //nolint:err113 // a text alone
}
