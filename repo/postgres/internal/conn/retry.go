package conn

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

const (
	// MaxAttempts bounds how often an operation is begun.
	MaxAttempts = 5
	// firstPause is the longest pause before the second attempt; each further
	// one may be twice as long.
	firstPause = 10 * time.Millisecond
)

// Pause waits before the next attempt, for a random time, so that callers that have
// collided do not collide again. It returns false if the context has ended or the
// attempts are used up.
func Pause(ctx context.Context, attempt int) bool {
	if attempt >= MaxAttempts {
		return false
	}
	longest := firstPause << (attempt - 1)
	timer := time.NewTimer(longest/2 + rand.N(longest/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// IsPassing reports whether running the same operation again may succeed and is
// harmless.
func IsPassing(err error) bool {
	var doubt *doubtError
	return errors.Is(err, repo.ErrContention) || errors.Is(err, repo.ErrUnavailable) || errors.As(err, &doubt)
}

// doubtError marks the error of an idempotent write, an attempt of which may have been
// committed: running it again finds out.
type doubtError struct{ err error }

func (e *doubtError) Error() string { return e.err.Error() }
func (e *doubtError) Unwrap() error { return e.err }

// AfterDoubt converts an attempt's error if this attempt or an earlier one may have
// been committed: an error that says that this attempt wrote nothing says nothing about
// the earlier one.
func AfterDoubt(unsure bool, err error) error {
	var stored *Error
	switch {
	case !unsure || err == nil:
		return err
	case errors.Is(err, repo.ErrUnknownOutcome):
		return &doubtError{err}
	case errors.As(err, &stored): // whose sentinel says that nothing was written
		return &doubtError{&Error{repo.ErrUnknownOutcome, stored.Cause}}
	case errors.Is(err, repo.ErrClosed): // the pool, by its owner
		return &doubtError{&Error{repo.ErrUnknownOutcome, errors.New(err.Error())}}
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return &doubtError{&Error{repo.ErrUnknownOutcome, err}}
	default:
		return err
	}
}

// Settled removes the mark from the error of an operation that is not run again.
func Settled(err error) error {
	if doubt, ok := errors.AsType[*doubtError](err); ok {
		return doubt.err
	}
	return err
}

// PatienceOf returns how long a held row is worth trying for: as long as the attempts that
// larger pools make of such a wait, given the lock timeout in milliseconds. Zero: as long
// as the context.
func PatienceOf(lockTimeout int64) time.Duration {
	return MaxAttempts * time.Duration(lockTimeout) * time.Millisecond
}

// ErrLockTimeout is the cause of ErrContention if a group gave up.
var ErrLockTimeout = errors.New("a row was locked for longer than the lock timeout")

// ErrLateAttempt says that this attempt wrote nothing, but one whose answer was lost may write
// later.
var ErrLateAttempt = errors.New("an earlier attempt may still be committed")
