package repo

import (
	"encoding/json"
	"time"
)

// Plan is one use of an action.
type Plan struct {
	ID ID
	// Name is a top-level plan's, optional there. Child plans have none.
	Name string
	// Namespace groups plans for listing.
	Namespace string
	Action    ActionName
	// ParentID is the plan that spawned this one. Zero: none.
	ParentID ID
	// RootID is the top-level plan of the tree: the plan's own id for one.
	RootID ID
	// Depth is 0 for a top-level plan.
	Depth int
	// Attempt counts from 1.
	Attempt     int
	Description string
	// DefinitionOfDone was rendered when the plan was made.
	DefinitionOfDone string
	Stage
	// Projects, Arguments and Invariants are in the order they were given in.
	Projects   []ProjectLink
	Arguments  []ArgumentValue
	Invariants []PlanInvariant
	// AutomationProfile, with where it came from. Empty: none.
	AutomationProfile, AutomationProfileSource string
	// AutomationSnapshot is the profile as it was then: a JSON object, byte for
	// byte as it was given, "{}" if none.
	AutomationSnapshot json.RawMessage
	// ErrorMessage and ErrorDetails describe the failure of a plan that is
	// errored. Nil details: none were given.
	ErrorMessage   string
	ErrorDetails   json.RawMessage
	ReversionCount int
	// LastCompletedStep and LastCheckpointID are how far the work has come: see
	// Plans.Progress. Nil and empty: no progress was noted.
	LastCompletedStep *int64
	LastCheckpointID  string
	// Version counts the transitions, from 1.
	Version int64
	// CancelledAt is the database's clock, CancelReason the caller's. Zero and
	// empty: not cancelled.
	CancelledAt  time.Time
	CancelReason string
	// CreatedAt and UpdatedAt are the database's clock.
	CreatedAt, UpdatedAt time.Time
}

// ProjectLink is a project that a plan works on.
type ProjectLink struct {
	Project string
	// Alias is distinct within the plan. Empty, when given: the project's name.
	Alias    string
	ReadOnly bool
}

// ArgumentValue is the value of an argument: JSON of the argument's type, byte
// for byte as it was given.
type ArgumentValue struct {
	Name  string
	Value json.RawMessage
}

// PlanInvariant is a rule that holds for a plan.
type PlanInvariant struct {
	Text string
	// Source says where it came from: SourceAction, SourcePlan or what the
	// caller gave.
	Source string
}

// The sources that the store itself knows, of invariants and of automation
// profiles.
const (
	SourceAction = "action"
	SourcePlan   = "plan"
)

// UseAction describes a plan to make of an action. The zero value uses an action
// without required arguments.
type UseAction struct {
	// ID makes the use repeatable: see PlanWriter.Use. Zero: a new one.
	ID ID
	// Name is optional, at most MaxNameBytes, and not allowed with ParentID.
	Name string
	// Namespace: empty means the parent's, else the action's.
	Namespace string
	// ParentID makes it a child plan of a live one.
	ParentID ID
	// SessionID links the plan to a session. Zero: none.
	SessionID ID
	// Attempt: zero means 1.
	Attempt int
	// Description: empty means the action's.
	Description string
	Projects    []ProjectLink
	// Arguments have the names that the action declares, each at most once, in
	// any order. They are stored in the action's.
	Arguments []ArgumentValue
	// Invariants follow the action's own. Their Source: empty means SourcePlan.
	Invariants []PlanInvariant
	// AutomationProfile: empty means the action's. Its source: empty means
	// SourcePlan.
	AutomationProfile, AutomationProfileSource string
	// AutomationSnapshot is a JSON object of at most MaxMetadataBytes. Nil:
	// "{}".
	AutomationSnapshot json.RawMessage
	// Actor is who uses it, for the history. Optional.
	Actor string
}

// Cause says who makes a transition, why, and on what condition.
type Cause struct {
	// Version is the plan's version that the caller knows. Zero: any.
	Version int64
	// Actor is optional, at most MaxNameBytes.
	Actor string
	// Reason is at most MaxTextBytes. TransitionFail and TransitionCancel need
	// one: it becomes ErrorMessage and CancelReason. Otherwise it is optional.
	Reason string
	// Details are for TransitionFail: a JSON object of at most
	// MaxMetadataBytes. Nil: none.
	Details json.RawMessage
}

// Progress says how far the work of a plan has come.
type Progress struct {
	// CompletedStep is not negative. Nil: unchanged.
	CompletedStep *int64
	// CheckpointID is at most MaxNameBytes. Nil: unchanged.
	CheckpointID *string
}

// PlanEvent is one transition in a plan's history.
type PlanEvent struct {
	PlanID ID
	// Version is the one that the plan had after it: 1, 2, 3, …
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
	// At most one of these three is set.
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

// LinkedPlan is a plan that a session is linked to, as it is now.
type LinkedPlan struct {
	ID ID
	Stage
}
