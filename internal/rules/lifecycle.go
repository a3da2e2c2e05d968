package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

var (
	strategizeQueued     = repo.Stage{Phase: repo.PhaseStrategize, State: repo.PlanQueued}
	strategizeProcessing = repo.Stage{Phase: repo.PhaseStrategize, State: repo.PlanProcessing}
	strategizeComplete   = repo.Stage{Phase: repo.PhaseStrategize, State: repo.PlanComplete}
	strategizeErrored    = repo.Stage{Phase: repo.PhaseStrategize, State: repo.PlanErrored}
	strategizeCancelled  = repo.Stage{Phase: repo.PhaseStrategize, State: repo.PlanCancelled}
	executeQueued        = repo.Stage{Phase: repo.PhaseExecute, State: repo.PlanQueued}
	executeProcessing    = repo.Stage{Phase: repo.PhaseExecute, State: repo.PlanProcessing}
	executeComplete      = repo.Stage{Phase: repo.PhaseExecute, State: repo.PlanComplete}
	executeErrored       = repo.Stage{Phase: repo.PhaseExecute, State: repo.PlanErrored}
	executeCancelled     = repo.Stage{Phase: repo.PhaseExecute, State: repo.PlanCancelled}
	applyQueued          = repo.Stage{Phase: repo.PhaseApply, State: repo.PlanQueued}
	applyProcessing      = repo.Stage{Phase: repo.PhaseApply, State: repo.PlanProcessing}
	applyComplete        = repo.Stage{Phase: repo.PhaseApply, State: repo.PlanComplete}
	applyErrored         = repo.Stage{Phase: repo.PhaseApply, State: repo.PlanErrored}
	applyCancelled       = repo.Stage{Phase: repo.PhaseApply, State: repo.PlanCancelled}
	applyApplied         = repo.Stage{Phase: repo.PhaseApply, State: repo.PlanApplied}
	applyConstrained     = repo.Stage{Phase: repo.PhaseApply, State: repo.PlanConstrained}
	// Of plans without the phases that follow.
	strategizeApplied = repo.Stage{Phase: repo.PhaseStrategize, State: repo.PlanApplied}
	executeApplied    = repo.Stage{Phase: repo.PhaseExecute, State: repo.PlanApplied}
)

var allPhases = []repo.Phase{repo.PhaseStrategize, repo.PhaseExecute, repo.PhaseApply}

// phasesOf returns the phases of an action or a plan, of which none stands for all.
func phasesOf(phases []repo.Phase) []repo.Phase {
	if len(phases) == 0 {
		return allPhases
	}
	return phases
}

// lifecycle has every allowed transition of plans with all phases: all others are refused. Where a stage
// leads to itself, the plan is already there and stays unchanged.
var lifecycle = map[repo.Transition]map[repo.Stage]repo.Stage{
	repo.TransitionStart: inEach(repo.PlanQueued, repo.PlanProcessing),
	repo.TransitionComplete: {
		strategizeProcessing: strategizeComplete,
		executeProcessing:    executeComplete,
		applyProcessing:      applyApplied,
	},
	repo.TransitionFail:      inEach(repo.PlanProcessing, repo.PlanErrored),
	repo.TransitionExecute:   reach(strategizeComplete, executeQueued),
	repo.TransitionApply:     reach(executeComplete, applyQueued),
	repo.TransitionConstrain: {applyProcessing: applyConstrained},
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
	repo.TransitionResume: inEach(repo.PlanErrored, repo.PlanQueued),
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
	repo.TransitionSnooze: inEach(repo.PlanProcessing, repo.PlanQueued),
	// Only a claim makes it. After the last attempt the phase is errored instead: see
	// Expired.
	repo.TransitionExpire: inEach(repo.PlanProcessing, repo.PlanQueued),
}

// inEach returns a transition from a state to another one of the same phase.
func inEach(from, to repo.PlanState) map[repo.Stage]repo.Stage {
	stages := map[repo.Stage]repo.Stage{}
	for _, phase := range allPhases {
		stages[repo.Stage{Phase: phase, State: from}] = repo.Stage{Phase: phase, State: to}
	}
	return stages
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
		strategizeQueued, strategizeProcessing, strategizeComplete, strategizeErrored, strategizeCancelled, strategizeApplied,
		executeQueued, executeProcessing, executeComplete, executeErrored, executeCancelled, executeApplied,
		applyQueued, applyProcessing, applyComplete, applyErrored, applyCancelled, applyApplied, applyConstrained,
	}
}

