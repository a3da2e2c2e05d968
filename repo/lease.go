package repo

import "time"

// LeaseKey names what a lease is for, which need not exist.
type LeaseKey struct {
	Kind string // of 1 to MaxNameBytes, such as "project"
	Name string // of 1 to 768 bytes; for LeaseOfSession and LeaseOfPlan the text of an ID
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
	// Owner names the holder, in 1 to 1,024 bytes. All callers with the same owner hold the lease together: it should
	// name one worker in one run of its process, such as "worker-3/" + NewID().String().
	Owner string
	// TTL is how long the lease lasts if it is not renewed, from MinLeaseTTL to MaxLeaseTTL. Zero: 5 minutes.
	TTL time.Duration
	// Slots is how many owners may hold the lease at once, at most 1,000; all callers must give the same number. Above 1
	// the acquired lease is one of as many: its name is Key's with "#1", "#2", … behind it. Not for kinds whose names are
	// ids. Zero: 1.
	Slots int
	// Wait waits until the lease is free, also while the database cannot be reached. In a process, callers get it in the
	// order in which they came.
	Wait bool
}

// Lease is a lease as the database has it.
type Lease struct {
	Key   LeaseKey
	Owner string
	// Fence is larger than the fence of every earlier lease of this key (docs/leases.md has the one exception). Turn,
	// Cause and Progress take it: the session or plan of the key refuses the write if a later one was given. Other systems
	// should refuse smaller ones.
	Fence                 int64
	AcquiredAt, ExpiresAt time.Time // by the database's clock
	// Expired: ExpiresAt had passed, by that clock, when the lease was read. It then has no holder.
	Expired bool
}

// LeaseFilter selects leases, also of other owners. A zero field selects all.
type LeaseFilter struct {
	Kind, Name, Owner string
	Held, Expired     bool // only held ones, or only expired ones; not both
}
