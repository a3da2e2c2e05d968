package repo

import (
	"encoding/json"
	"time"
)

// Plan is one use of an action.
type Plan struct {
	ID        ID
	Name      string // optional; a child plan has none
	Namespace string
	Action    ActionName
	ParentID  ID // the plan whose child this one is; zero: none
	RootID    ID // the top-level plan of the tree, or its own
	// SessionID is the session that the plan was made for, which may be deleted by now. Zero: none.
	SessionID ID
	Key       string // the use's idempotency key; empty: none
	Depth     int    // 0 for a top-level plan
	// Attempt is the use's, and one more after each expired claim and failure. MaxAttempts is the last one.
	Attempt, MaxAttempts int
	Priority             int       // the use's
	NotBefore            time.Time // when a queued plan is due; zero: at once
	// Deadline is when it is errored if still queued; Cause.Delay moves it; executing, applying, resuming or reverting
	// takes it away.
	Deadline         time.Time
	Keep             time.Duration
	Description      string
	DefinitionOfDone string  // rendered when the plan was created
	Phases           []Phase // the action's when the plan was made; none: all three
	Stage
	// Arguments are in the order of the action. Invariants are the action's, then the use's.
	Projects   []ProjectLink
	Arguments  []ArgumentValue
	Invariants []PlanInvariant
	// AutomationProfile names a profile, and AutomationProfileSource says where the name came from. Empty: none.
	AutomationProfile, AutomationProfileSource string
	AutomationSnapshot                         json.RawMessage // the profile at that time, a JSON object
	Trace                                      string          // the use's; empty: none
	// ErrorMessage and ErrorDetails describe the failure of an errored plan. Nil details: none were given.
	ErrorMessage   string
	ErrorDetails   json.RawMessage
	ReversionCount int
	// LastCompletedStep and LastCheckpointID are the progress. Nil and empty: none was reported.
	LastCompletedStep    *int64
	LastCheckpointID     string
	Version              int64     // counts the transitions, from 1
	Moved                bool      // the call of Plans.Transition that has returned the plan has made the transition
	CancelledAt          time.Time // zero, with an empty CancelReason: it was not
	CancelReason         string
	CreatedAt, UpdatedAt time.Time // by the database's clock
}

// ProjectLink is a project that a plan works on.
type ProjectLink struct {
	Project  string
	Alias    string // unique in the plan; in a UseAction, empty means the project's name
	ReadOnly bool
}

// ArgumentValue is JSON of the argument's type, stored byte for byte.
type ArgumentValue struct {
	Name  string
	Value json.RawMessage
}

// PlanInvariant is a rule that holds for a plan.
type PlanInvariant struct {
	Text   string
	Source string // SourceAction, SourcePlan or a source of the caller's
}

// The sources of invariants and automation profiles that the store sets.
const (
	SourceAction = "action"
	SourcePlan   = "plan"
)

// UseAction describes a plan to create. All of it is optional.
type UseAction struct {
	// Key is the use's idempotency key, at most MaxNameBytes, unique in the session, or without one in the namespace.
	Key string
	// Existing says which plan with this Key is returned: of the same use (empty, ExistingSame) or any (ExistingAny).
	Existing                Existing
	Name                    string    // at most MaxNameBytes, and not allowed with ParentID
	Namespace               string    // empty: the parent's, or without a parent the action's
	ParentID                ID        // a live plan whose child the plan is; zero: none
	SessionID               ID        // the session that the plan is made for, and linked to; zero: none
	Attempt                 int       // zero means 1
	Priority                int       // from 0 to 3: in a namespace, plans of a higher one are claimed first
	NotBefore               time.Time // no claim takes the plan before; zero: now
	Description             string    // empty: the action's
	Projects                []ProjectLink
	Arguments               []ArgumentValue // of names that the action declares, each at most once
	Invariants              []PlanInvariant // added to the action's own; an empty Source means SourcePlan
	AutomationProfile       string          // empty: the action's
	AutomationProfileSource string          // empty: SourcePlan
	AutomationSnapshot      json.RawMessage // an object of at most MaxMetadataBytes; nil: "{}"
	Actor                   string          // recorded in the history; optional
	// of at most 512 bytes, and not read by the store; empty: observe.Tracer's
	Trace string
}

// Cause is the actor, the reason and the conditions of a transition.
type Cause struct {
	// Version is the version that the plan must have. Zero: any.
	Version int64
	Actor   string // at most MaxNameBytes; optional
	// Reason has at most 64 KiB. It is required for TransitionFail and TransitionCancel.
	Reason  string
	Details json.RawMessage // for TransitionFail only: an object of at most MaxMetadataBytes
	// Delay is after what time a plan that is queued is due, at most 10 years. Zero: at once, or after the backoff.
	Delay time.Duration
	Final bool // for TransitionFail only: the plan is errored, also before its last attempt
	// Fence is the fence of the plan's lease: FencedError if a later one was given. Zero: none.
	Fence int64
}

// Progress is the progress of a plan's work. Nil fields are not changed.
type Progress struct {
	CompletedStep *int64  // not negative
	CheckpointID  *string // at most MaxNameBytes
	Fence         int64   // as in Cause
}

// PlanEvent is one transition in a plan's history.
type PlanEvent struct {
	PlanID        ID
	Version       int64 // the plan's after the transition: 1, 2, 3, …
	Transition    Transition
	From, To      Stage // From is zero for TransitionUse
	Actor, Reason string
	CreatedAt     time.Time
}

// PlanFilter selects the plans of a list, of all users of a namespace.
type PlanFilter struct {
	// Namespace: empty means DefaultNamespace, or any when SessionID, ParentID, Project or Action is set
	Namespace           string
	Phase               Phase     // empty: any
	State               PlanState // empty: any
	SessionID, ParentID ID        // at most one of SessionID, ParentID, Project and Action is set
	Project, Action     string
}

// PlanCount says how many plans of a namespace are at a stage.
type PlanCount struct {
	Namespace string
	Stage
	Count  int       // at most 10,001, which stands for more than 10,000
	Oldest time.Time // since when the first one waits that is queued and due; zero: none does
}

// LinkedPlan is a plan that a session is linked to, with its current stage.
type LinkedPlan struct {
	ID        ID
	Namespace string
	Stage
}
