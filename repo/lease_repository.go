package repo

import (
	"context"
	"time"
)

// Leases is the repository of leases: one owner at a time holds the lease of a key, until
// it is released or expires. docs/leases.md has an example, and says what a lease alone
// cannot prevent, but its token can. Most holders use [Hold].
//
// Each operation is one round trip. Time is the database's clock alone, read after the
// statement has waited for others: when its transaction began does not matter.
//
// In a transaction (InTx, Bind) a lease is acquired, renewed or released if and when the
// transaction is committed, although its life is counted from the statement. Until then
// whoever acquires, renews or releases the same lease waits. Acquire it last, or in a
// transaction of its own, and do not use a lease that a transaction has acquired before
// that is committed.
type Leases interface {
	LeaseReader
	LeaseWriter
}

// LeaseReader reads leases.
type LeaseReader interface {
	// List returns one page of the leases that filter selects, ordered by the bytes of
	// their kinds, then names. A lease that was released does not exist; one that has
	// expired does, until somebody acquires it or it is released. Reading all pages
	// yields every lease that existed throughout exactly once. Errors: InvalidError.
	List(ctx context.Context, filter LeaseFilter, page Page) (LeasePage, error)
}

// LeaseWriter acquires, renews and releases leases.
type LeaseWriter interface {
	// Acquire acquires a lease that nobody holds, with a new token, for lease.TTL. If its
	// owner holds it already, Acquire returns it with the same token, and prolongs its
	// life if it would end earlier. It does not wait for the lease: it may be called
	// again after an expiry. A new token fences the session or plan that the key names: when
	// Acquire has returned, no write with an earlier one is accepted (Turn.Fence, Cause.Fence,
	// Progress.Fence). It waits for the writes to it that are under way.
	//
	// Errors: InvalidError; LeaseConflictError if somebody else holds the lease;
	// ErrUnknownOutcome: acquiring again is safe, because the owner is the same.
	Acquire(ctx context.Context, lease NewLease) (Lease, error)
	// Renew makes the life of a lease at least ttl from now on; zero means
	// DefaultLeaseTTL. Only the Key and Token of lease are used, and its Owner in
	// errors. Errors: InvalidError; LeaseLostError if the lease has expired, even if
	// nobody else has acquired it since, or was released; ErrUnknownOutcome: renewing
	// again is safe.
	Renew(ctx context.Context, lease Lease, ttl time.Duration) (Lease, error)
	// Release ends a lease, whose Key and Token alone are used. If it has ended
	// already, and perhaps somebody else holds the key's lease, Release changes nothing
	// and returns nil. All who hold the lease with the same owner lose it. Errors:
	// InvalidError; ErrUnknownOutcome: releasing again is safe.
	Release(ctx context.Context, lease Lease) error
	// ReleaseAll ends all leases of an owner, also those that have expired, and returns
	// their number. Errors: InvalidError; ErrUnknownOutcome: releasing again is safe.
	ReleaseAll(ctx context.Context, owner string) (released int64, err error)
}
