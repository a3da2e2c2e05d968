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

// The states. Applied and constrained exist only in the phase apply.
const (
	StateQueued      PlanState = "queued"
	StateProcessing  PlanState = "processing"
	StateComplete    PlanState = "complete"
	StateErrored     PlanState = "errored"
	StateCancelled   PlanState = "cancelled"
	StateApplied     PlanState = "applied"
	StateConstrained PlanState = "constrained"
)

// Stage is a plan's phase and its state in that phase.
type Stage struct {
	Phase Phase
	State PlanState
}

// text returns "phase/state". It is not named String because Plan embeds Stage, and
// would be printed as its stage.
func (s Stage) text() string { return string(s.Phase) + "/" + string(s.State) }

// Live reports whether a plan at this stage can still do work of its own: it is
// neither applied nor cancelled.
func (s Stage) Live() bool { return s.State != StateApplied && s.State != StateCancelled }

// Transition moves a plan from one stage to another.
type Transition string

// The transitions. TransitionUse creates a plan; it appears only in the history.
// TransitionProgress appears only in conflicts, for progress that was refused.
// TransitionExpire ends a claim whose lease has expired: only PlanWriter.Claim makes it.
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
)
