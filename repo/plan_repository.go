package repo

import "context"

// Actions is the repository of actions. A name is "[[server:]namespace/]name".
//
// Errors of all methods: InvalidError; NotFoundError; ErrUnknownOutcome.
type Actions interface {
	// Create creates an available action. If an action with this name and the same definition exists, Create returns it.
	// Errors: ExistsError if the definition differs.
	Create(ctx context.Context, action NewAction) (Action, error)
	// Get returns the action, archived or not.
	Get(ctx context.Context, name string) (Action, error)
	// List returns one page, by name.
	List(ctx context.Context, filter ActionFilter, page Page) (List[Action], error)
	// Update replaces the definition if the action has the given version; zero means any. Existing plans are not changed.
	// Errors: VersionConflictError.
	Update(ctx context.Context, name string, version int64, definition ActionDefinition) (Action, error)
	// Archive makes the action unusable. Archiving it again changes nothing.
	Archive(ctx context.Context, name string) (Action, error)
	// Delete deletes an action without plans. Errors: RefusedError if it has some.
	Delete(ctx context.Context, name string) error
}

// Plans is the repository of plans.
//
// Errors of all methods: InvalidError; NotFoundError; ErrUnknownOutcome.
type Plans interface {
	PlanReader
	PlanQueue

	// Use creates a plan from an available action, queued in its first phase. Repeating a use with a Key, for the same
	// session or without one in the same namespace, returns the stored plan at whatever stage it is, and links it to the
	// session. A key ends with its session. A use without a Key makes a plan each time.
	//
	// Errors: InvalidError (for an argument "arguments.NAME"); NotFoundError of the action, parent or session;
	// RefusedError; ExistsError if a different plan has the key; TransitionConflictError if the parent is not live;
	// LimitExceededError above a depth of 10 or 1,000 children.
	Use(ctx context.Context, action string, use UseAction) (Plan, error)
	// Transition makes a transition that the lifecycle allows (except TransitionExpire) and returns the plan. If several
	// callers race, one makes it (Moved). With cause.Version all others get an error; without, a plan that is already
	// there, or past it (TransitionExecute, TransitionApply), is returned unchanged. TransitionCancel also cancels what is
	// live below it; TransitionRevert of a cancelled child needs a live parent.
	//
	// Errors: FencedError; TransitionConflictError with the actual stage and version of the plan, or of its parent
	// (Child), which is not live; LimitExceededError above 3 reversions.
	Transition(ctx context.Context, id ID, transition Transition, cause Cause) (Plan, error)
	// Progress records the progress of the plan's work, and leaves its version. Errors: FencedError;
	// TransitionConflictError if the plan is not processing.
	Progress(ctx context.Context, id ID, progress Progress) (Plan, error)
	// Delete deletes a plan with the plans below it, their histories and links. An entry of the audit trail for each says
	// so. Errors: RefusedError if one of them is queued or processing, or held, or the plan was changed (IdleSince);
	// VersionConflictError.
	Delete(ctx context.Context, id ID, conditions ...DeleteIf) error
	// Link links a plan to a session, and Unlink removes the link. Both may be repeated.
	Link(ctx context.Context, sessionID, planID ID) error
	Unlink(ctx context.Context, sessionID, planID ID) error
}

// PlanReader reads plans.
type PlanReader interface {
	// Get returns the plan.
	Get(ctx context.Context, id ID) (Plan, error)
	// List returns one page of the plans that filter selects, newest first, by ID.
	List(ctx context.Context, filter PlanFilter, page Page) (List[Plan], error)
	// Counts returns one page of the numbers of plans by namespace and stage; an empty namespace means all.
	Counts(ctx context.Context, namespace string, page Page) (List[PlanCount], error)
	// History returns up to limit events of a plan, ascending, starting at version from.
	History(ctx context.Context, id ID, from int64, limit int) ([]PlanEvent, error)
}

// PlanQueue hands out queued plans, within limits.
type PlanQueue interface {
	// Claim moves queued plans to processing, each for one caller, which gets its lease with a new fence. In a namespace,
	// the plans that are due come by priority, then in the order in which they were queued or due. Namespaces take turns.
	// No more are claimed at once than the limits (SetLimit) allow. Claim leaves out plans that are locked or whose lease
	// is held. No plan is no error.
	//
	// A claim ends when a transition takes its plan out of processing, which releases the lease. If the lease ends before
	// that, the next claim takes the plan first: it is queued again (TransitionExpire) for its next attempt, and claimed,
	// or after the last attempt errored. After its deadline, or above a limit that was lowered, Sweep queues it. A plan
	// started by TransitionStart is not under a claim.
	//
	// With Wait, not in a transaction, Claim holds no connection while it waits. It may return plans although ctx has
	// ended. After ErrUnknownOutcome the owner finds its plans among its leases, or leaves them to expire.
	Claim(ctx context.Context, claim Claim) ([]ClaimedPlan, error)
	// SetLimit sets a limit for the claims that begin after it has returned.
	SetLimit(ctx context.Context, limit PlanLimit) error
	// Limits returns one page of the limits, by the bytes of their namespaces and actions.
	Limits(ctx context.Context, page Page) (List[PlanLimit], error)
	// Sweep does what claims do by the way, for services without claims: it errors plans after their deadline or last
	// attempt, queues plans whose claims expired 10 seconds ago, and deletes plans that were kept long enough (Plan.Keep);
	// up to limit, at most 1,000 (zero: 100), of each kind. It returns how many: there may be more if any.
	Sweep(ctx context.Context, limit int) (swept int, err error)
}
