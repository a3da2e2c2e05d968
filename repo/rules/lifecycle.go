package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

var (
	strategizeQueued     = repo.Stage{Phase: repo.PhaseStrategize, State: repo.StateQueued}
	strategizeProcessing = repo.Stage{Phase: repo.PhaseStrategize, State: repo.StateProcessing}
	strategizeComplete   = repo.Stage{Phase: repo.PhaseStrategize, State: repo.StateComplete}
	strategizeErrored    = repo.Stage{Phase: repo.PhaseStrategize, State: repo.StateErrored}
	strategizeCancelled  = repo.Stage{Phase: repo.PhaseStrategize, State: repo.StateCancelled}
	executeQueued        = repo.Stage{Phase: repo.PhaseExecute, State: repo.StateQueued}
	executeProcessing    = repo.Stage{Phase: repo.PhaseExecute, State: repo.StateProcessing}
	executeComplete      = repo.Stage{Phase: repo.PhaseExecute, State: repo.StateComplete}
	executeErrored       = repo.Stage{Phase: repo.PhaseExecute, State: repo.StateErrored}
	executeCancelled     = repo.Stage{Phase: repo.PhaseExecute, State: repo.StateCancelled}
	applyQueued          = repo.Stage{Phase: repo.PhaseApply, State: repo.StateQueued}
	applyProcessing      = repo.Stage{Phase: repo.PhaseApply, State: repo.StateProcessing}
	applyComplete        = repo.Stage{Phase: repo.PhaseApply, State: repo.StateComplete}
	applyErrored         = repo.Stage{Phase: repo.PhaseApply, State: repo.StateErrored}
	applyCancelled       = repo.Stage{Phase: repo.PhaseApply, State: repo.StateCancelled}
	applyApplied         = repo.Stage{Phase: repo.PhaseApply, State: repo.StateApplied}
	applyConstrained     = repo.Stage{Phase: repo.PhaseApply, State: repo.StateConstrained}
)

