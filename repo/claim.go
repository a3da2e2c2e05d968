package repo

import "time"

// Claim asks for queued plans to work on. Only Owner is required.
type Claim struct {
	// Owner is who will hold the leases of the plans: see NewLease.Owner. It is also the
	// actor in their history, and therefore has at most MaxNameBytes.
	Owner string
	// Namespaces: empty means DefaultNamespace, whatever the namespaces of Actions are.
	Namespaces []string
	// Actions and Phases: empty means any. There may be at most MaxClaimLanes
	// combinations of a namespace and an action.
	Actions []string
	Phases  []Phase
	// TTL is how long the leases last if they are not renewed: see NewLease.TTL.
	TTL time.Duration
	// Limit is the maximum number of plans, at most MaxClaimedPlans. Zero: 1.
	Limit int
	// MaxAttempts is the attempt (Plan.Attempt) after which a plan whose claim has expired
	// is errored instead of queued again. Zero: DefaultMaxAttempts.
	MaxAttempts int
	// Wait waits until there is a plan, instead of returning none. If the database cannot
	// be reached meanwhile, it waits until that is back; any other error ends it.
	Wait bool
}

// ClaimedPlan is a plan that was claimed, at processing, with its lease, whose key is
// PlanLease of the plan's id.
type ClaimedPlan struct {
	Plan  Plan
	Lease Lease
}