// Transitions returns all transitions that Plans.Transition makes.
func Transitions() []repo.Transition {
	return []repo.Transition{
		repo.TransitionStart, repo.TransitionComplete, repo.TransitionFail, repo.TransitionExecute, repo.TransitionApply,
		repo.TransitionConstrain, repo.TransitionRevert, repo.TransitionResume, repo.TransitionCancel,
		repo.TransitionSnooze,
	}
}

// To returns the stage that the transition leads a plan with all phases to. It is from itself if the plan
// is already there or past it, and stays unchanged. allowed is false if the
// transition is refused.
func To(transition repo.Transition, from repo.Stage) (to repo.Stage, allowed bool) {
	to, allowed = lifecycle[transition][from]
	return to, allowed
}

// Next is To for a plan that may have some of the phases only.
func Next(p repo.Plan, transition repo.Transition) (to repo.Stage, allowed bool) {
	to, allowed = To(transition, p.Stage)
	if len(p.Phases) == 0 {
		return to, allowed
	}
	at := slices.Index(p.Phases, p.Phase)
	switch transition {
	case repo.TransitionExecute:
		return enter(p, at, repo.PhaseExecute)
	case repo.TransitionApply:
		return enter(p, at, repo.PhaseApply)
	case repo.TransitionComplete:
		if allowed && at == len(p.Phases)-1 {
			to.State = repo.PlanApplied
		}
	case repo.TransitionRevert:
		if at == 0 && p.State != repo.PlanErrored || !allowed {
			return repo.Stage{}, false
		}
		to.Phase = p.Phases[0]
	}
	return to, allowed
}

// enter leads a plan from the phase before to a phase. at is the place of the one that it is in.
func enter(p repo.Plan, at int, phase repo.Phase) (to repo.Stage, allowed bool) {
	place := slices.Index(p.Phases, phase)
	switch {
	case place < 0:
		return to, false
	case at >= place:
		return p.Stage, true
	}
	return repo.Stage{Phase: phase, State: repo.PlanQueued}, at == place-1 && p.State == repo.PlanComplete
}

// IsThere reports whether a plan is already where the transition leads to, or past it, so
// that the transition changes nothing.
func IsThere(p repo.Plan, transition repo.Transition) bool {
	to, allowed := Next(p, transition)
	return allowed && to == p.Stage
}

// NormalizeCause checks a transition and its cause, and returns the cause as it is
// stored.
func NormalizeCause(c repo.Cause, transition repo.Transition) (repo.Cause, error) {
	known := slices.Contains(Transitions(), transition)
	fails, cancels := transition == repo.TransitionFail, transition == repo.TransitionCancel
	err := cmp.Or(
		invalidIf(!known, "transition", "is not start, complete, fail, execute, apply, constrain, revert, resume, cancel or snooze"),
		CheckSequence("version", c.Version),
		checkFence(c.Fence),
		checkNames(name{"actor", c.Actor}),
		checkText("reason", c.Reason, limits.MaxTextBytes),
		invalidIf(c.Reason == "" && (fails || cancels), "reason", "is empty"),
		invalidIf(c.Details != nil && !fails, "details", "are set, but only a failure has them"),
		invalidIf(c.Final && !fails, "final", "is set, but only a failure can be"),
		checkDelay("delay", c.Delay),
		invalidIf(c.Delay != 0 && known && !queues(transition), "delay", "is set, but the transition does not queue the plan"),
	)
	if err != nil || c.Details == nil {
		return c, err
	}
	return c, normalizeObject("details", &c.Details)
}

// queues reports whether the transition may lead to a queued plan.
func queues(transition repo.Transition) bool {
	for _, to := range lifecycle[transition] {
		if to.State == repo.PlanQueued {
			return true
		}
	}
	return transition == repo.TransitionFail
}

