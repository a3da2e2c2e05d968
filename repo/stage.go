package repo

// Phase is the part of its work that a plan is in.
type Phase string

// The phases, in their order.
const (
	PhaseStrategize Phase = "strategize"
	PhaseExecute    Phase = "execute"
	PhaseApply      Phase = "apply"
)

// PlanState is a plan's state in its phase.
type PlanState string

// The states. Applied: the last phase is complete. Constrained: only in apply.
const (
	PlanQueued      PlanState = "queued"
	PlanProcessing  PlanState = "processing"
	PlanComplete    PlanState = "complete"
	PlanErrored     PlanState = "errored"
	PlanCancelled   PlanState = "cancelled"
	PlanApplied     PlanState = "applied"
	PlanConstrained PlanState = "constrained"
)

// Stage is a plan's phase and its state in that phase.
type Stage struct {
	Phase Phase
	State PlanState
}

// text returns "phase/state". It is not named String because Plan embeds Stage, and
// would be printed as its stage.
func (s Stage) text() string { return string(s.Phase) + "/" + string(s.State) }

// Live reports whether a plan at this stage is neither applied nor cancelled.
func (s Stage) Live() bool { return s.State != PlanApplied && s.State != PlanCancelled }

// Transition moves a plan from one stage to another.
type Transition string

// The transitions. TransitionUse appears only in the history, TransitionProgress only in conflicts.
// TransitionExpire, of Plans.Claim and Plans.Sweep only, ends a claim whose lease has expired, or the waiting of a
// plan at its deadline. TransitionFail queues a plan again, unless that was its last attempt; TransitionSnooze
// counts none.
const (
	TransitionUse       Transition = "use"
	TransitionProgress  Transition = "progress"
	TransitionStart     Transition = "start"
	TransitionComplete  Transition = "complete"
	TransitionFail      Transition = "fail"
	TransitionExecute   Transition = "execute"
	TransitionApply     Transition = "apply"
	TransitionConstrain Transition = "constrain"
	TransitionRevert    Transition = "revert"
	TransitionResume    Transition = "resume"
	TransitionCancel    Transition = "cancel"
	TransitionExpire    Transition = "expire"
	TransitionSnooze    Transition = "snooze"
)
