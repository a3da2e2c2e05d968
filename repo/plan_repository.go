package repo

import "context"

// Actions is the repository of actions. A name is "[[server:]namespace/]name";
// one that is not gives an InvalidError, one that no action has an
// ActionNotFound.
type Actions interface {
	// Create creates an available action. Creating one that exists with the
	// same definition returns the stored one and changes nothing. Errors:
	// InvalidError; ActionConflict when it differs.
	Create(ctx context.Context, action NewAction) (Action, error)
	// Get returns the action, archived or not.
	Get(ctx context.Context, name string) (Action, error)
	// List returns one page, by name. Errors: InvalidError.
	List(ctx context.Context, filter ActionFilter, page Page) (ActionPage, error)
	// Update replaces the definition. version is the one that the caller has
	// read; zero means any. Plans made before keep what they have. Errors:
	// InvalidError; ActionConflict with the field "version".
	Update(ctx context.Context, name string, version int64, definition ActionDefinition) (Action, error)
	// Archive makes the action unusable. Archiving it again changes nothing.
	Archive(ctx context.Context, name string) (Action, error)
	// Delete deletes an action that no plan was made of. Errors: ActionInUse.
	Delete(ctx context.Context, name string) error
}

// Plans is the repository of plans.
type Plans interface {
	PlanReader
	PlanWriter
}

// PlanReader reads plans. There is no cache: what it returns is what is stored.
type PlanReader interface {
	// Get returns the whole plan. Errors: NotFoundError.
	Get(ctx context.Context, id ID) (Plan, error)
	// List returns one page of the plans that filter selects, whole, newest
	// first: by id, which holds the time of its making. Errors: InvalidError.
	List(ctx context.Context, filter PlanFilter, page Page) (PlanPage, error)
	// History returns up to limit events of a plan from a version on,
	// ascending. Errors: InvalidError; NotFoundError.
	History(ctx context.Context, id ID, from int64, limit int) ([]PlanEvent, error)
}

// PlanWriter makes plans and moves them.
type PlanWriter interface {
	// Use makes a plan of an available action, at strategize/queued. All is
	// checked before the first write. Using an action again with a given id
	// returns the stored plan when it is the same use, whatever became of it,
	// and changes nothing. A child plan (ParentID) needs a live parent.
	//
	// Errors: InvalidError (an argument that is missing, unknown or not of its
	// type, "arguments.NAME"); ActionNotFound; ActionUnavailable; NotFoundError
	// for the parent or session; PlanConflict when the id is another plan's;
	// TransitionConflict when the parent is not live; LimitExceeded past
	// MaxPlanDepth or MaxChildPlans.
	Use(ctx context.Context, action string, use UseAction) (Plan, error)
	// Transition moves the plan as the lifecycle allows and returns it as it
	// then is. Of concurrent callers of one transition one moves it. A plan that is
	// already there, or past it, is returned unchanged, without an event.
	// TransitionCancel cancels the plan's live descendants with it, and
	// TransitionRevert brings a cancelled child back only below a live parent:
	// no live plan ever stands below a cancelled one.
	//
	// Errors: InvalidError; NotFoundError; TransitionConflict with where the
	// plan really is, also when another caller moved it meanwhile, or with where
	// its parent is (Child), which is not live; LimitExceeded past
	// MaxReversions.
	Transition(ctx context.Context, id ID, transition Transition, cause Cause) (Plan, error)
	// Progress notes how far the work has come. It is no transition: the
	// version stays. Errors: InvalidError; NotFoundError; TransitionConflict
	// when the plan is not processing.
	Progress(ctx context.Context, id ID, progress Progress) (Plan, error)
	// Link links a plan to a session, Unlink ends that. Both may be repeated.
	// Errors: NotFoundError.
	Link(ctx context.Context, sessionID, planID ID) error
	Unlink(ctx context.Context, sessionID, planID ID) error
}
