package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

const (
	// maxAttempts bounds how often an operation is begun.
	maxAttempts = 5
	// firstPause is the longest pause before the second attempt; each further
	// one may be twice as long.
	firstPause = 10 * time.Millisecond
)

// pause waits before the next attempt, between half and all of its time, so that
// callers who collided once do not collide again in step. False: the context
// ended, or there were attempts enough.
func pause(ctx context.Context, attempt int) bool {
	if attempt >= maxAttempts {
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

// isPassing reports whether the same operation may succeed when it is run again
// and is harmless then.
func isPassing(err error) bool {
	var doubt *doubtError
	return errors.Is(err, repo.ErrContention) || errors.Is(err, repo.ErrUnavailable) || errors.As(err, &doubt)
}

// doubtError marks the error of a repeatable write of which some attempt may
// have been committed: running it again finds out.
type doubtError struct{ err error }

func (e *doubtError) Error() string { return e.err.Error() }
func (e *doubtError) Unwrap() error { return e.err }

// afterDoubt gives an attempt's error its meaning when this attempt or an
// earlier one may have been committed. A failure that says that this attempt
// wrote nothing says nothing of the earlier one.
func afterDoubt(unsure bool, err error) error {
	var stored *storeError
	switch {
	case !unsure || err == nil:
		return err
	case errors.Is(err, repo.ErrUnknownOutcome):
		return &doubtError{err}
	case errors.As(err, &stored): // whose sentinel says that nothing was written
		return &doubtError{&storeError{repo.ErrUnknownOutcome, stored.cause}}
	case errors.Is(err, repo.ErrClosed): // the pool, by its owner
		return &doubtError{&storeError{repo.ErrUnknownOutcome, errors.New(err.Error())}}
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return &doubtError{&storeError{repo.ErrUnknownOutcome, err}}
	default:
		return err
	}
}

// settled takes off the mark of an operation that is not run again.
func settled(err error) error {
	if doubt, ok := errors.AsType[*doubtError](err); ok {
		return doubt.err
	}
	return err
}
