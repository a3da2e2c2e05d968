package repo

import (
	"context"
	"time"
)

// Leases is the repository of leases: one owner at a time holds the lease of a key, until it is released or expires.
// Most use [HoldLease]: see docs/leases.md.
//
// In a transaction (InTx, Bind) acquire a lease last, since others wait for it, and do not use it before the commit.
//
// Errors of all methods: InvalidError; ErrUnknownOutcome: call again.
type Leases interface {
	// List returns one page of the leases that filter selects, ordered by the bytes of their kinds, then names. A lease
	// that was released does not exist; one that has expired exists until it is acquired or released.
	List(ctx context.Context, filter LeaseFilter, page Page) (List[Lease], error)

	// Acquire acquires a free lease, with a new fence, for lease.TTL. If its owner holds it already, Acquire returns it
	// with the same fence, and prolongs its life if it would end earlier. When it has returned, the session or plan that
	// the key names accepts no write with an earlier fence. Errors: InvalidError, also for lease.Wait in InTx and Bind;
	// LeaseConflictError if another owner holds it, with the one that expires first of several slots.
	Acquire(ctx context.Context, lease NewLease) (Lease, error)
	// Renew makes the life of a lease, whose Key and Fence are used, at least ttl from now on; zero means 5 minutes.
	// Errors: LeaseLostError if it has expired or was released.
	Renew(ctx context.Context, lease Lease, ttl time.Duration) (Lease, error)
	// Await waits until a lease, whose Key and Fence are used, has ended, and returns LeaseLostError: soon after it was
	// released, or its plan was taken out of processing. Errors: the context's; InvalidError, also in InTx and Bind;
	// ErrClosed.
	Await(ctx context.Context, lease Lease) error
	// Release ends a lease, whose Key and Fence are used, for all its holders. It may be repeated.
	Release(ctx context.Context, lease Lease) error
	// ReleaseAll ends all leases of an owner, also expired ones, and returns their number.
	ReleaseAll(ctx context.Context, owner string) (released int64, err error)
}
