package repo

import (
	"fmt"
	"time"
)

func (k LeaseKey) text() string { return fmt.Sprintf("lease %q %q", k.Kind, k.Name) }

// LeaseConflictError reports a lease that another owner holds.
type LeaseConflictError struct {
	Key       LeaseKey
	Holder    string // the owner that holds it, with Fence
	Fence     int64
	ExpiresAt time.Time // by the database's clock, unless it is renewed
}

func (e *LeaseConflictError) Error() string {
	return fmt.Sprintf("%s: held by %q until %s", e.Key.text(), e.Holder, e.ExpiresAt.Format(time.RFC3339))
}
func (e *LeaseConflictError) Is(target error) bool { return target == ErrConflict }

// FencedError reports a write with a fence that is not the latest.
type FencedError struct {
	Key    LeaseKey // the lease's, or the kind "stream" and the stream's key
	Fence  int64    // of the write; zero: it had none, and needs one (Session.FencedOnly)
	Latest int64    // the latest fence that the session or plan knows of; zero: none
}

func (e *FencedError) Error() string {
	switch {
	case e.Key.Kind == "stream":
		return fmt.Sprintf("stream %q: opened again by another writer (fence %d)", e.Key.Name, e.Fence)
	case e.Fence == 0:
		return fmt.Sprintf("%s: a write needs a fence of it; the latest is %d", e.Key.text(), e.Latest)
	}
	return fmt.Sprintf("%s: written to with fence %d, but the latest is %d", e.Key.text(), e.Fence, e.Latest)
}
func (e *FencedError) Is(target error) bool { return target == ErrConflict }

// LeaseLostError reports that a lease is no longer held, as far as is known.
type LeaseLostError struct {
	Key   LeaseKey
	Owner string
	Fence int64
	// Err, which is not wrapped, says why the lease could not be renewed in time. Nil: it is lost, as far as is known.
	Err error
}

func (e *LeaseLostError) Error() string {
	text := fmt.Sprintf("%s: lost by %q (fence %d)", e.Key.text(), e.Owner, e.Fence)
	if e.Err != nil {
		text += ": not renewed in time: " + e.Err.Error()
	}
	return text
}
func (e *LeaseLostError) Is(target error) bool { return target == ErrConflict }
