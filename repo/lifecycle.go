package repo

import (
	"encoding/json"
	"fmt"
)

// Phase is the part of its work that a plan is in.
type Phase string

// The phases, in their order.
const (
	PhaseStrategize Phase = "strategize"
	PhaseExecute    Phase = "execute"
	PhaseApply      Phase = "apply"
)

// PlanState is how far a plan has come in its phase.
type PlanState string

// The states. Applied and constrained exist in the phase apply alone.
const (
	StateQueued      PlanState = "queued"
	StateProcessing  PlanState = "processing"
	StateComplete    PlanState = "complete"
	StateErrored     PlanState = "errored"
	StateCancelled   PlanState = "cancelled"
	StateApplied     PlanState = "applied"
	StateConstrained PlanState = "constrained"
)

// Stage is where a plan stands: a phase and a state of it.
type Stage struct {
	Phase Phase
	State PlanState
}

// text is "phase/state". It is not named String because Plan embeds Stage, and
// would be printed as its stage.
func (s Stage) text() string { return string(s.Phase) + "/" + string(s.State) }

// Valid reports whether the state exists in the phase.
func (s Stage) Valid() bool {
	switch s.State {
	case StateQueued, StateProcessing, StateComplete, StateErrored, StateCancelled:
		return s.Phase == PhaseStrategize || s.Phase == PhaseExecute || s.Phase == PhaseApply
	case StateApplied, StateConstrained:
		return s.Phase == PhaseApply
	}
	return false
}

// Live reports whether a plan at this stage can still do work of its own: it is
// neither applied nor cancelled.
func (s Stage) Live() bool { return s.State != StateApplied && s.State != StateCancelled }

// Stages returns all stages, in order.
func Stages() []Stage {
	return []Stage{
		strategizeQueued, strategizeProcessing, strategizeComplete, strategizeErrored, strategizeCancelled,
		executeQueued, executeProcessing, executeComplete, executeErrored, executeCancelled,
		applyQueued, applyProcessing, applyComplete, applyErrored, applyCancelled, applyApplied, applyConstrained,
	}
}

// Transition moves a plan from one stage to another.
type Transition string

// The transitions. TransitionUse is how a plan begins; it is in the history
// only. TransitionProgress is in conflicts only: progress that was refused.
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
)

// Transitions returns all that PlanWriter.Transition makes.
func Transitions() []Transition {
	return []Transition{
		TransitionStart, TransitionComplete, TransitionFail, TransitionExecute, TransitionApply,
		TransitionConstrain, TransitionRevert, TransitionResume, TransitionCancel,
	}
}

var (
	strategizeQueued     = Stage{PhaseStrategize, StateQueued}
	strategizeProcessing = Stage{PhaseStrategize, StateProcessing}
	strategizeComplete   = Stage{PhaseStrategize, StateComplete}
	strategizeErrored    = Stage{PhaseStrategize, StateErrored}
	strategizeCancelled  = Stage{PhaseStrategize, StateCancelled}
	executeQueued        = Stage{PhaseExecute, StateQueued}
	executeProcessing    = Stage{PhaseExecute, StateProcessing}
	executeComplete      = Stage{PhaseExecute, StateComplete}
	executeErrored       = Stage{PhaseExecute, StateErrored}
	executeCancelled     = Stage{PhaseExecute, StateCancelled}
	applyQueued          = Stage{PhaseApply, StateQueued}
	applyProcessing      = Stage{PhaseApply, StateProcessing}
	applyComplete        = Stage{PhaseApply, StateComplete}
	applyErrored         = Stage{PhaseApply, StateErrored}
	applyCancelled       = Stage{PhaseApply, StateCancelled}
	applyApplied         = Stage{PhaseApply, StateApplied}
	applyConstrained     = Stage{PhaseApply, StateConstrained}
)