// lifecycle has every allowed transition: all others are refused. Where a stage
// leads to itself, the plan is already there and stays unchanged.
var lifecycle = map[repo.Transition]map[repo.Stage]repo.Stage{
	repo.TransitionStart: {
		strategizeQueued: strategizeProcessing,
		executeQueued:    executeProcessing,
		applyQueued:      applyProcessing,
	},
	repo.TransitionComplete: {
		strategizeProcessing: strategizeComplete,
		executeProcessing:    executeComplete,
		applyProcessing:      applyApplied,
	},
	repo.TransitionFail: {
		strategizeProcessing: strategizeErrored,
		executeProcessing:    executeErrored,
		applyProcessing:      applyErrored,
	},
	repo.TransitionExecute: reach(strategizeComplete, executeQueued),
	repo.TransitionApply:   reach(executeComplete, applyQueued),
	repo.TransitionConstrain: {
		applyProcessing: applyConstrained,
	},
	repo.TransitionRevert: {
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
	repo.TransitionResume: {
		strategizeErrored: strategizeQueued,
		executeErrored:    executeQueued,
		applyErrored:      applyQueued,
	},
	repo.TransitionCancel: {
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
	// Only a claim makes it. After the last attempt the phase is errored instead: see
	// Expired.
	repo.TransitionExpire: {
		strategizeProcessing: strategizeQueued,
		executeProcessing:    executeQueued,
		applyProcessing:      applyQueued,
	},
}

// reach returns a transition that leaves a plan unchanged at the stage to and after
// it.
func reach(from, to repo.Stage) map[repo.Stage]repo.Stage {
	stages := map[repo.Stage]repo.Stage{from: to}
	for _, stage := range Stages()[slices.Index(Stages(), to):] {
		stages[stage] = stage
	}
	return stages
}

// Stages returns all stages, in order.
func Stages() []repo.Stage {
	return []repo.Stage{
		strategizeQueued, strategizeProcessing, strategizeComplete, strategizeErrored, strategizeCancelled,
		executeQueued, executeProcessing, executeComplete, executeErrored, executeCancelled,
		applyQueued, applyProcessing, applyComplete, applyErrored, applyCancelled, applyApplied, applyConstrained,
	}
}

// Transitions returns all transitions that PlanWriter.Transition makes.
func Transitions() []repo.Transition {
	return []repo.Transition{
		repo.TransitionStart, repo.TransitionComplete, repo.TransitionFail, repo.TransitionExecute, repo.TransitionApply,
		repo.TransitionConstrain, repo.TransitionRevert, repo.TransitionResume, repo.TransitionCancel,
	}
}

// To returns the stage that the transition leads to. It is from itself if the plan
// is already there or past it, and stays unchanged. allowed is false if the
// transition is refused.
func To(transition repo.Transition, from repo.Stage) (to repo.Stage, allowed bool) {
	to, allowed = lifecycle[transition][from]
	return to, allowed
}

// IsThere reports whether a plan is already where the transition leads to, or past it, so
// that the transition changes nothing.
func IsThere(p repo.Plan, transition repo.Transition) bool {
	to, allowed := To(transition, p.Stage)
	return allowed && to == p.Stage
}

// NormalizeCause checks a transition and its cause, and returns the cause as it is
// stored.
func NormalizeCause(c repo.Cause, transition repo.Transition) (repo.Cause, error) {
	known := slices.Contains(Transitions(), transition)
	fails, cancels := transition == repo.TransitionFail, transition == repo.TransitionCancel
	err := cmp.Or(
		invalidIf(!known, "transition", "is not start, complete, fail, execute, apply, constrain, revert, resume or cancel"),
		CheckSequence("version", c.Version),
		checkFence(c.Fence),
		checkNames(name{"actor", c.Actor}),
		checkText("reason", c.Reason, repo.MaxTextBytes),
		invalidIf(c.Reason == "" && (fails || cancels), "reason", "is empty"),
		invalidIf(c.Details != nil && !fails, "details", "are set, but only a failure has them"),
	)
	if err != nil || c.Details == nil {
		return c, err
	}
	return c, normalizeObject("details", &c.Details)
}

// Moved returns the plan as the transition leaves it, with the next version, and
// false if it stays unchanged. The cause is normalized. The store sets the times,
// cancels the descendants of a cancelled plan, and checks the parent
// (NeedsLiveParent). Errors: TransitionConflictError, LimitExceededError.
func Moved(p repo.Plan, transition repo.Transition, cause repo.Cause) (_ repo.Plan, moves bool, _ error) {
	if IsThere(p, transition) { // whichever version the caller expects
		return p, false, nil
	}
	to, allowed := To(transition, p.Stage)
	if !allowed || cause.Version != 0 && cause.Version != p.Version {
		return p, false, Refuse(p, transition)
	}
	if transition == repo.TransitionRevert {
		if p.ReversionCount >= repo.MaxReversions {
			return p, false, &repo.LimitExceededError{Kind: "reversions", ID: p.ID, Limit: repo.MaxReversions}
		}
		p.ReversionCount++
	}
	p.Stage = to
	p.Version++
	switch to.State {
	case repo.StateErrored:
		p.ErrorMessage, p.ErrorDetails = cause.Reason, cause.Details
		p.CancelledAt, p.CancelReason = time.Time{}, ""
	case repo.StateCancelled:
		p.CancelReason = cause.Reason // an error that it has is kept
	default:
		p.ErrorMessage, p.ErrorDetails = "", nil
		p.CancelledAt, p.CancelReason = time.Time{}, ""
	}
	return p, true, nil
}

// Refuse returns the error of a transition that is not allowed for the plan as it
// is.
func Refuse(p repo.Plan, transition repo.Transition) *repo.TransitionConflictError {
	return &repo.TransitionConflictError{PlanID: p.ID, Transition: transition, Stage: p.Stage, Version: p.Version}
}

// NeedsLiveParent reports whether the transition would make a child plan live
// again. Its parent must then be live (CheckParent): otherwise a cancelled tree
// would contain a live plan. p is the plan before the transition.
func NeedsLiveParent(p repo.Plan, transition repo.Transition) bool {
	to, allowed := To(transition, p.Stage)
	return allowed && !p.Live() && to.Live() && !p.ParentID.IsZero()
}

// CheckParent checks that the parent is live, for transitions of a child that need
// that. Errors: TransitionConflictError.
func CheckParent(parent repo.Plan, child repo.ID, transition repo.Transition) error {
	if parent.Live() {
		return nil
	}
	conflict := Refuse(parent, transition)
	conflict.Child = child
	return conflict
}

// Event returns the type of the audit entry that records a transition to a stage.
func Event(t repo.Transition, to repo.Stage) repo.EventType {
	switch {
	case t == repo.TransitionUse:
		return repo.EventPlanCreated
	case t == repo.TransitionCancel:
		return repo.EventPlanCancelled
	case t == repo.TransitionFail, t == repo.TransitionExpire && to.State == repo.StateErrored:
		return repo.EventPlanErrored
	case t == repo.TransitionComplete && to.Phase == repo.PhaseExecute:
		return repo.EventPlanExecuted
	case t == repo.TransitionComplete && to.Phase == repo.PhaseApply:
		return repo.EventPlanApplied
	}
	return repo.EventPlanPhaseChanged
}

// Details returns the details of the audit entry that records a transition: its
// name, the stages before and after it, and the plan's version after it.
func Details(t repo.Transition, from, to repo.Stage, version int64) json.RawMessage {
	return fmt.Appendf(nil, `{"transition":"%s","from":"%s/%s","to":"%s/%s","version":%d}`,
		t, from.Phase, from.State, to.Phase, to.State, version)
}

// CheckProgress checks the fields of a progress.
func CheckProgress(p repo.Progress) error {
	return cmp.Or(
		invalidIf(p.CompletedStep != nil && *p.CompletedStep < 0, "completed_step", "is negative"),
		checkOptionalName("checkpoint_id", p.CheckpointID),
		checkFence(p.Fence),
	)
}
