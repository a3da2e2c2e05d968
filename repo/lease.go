package repo

import "time"

// LeaseKey names what a lease is for: its kind, and its name in that kind. Leases are
// held for anything; what has the name need not exist.
type LeaseKey struct {
	// Kind is any text of 1 to MaxNameBytes, such as "project".
	Kind string
	// Name is any text of 1 to MaxLeaseNameBytes. For the kinds LeaseOfSession and
	// LeaseOfPlan it is the text of an ID: SessionLease and PlanLease make such keys.
	Name string
}

// The kinds whose names are ids.
const (
	LeaseOfSession = "session"
	LeaseOfPlan    = "plan"
)

// SessionLease returns the key of a session's lease.
func SessionLease(id ID) LeaseKey { return LeaseKey{Kind: LeaseOfSession, Name: id.String()} }

// PlanLease returns the key of a plan's lease.
func PlanLease(id ID) LeaseKey { return LeaseKey{Kind: LeaseOfPlan, Name: id.String()} }

// NewLease asks for a lease.
type NewLease struct {
	Key LeaseKey
	// Owner is who holds the lease: any text of 1 to MaxUserIDBytes. All who give the
	// same owner hold the lease together, so it should name one worker in one run of its
	// process, such as "worker-3/" + NewID().String(): a process that is started again is
	// then somebody else.
	Owner string
	// TTL is how long the lease lasts if it is not renewed, from MinLeaseTTL to
	// MaxLeaseTTL. Zero: DefaultLeaseTTL.
	TTL time.Duration
}

// Lease is a lease as the database has it.
type Lease struct {
	Key   LeaseKey
	Owner string
	// Token is larger than that of every earlier lease of this key, however those ended; docs/leases.md
	// has the one exception. Turn.Fence, Cause.Fence and Progress.Fence take it: the session or plan
	// that the key names then refuses the write if it was given a later one. Another system that is written to under the lease is safe from a holder
	// that does not know that it has lost it if it refuses a token that is smaller than
	// one that it has seen.
	Token int64
	// AcquiredAt and ExpiresAt are times of the database's clock. A caller that compares
	// them with a clock of its own relies on both clocks: Hold does not.
	AcquiredAt, ExpiresAt time.Time
	// Expired: ExpiresAt had passed, by the database's clock, when the lease was read.
	// Nobody holds it then.
	Expired bool
}

// LeaseStatus is whether a lease is held.
type LeaseStatus string

// The statuses.
const (
	LeaseHeld    LeaseStatus = "held"
	LeaseExpired LeaseStatus = "expired"
)

// LeaseFilter selects leases. A zero field selects all.
type LeaseFilter struct {
	Kind, Name, Owner string
	Status            LeaseStatus
}

// LeasePage is one page of leases.
type LeasePage struct {
	Leases []Lease
	// Next continues the list. Empty: this was the last page.
	Next Cursor
}