// lifecycle has every allowed transition: any other is refused. A stage that leads
// to itself is the answer "already there": the plan stays as it is.
var lifecycle = map[Transition]map[Stage]Stage{
	TransitionStart: {
		strategizeQueued: strategizeProcessing,
		executeQueued:    executeProcessing,
		applyQueued:      applyProcessing,
	},
	TransitionComplete: {
		strategizeProcessing: strategizeComplete,
		executeProcessing:    executeComplete,
		applyProcessing:      applyApplied,
	},
	TransitionFail: {
		strategizeProcessing: strategizeErrored,
		executeProcessing:    executeErrored,
		applyProcessing:      applyErrored,
	},
	TransitionExecute: {
		strategizeComplete: executeQueued,

		executeQueued:     executeQueued,
		executeProcessing: executeProcessing,
		executeComplete:   executeComplete,
		executeErrored:    executeErrored,
		executeCancelled:  executeCancelled,
		applyQueued:       applyQueued,
		applyProcessing:   applyProcessing,
		applyComplete:     applyComplete,
		applyErrored:      applyErrored,
		applyCancelled:    applyCancelled,
		applyApplied:      applyApplied,
		applyConstrained:  applyConstrained,
	},
	TransitionApply: {
		executeComplete: applyQueued,

		applyQueued:      applyQueued,
		applyProcessing:  applyProcessing,
		applyComplete:    applyComplete,
		applyErrored:     applyErrored,
		applyCancelled:   applyCancelled,
		applyApplied:     applyApplied,
		applyConstrained: applyConstrained,
	},
	TransitionConstrain: {
		applyProcessing: applyConstrained,
	},
	TransitionRevert: {
		strategizeErrored: strategizeQueued,
		executeQueued:     strategizeQueued,
		executeProcessing: strategizeQueued,
		executeComplete:   strategizeQueued,
		executeErrored:    strategizeQueued,
		executeCancelled:  strategizeQueued,
		applyQueued:       strategizeQueued,
		applyProcessing:   strategizeQueued,
		applyComplete:     strategizeQueued,
		applyErrored:      strategizeQueued,
		applyCancelled:    strategizeQueued,
		applyConstrained:  strategizeQueued,
	},
	TransitionResume: {
		strategizeErrored: strategizeQueued,
		executeErrored:    executeQueued,
		applyErrored:      applyQueued,
	},
	TransitionCancel: {
		strategizeQueued:     strategizeCancelled,
		strategizeProcessing: strategizeCancelled,
		strategizeComplete:   strategizeCancelled,
		strategizeErrored:    strategizeCancelled,
		executeQueued:        executeCancelled,
		executeProcessing:    executeCancelled,
		executeComplete:      executeCancelled,
		executeErrored:       executeCancelled,
		applyQueued:          applyCancelled,
		applyProcessing:      applyCancelled,
		applyComplete:        applyCancelled,
		applyErrored:         applyCancelled,
		applyConstrained:     applyCancelled,
	},
}

// Event returns the type of the audit entry that records a transition to a stage.
func (t Transition) Event(to Stage) EventType {
	switch {
	case t == TransitionUse:
		return EventPlanCreated
	case t == TransitionCancel:
		return EventPlanCancelled
	case t == TransitionFail:
		return EventPlanErrored
	case t == TransitionComplete && to.Phase == PhaseExecute:
		return EventPlanExecuted
	case t == TransitionComplete && to.Phase == PhaseApply:
		return EventPlanApplied
	}
	return EventPlanPhaseChanged
}

// Details returns the details of the audit entry that records a transition: its
// name, the stages before and after it, and the plan's version after it.
func (t Transition) Details(from, to Stage, version int64) json.RawMessage {
	return fmt.Appendf(nil, `{"transition":"%s","from":"%s","to":"%s","version":%d}`, t, from.text(), to.text(), version)
}

// To returns the stage that the transition leads to from a stage; from itself
// when the plan is already there or past it and stays as it is. Without allowed
// the transition is refused.
func (t Transition) To(from Stage) (to Stage, allowed bool) {
	to, allowed = lifecycle[t][from]
	return to, allowed
}