// DelayOf returns how long a plan that was moved is not due. The pauses after failures are
// scattered, so that what has failed together is not tried again together.
func DelayOf(moved repo.Plan, transition repo.Transition, cause repo.Cause) time.Duration {
	switch {
	case moved.State != repo.PlanQueued:
		return 0
	case cause.Delay == 0 && transition == repo.TransitionFail:
		pause := limits.MaxBackoff
		if failed := moved.Attempt - 2; failed < 12 {
			pause = min(limits.FirstBackoff<<max(failed, 0), limits.MaxBackoff)
		}
		return pause/2 + rand.N(pause)
	}
	return cause.Delay
}

// Moved returns the plan as the transition leaves it, with the next version, and
// false if it stays unchanged. The cause is normalized. The store sets the times,
// cancels the descendants of a cancelled plan, and checks the parent
// (NeedsLiveParent). Errors: TransitionConflictError, LimitExceededError.
func Moved(p repo.Plan, transition repo.Transition, cause repo.Cause) (_ repo.Plan, moves bool, _ error) {
	if cause.Version != 0 && cause.Version != p.Version { // also if it is there: somebody else has moved it
		return p, false, Refuse(p, transition, cause)
	}
	if IsThere(p, transition) {
		return p, false, nil
	}
	to, allowed := Next(p, transition)
	if !allowed {
		return p, false, Refuse(p, transition, cause)
	}
	if transition == repo.TransitionRevert {
		if p.ReversionCount >= limits.MaxReversions {
			return p, false, &repo.LimitExceededError{Kind: "reversions", ID: p.ID, Limit: limits.MaxReversions}
		}
		p.ReversionCount++
	}
	switch transition {
	case repo.TransitionFail:
		if p.Attempt < p.MaxAttempts && !cause.Final {
			p.Attempt++
			to.State = repo.PlanQueued
		}
	case repo.TransitionResume, repo.TransitionRevert, repo.TransitionExecute, repo.TransitionApply:
		p.Deadline = time.Time{} // somebody wants it now
	}
	if to.State == repo.PlanQueued && !p.Deadline.IsZero() && cause.Delay > 0 { // or it would never run
		p.Deadline = later(p.Deadline, cause.Delay)
	}
	p.Stage, p.NotBefore = to, time.Time{}
	p.Version++
	switch to.State {
	case repo.PlanErrored:
		p.ErrorMessage, p.ErrorDetails = cause.Reason, cause.Details
		p.CancelledAt, p.CancelReason = time.Time{}, ""
	case repo.PlanCancelled:
		p.CancelReason = cause.Reason // an error that it has is kept
	default:
		p.ErrorMessage, p.ErrorDetails = "", nil
		p.CancelledAt, p.CancelReason = time.Time{}, ""
	}
	return p, true, nil
}

// Refuse returns the error of a transition that is not allowed for the plan as it
// is. It says that the version is why if the cause has another one.
func Refuse(p repo.Plan, transition repo.Transition, cause repo.Cause) *repo.TransitionConflictError {
	refused := &repo.TransitionConflictError{PlanID: p.ID, Transition: transition, Stage: p.Stage, Version: p.Version}
	if cause.Version != p.Version {
		refused.Expected = cause.Version
	}
	return refused
}

// NeedsLiveParent reports whether the transition would make a child plan live
// again. Its parent must then be live (CheckParent): otherwise a cancelled tree
// would contain a live plan. p is the plan before the transition.
func NeedsLiveParent(p repo.Plan, transition repo.Transition) bool {
	to, allowed := Next(p, transition)
	return allowed && !p.Live() && to.Live() && !p.ParentID.IsZero()
}

// CheckParent checks that the parent is live, for transitions of a child that need
// that. Errors: TransitionConflictError.
func CheckParent(parent repo.Plan, child repo.ID, transition repo.Transition) error {
	if parent.Live() {
		return nil
	}
	conflict := Refuse(parent, transition, repo.Cause{})
	conflict.Child = child
	return conflict
}

// Event returns the type of the audit entry that records a transition to a stage.
func Event(t repo.Transition, to repo.Stage) string {
	switch {
	case t == repo.TransitionUse:
		return events.PlanCreated
	case t == repo.TransitionCancel:
		return events.PlanCancelled
	case to.State == repo.PlanErrored && (t == repo.TransitionFail || t == repo.TransitionExpire):
		return events.PlanErrored
	case to.State == repo.PlanApplied:
		return events.PlanApplied
	case t == repo.TransitionComplete && to.Phase == repo.PhaseExecute:
		return events.PlanExecuted
	}
	return events.PlanPhaseChanged
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
