package repo

import (
	"encoding/json"
	"time"
)

// Plan is one use of an action.
type Plan struct {
	ID ID
	// Name is optional for a top-level plan. Child plans have none.
	Name string
	// Namespace groups plans for listing.
	Namespace string
	Action    ActionName
	// ParentID is the plan whose child this one is. Zero: none.
	ParentID ID
	// RootID is the top-level plan of the tree; a top-level plan's own id.
	RootID ID
	// SessionID is the session that the plan was made for, which may be deleted by now.
	// Zero: none.
	SessionID ID
	// Key is the use's idempotency key. Empty: none.
	Key string
	// Depth is 0 for a top-level plan.
	Depth int
	// Attempt counts from 1, or from that of the use. It grows by one each time a claim
	// expires: see PlanWriter.Claim.
	Attempt     int
	Description string
	// DefinitionOfDone was rendered when the plan was created.
	DefinitionOfDone string
	Stage
	// Projects are in the order of the use, Arguments in that of the action.
	// Invariants are the action's, followed by those of the use.
	Projects   []ProjectLink
	Arguments  []ArgumentValue
	Invariants []PlanInvariant
	// AutomationProfile names a profile, and AutomationProfileSource says where the
	// name came from. Empty: none.
	AutomationProfile, AutomationProfileSource string
	// AutomationSnapshot is the profile at that time: a JSON object, stored byte
	// for byte, "{}" if none.
	AutomationSnapshot json.RawMessage
	// ErrorMessage and ErrorDetails describe the failure of an errored plan. Nil
	// details: none were given.
	ErrorMessage   string
	ErrorDetails   json.RawMessage
	ReversionCount int
	// LastCompletedStep and LastCheckpointID describe the progress: see
	// PlanWriter.Progress. Nil and empty: no progress was reported.
	LastCompletedStep *int64
	LastCheckpointID  string
	// Version counts the transitions, from 1.
	Version int64
	// CancelledAt is set by the database's clock, CancelReason by the caller. Zero
	// and empty: not cancelled.
	CancelledAt  time.Time
	CancelReason string
	// CreatedAt and UpdatedAt are set by the database's clock.
	CreatedAt, UpdatedAt time.Time
}

// ProjectLink is a project that a plan works on.
type ProjectLink struct {
	Project string
	// Alias is unique in the plan. In a UseAction, empty means the project's name.
	Alias    string
	ReadOnly bool
}

// ArgumentValue is the value of an argument: JSON of the argument's type, stored
// byte for byte.
type ArgumentValue struct {
	Name  string
	Value json.RawMessage
}

// PlanInvariant is a rule that holds for a plan.
type PlanInvariant struct {
	Text string
	// Source says where it came from: SourceAction, SourcePlan or a source of the
	// caller's.
	Source string
}

// The sources of invariants and automation profiles that the store sets.
const (
	SourceAction = "action"
	SourcePlan   = "plan"
)

// UseAction describes a plan to create from an action. The zero value is valid for
// an action without required arguments.
type UseAction struct {
	// Key is the use's idempotency key: see PlanWriter.Use. It is any text of at most
	// MaxNameBytes, such as the id that a client gave its request. Two sessions (SessionID)
	// may have the same key, and so may two namespaces for uses without a session.
	// Empty: none.
	Key string
	// Existing says which plan with this Key PlanWriter.Use returns instead of creating
	// one: the one that the same use has made (ExistingSame, which empty means), or
	// whatever plan is there (ExistingAny). Its Version is 1 if nothing has happened to
	// it since it was created.
	Existing Existing
	// Name is optional, at most MaxNameBytes, and not allowed with ParentID.
	Name string
	// Namespace: empty means the parent's, or without a parent the action's.
	Namespace string
	// ParentID makes the plan a child of a live plan. Zero: a top-level plan.
	ParentID ID
	// SessionID is the session that the plan is made for, and linked to. Zero: none.
	SessionID ID
	// Attempt: zero means 1.
	Attempt int
	// Description: empty means the action's.
	Description string
	Projects    []ProjectLink
	// Arguments have names that the action declares, each at most once, in any
	// order. They are stored in the action's order.
	Arguments []ArgumentValue
	// Invariants are added after the action's own. An empty Source means
	// SourcePlan.
	Invariants []PlanInvariant
	// AutomationProfile: empty means the action's. An empty
	// AutomationProfileSource means SourcePlan.
	AutomationProfile, AutomationProfileSource string
	// AutomationSnapshot is a JSON object of at most MaxMetadataBytes. Nil:
	// "{}".
	AutomationSnapshot json.RawMessage
	// Actor is optional, and is recorded in the history.
	Actor string
}

// Cause says who makes a transition, why, and on what condition.
type Cause struct {
	// Version is the version that the plan must have. Zero: any.
	Version int64
	// Actor is optional, at most MaxNameBytes.
	Actor string
	// Reason has at most MaxTextBytes. It is required for TransitionFail, where it
	// becomes ErrorMessage, and for TransitionCancel, where it becomes
	// CancelReason. Otherwise it is optional.
	Reason string
	// Details are for TransitionFail only: a JSON object of at most
	// MaxMetadataBytes. Nil: none.
	Details json.RawMessage
	// Fence is the token of a lease of the plan ([Lease].Token): the transition is
	// refused if a later one was given. Zero: no token. Those of the plan's descendants
	// do not matter. See docs/leases.md.
	Fence int64
}

// Progress describes the progress of a plan's work.
type Progress struct {
	// CompletedStep is not negative. Nil: unchanged.
	CompletedStep *int64
	// CheckpointID is at most MaxNameBytes. Nil: unchanged.
	CheckpointID *string
	// Fence is the token of a lease of the plan, as in Cause.
	Fence int64
}

// PlanEvent is one transition in a plan's history.
type PlanEvent struct {
	PlanID ID
	// Version is the plan's version after the transition: 1, 2, 3, …
	Version    int64
	Transition Transition
	// From is zero for TransitionUse.
	From, To  Stage
	Actor     string
	Reason    string
	CreatedAt time.Time
}

// PlanFilter selects the plans of a list.
type PlanFilter struct {
	// Namespace: empty means DefaultNamespace, or any namespace when SessionID,
	// ParentID or Project is set.
	Namespace string
	// Phase and State: empty means any.
	Phase Phase
	State PlanState
	// At most one of SessionID, ParentID and Project is set.
	SessionID ID
	ParentID  ID
	Project   string
}

// PlanPage is one page of a list, newest plan first.
type PlanPage struct {
	Plans []Plan
	// Next continues the list. Empty: this was the last page.
	Next Cursor
}

// LinkedPlan is a plan that a session is linked to, with its current stage.
type LinkedPlan struct {
	ID ID
	Stage
}
