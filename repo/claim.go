package repo

import "time"

// Claim asks for queued plans to work on. Only Owner is required.
type Claim struct {
	// Owner will hold the leases (NewLease.Owner). It is also the actor in the history: at most MaxNameBytes.
	Owner         string
	Namespaces    []string // none: DefaultNamespace, also if Actions have others
	AllNamespaces bool     // any; Namespaces must be empty
	// Actions and Phases: none means any. Actions are named as for Use: of the view, or of DefaultNamespace (with
	// AllNamespaces also of each plan's namespace), or "acme/answer". At most 1,000 pairs of a namespace and an action
	// are named.
	Actions []string
	Phases  []Phase
	TTL     time.Duration // of the leases: see NewLease.TTL
	// the maximum number of plans, at most 100; zero means 1. Together they have less than 16 MiB, or
	// there is one
	Limit int
	// Wait waits until there is a plan, also while the database cannot be reached. Other errors end it.
	Wait bool
	// Finish is for how long Work lets what runs go on after its context has ended. Claim does not use it.
	Finish time.Duration
}

// PlanLimit bounds how many plans are claimed at once.
type PlanLimit struct {
	Namespace string // of the plans; empty: DefaultNamespace
	Action    string // empty: all of them together
	// AtOnce is at most 10,000. Zero: none is claimed. Negative, in Plans.SetLimit: the limit is removed.
	AtOnce  int
	Claimed int // how many are, in what Plans.Limits returns
}

// ClaimedPlan is a plan at processing, with its lease (PlanLease).
type ClaimedPlan struct {
	Plan  Plan
	Lease Lease
}
