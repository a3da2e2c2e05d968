package repo

import (
	"fmt"
	"time"
)

func (k LeaseKey) text() string { return fmt.Sprintf("lease %q %q", k.Kind, k.Name) }

// LeaseConflictError reports that somebody else holds a lease. It matches
// [ErrConflict].
type LeaseConflictError struct {
	Key LeaseKey
	// Holder is the owner who holds it, with Token.
	Holder string
	Token  int64
	// ExpiresAt is when it expires unless it is renewed, by the database's clock.
	ExpiresAt time.Time
}

func (e *LeaseConflictError) Error() string {
	return fmt.Sprintf("%s: held by %q until %s", e.Key.text(), e.Holder, e.ExpiresAt.Format(time.RFC3339))
}
func (e *LeaseConflictError) Is(target error) bool { return target == ErrConflict }

// FencedError reports a write that was refused because of its token, so that nothing was
// written: the lease of its session or plan was given to somebody else since, or the token
// is not one of that lease. It matches [ErrConflict].
type FencedError struct {
	Key LeaseKey
	// Token is that of the write. Zero: it had none, and the session takes only writes
	// that have one ([Session].FencedOnly).
	Token int64
	// Latest is the latest token that the session or plan knows of. It is below Token if
	// that was given for another key, or if the lease has ended before the session or
	// plan was made, or knew of it. Zero: it knows of none.
	Latest int64
}

func (e *FencedError) Error() string {
	if e.Token == 0 {
		return fmt.Sprintf("%s: a write needs a token of it; the latest is %d", e.Key.text(), e.Latest)
	}
	return fmt.Sprintf("%s: written to with token %d, but the latest is %d", e.Key.text(), e.Token, e.Latest)
}
func (e *FencedError) Is(target error) bool { return target == ErrConflict }

// LeaseLostError reports that a lease is no longer held, or, as the cause of a context
// of [Hold], that it can no longer be known to be held. It matches [ErrConflict].
type LeaseLostError struct {
	Key   LeaseKey
	Owner string
	Token int64
	// Err says why the lease could not be renewed in time. Nil: the database said that it
	// has expired, or was released or taken by somebody else, or this process did not
	// run in time. It is not wrapped, so that the loss is not mistaken for its cause.
	Err error
}

func (e *LeaseLostError) Error() string {
	text := fmt.Sprintf("%s: lost by %q (token %d)", e.Key.text(), e.Owner, e.Token)
	if e.Err != nil {
		text += ": not renewed in time: " + e.Err.Error()
	}
	return text
}
func (e *LeaseLostError) Is(target error) bool { return target == ErrConflict }
