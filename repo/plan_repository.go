package repo

import "context"

// Actions is the repository of actions. A name is "[[server:]namespace/]name".
// Errors of all methods with a name: InvalidError for a malformed one;
// ActionNotFoundError if no such action exists, except of Create.
type Actions interface {
	// Create creates an available action. If an action with this name and the same
	// definition exists, Create returns it and changes nothing. Errors:
	// InvalidError; ActionConflictError if the definition differs.
	Create(ctx context.Context, action NewAction) (Action, error)
	// Get returns the action, archived or not.
	Get(ctx context.Context, name string) (Action, error)
	// List returns one page, by name. Errors: InvalidError.
	List(ctx context.Context, filter ActionFilter, page Page) (ActionPage, error)
	// Update replaces the definition if the action has the given version; zero
	// means any. Existing plans are not changed. Errors: InvalidError;
	// ActionConflictError with the field "version".
	Update(ctx context.Context, name string, version int64, definition ActionDefinition) (Action, error)
	// Archive makes the action unusable. Archiving it again changes nothing.
	Archive(ctx context.Context, name string) (Action, error)
	// Delete deletes an action without plans. Errors: ActionInUseError, which stays:
	// plans are never deleted.
	Delete(ctx context.Context, name string) error
}

// Plans is the repository of plans. Plans are never deleted, and neither is what is in
// them: keep personal data in sessions or state, and give a plan its id.
type Plans interface {
	PlanReader
	PlanWriter
}

// PlanReader reads plans. There is no cache: it returns the stored state.
type PlanReader interface {
	// Get returns the whole plan. Errors: NotFoundError.
	Get(ctx context.Context, id ID) (Plan, error)
	// List returns one page of the whole plans that filter selects, by id, descending:
	// newest first, since an id contains the time of creation. Errors: InvalidError.
	List(ctx context.Context, filter PlanFilter, page Page) (PlanPage, error)
	// History returns up to limit events of a plan, ascending, starting at version
	// from. Errors: InvalidError; NotFoundError.
	History(ctx context.Context, id ID, from int64, limit int) ([]PlanEvent, error)
}

// PlanWriter creates plans and changes their stages.
type PlanWriter interface {
	// Use creates a plan from an available action, at strategize/queued.
	// Everything is checked before the first write. A child plan (ParentID) needs a live
	// parent.
	//
	// The use's Key is an idempotency key. Repeating the use, for the same session or
	// without one in the same namespace, returns the stored plan, whatever its stage is by
	// then, and changes nothing, except that it links the plan to the session if it is not
	// linked. With ExistingAny (UseAction.Existing) a different use with this Key does the
	// same. A key ends with its session: after a deletion nothing finds the plan by it.
	// Without a session it never ends. A use without a Key makes a plan each time.
	//
	// Errors: InvalidError (for an argument that is missing, unknown or of another
	// type, "arguments.NAME"); ActionNotFoundError; ActionUnavailableError;
	// NotFoundError for the parent or session; PlanConflictError if the key is that
	// of a different plan, unless Existing accepts it; TransitionConflictError if the
	// parent is not live; LimitExceededError above MaxPlanDepth or MaxChildPlans.
	Use(ctx context.Context, action string, use UseAction) (Plan, error)
	// Transition makes a transition that the lifecycle allows (except TransitionExpire)
	// and returns the
	// updated plan. If several callers attempt the same transition at once, one
	// makes it. A plan that is already there, or past it, is returned unchanged,
	// without an event. TransitionCancel also cancels the plan's live descendants,
	// and TransitionRevert of a cancelled child needs a live parent: a cancelled
	// plan never has a live descendant.
	//
	// Errors: InvalidError; NotFoundError; FencedError if the cause has a token, and a
	// later one was given for a lease of the plan; TransitionConflictError with the plan's
	// actual stage, also if another caller changed it meanwhile, or with the stage
	// of its parent (Child), which is not live; LimitExceededError above
	// MaxReversions.
	Transition(ctx context.Context, id ID, transition Transition, cause Cause) (Plan, error)
	// Claim moves queued plans to processing, and acquires their leases for the owner,
	// with new tokens. Of concurrent claims, each plan is claimed by one. There are no
	// priorities: of each namespace, plans come in the order in which they were queued.
	// Each namespace that has plans for the caller has the same chance to be the first,
	// and after that they take turns, however many plans one of them has. A claim waits
	// for nobody: it leaves out plans that a transaction under way has locked, and plans
	// whose lease somebody holds.
	//
	// A claim ends when a transition takes its plan out of processing, in whichever way,
	// which releases its lease. If the lease expires before that, or is released, the
	// claim has expired. The next claim that asks for such plans takes it before all
	// others: it is queued again in the same phase (TransitionExpire), its attempt is
	// increased, and it is claimed. After the last attempt (MaxAttempts of the claim that
	// expired) it is errored instead. A plan that was started by TransitionStart is not
	// under a claim, and never expires. Renew the lease, or use Hold, which acquires it
	// again for the same owner.
	//
	// With Wait, Claim waits until it has claimed a plan. It holds no connection meanwhile.
	//
	// No plan is no error. Errors: InvalidError, also for Wait in a transaction;
	// ErrUnknownOutcome: the owner may have claimed plans. It finds them among its leases
	// (LeaseReader.List), or leaves them to expire.
	Claim(ctx context.Context, claim Claim) ([]ClaimedPlan, error)
	// Progress records the progress of the plan's work. It is not a transition and
	// does not change the version. Errors: InvalidError; NotFoundError; FencedError, as of
	// Transition; TransitionConflictError if the plan is not processing.
	Progress(ctx context.Context, id ID, progress Progress) (Plan, error)
	// Link links a plan to a session, and Unlink removes the link. Both may be
	// repeated.
	// Errors: NotFoundError.
	Link(ctx context.Context, sessionID, planID ID) error
	Unlink(ctx context.Context, sessionID, planID ID) error
}
