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

var allPhases = []repo.Phase{repo.PhaseStrategize, repo.PhaseExecute, repo.PhaseApply}

// phasesOf returns the phases of an action or a plan, of which none stands for all.
func phasesOf(phases []repo.Phase) []repo.Phase {
	if len(phases) == 0 {
		return allPhases
	}
	return phases
}

// lifecycle has the states that each transition leads from and to, within a phase. All others are refused. Next adds
// what depends on the phase, and the transitions to the next one.
var lifecycle = map[repo.Transition]struct {
	from []repo.PlanState
	to   repo.PlanState
}{
	repo.TransitionStart:     {[]repo.PlanState{repo.PlanQueued}, repo.PlanProcessing},
	repo.TransitionComplete:  {[]repo.PlanState{repo.PlanProcessing}, repo.PlanComplete},
	repo.TransitionFail:      {[]repo.PlanState{repo.PlanProcessing}, repo.PlanErrored},
	repo.TransitionConstrain: {[]repo.PlanState{repo.PlanProcessing}, repo.PlanConstrained},
	repo.TransitionRevert: {[]repo.PlanState{
		repo.PlanQueued, repo.PlanProcessing, repo.PlanComplete, repo.PlanErrored, repo.PlanCancelled, repo.PlanConstrained,
	}, repo.PlanQueued},
	repo.TransitionResume: {[]repo.PlanState{repo.PlanErrored}, repo.PlanQueued},
	repo.TransitionCancel: {[]repo.PlanState{
		repo.PlanQueued, repo.PlanProcessing, repo.PlanComplete, repo.PlanErrored, repo.PlanConstrained,
	}, repo.PlanCancelled},
	repo.TransitionSnooze: {[]repo.PlanState{repo.PlanProcessing}, repo.PlanQueued},
	// Only a claim makes it. After the last attempt the phase is errored instead: see
	// Expired.
	repo.TransitionExpire: {[]repo.PlanState{repo.PlanProcessing}, repo.PlanQueued},
}

// Stages returns all stages, in order. Applied are plans without the phases that follow, too.
func Stages() (stages []repo.Stage) {
	for _, phase := range allPhases {
		for _, state := range []repo.PlanState{
			repo.PlanQueued, repo.PlanProcessing, repo.PlanComplete, repo.PlanErrored, repo.PlanCancelled, repo.PlanApplied,
		} {
			stages = append(stages, repo.Stage{Phase: phase, State: state})
		}
	}
	return append(stages, repo.Stage{Phase: repo.PhaseApply, State: repo.PlanConstrained})
}

// Transitions returns all transitions that Plans.Transition makes.
func Transitions() []repo.Transition {
	return []repo.Transition{
		repo.TransitionStart, repo.TransitionComplete, repo.TransitionFail, repo.TransitionExecute, repo.TransitionApply,
		repo.TransitionConstrain, repo.TransitionRevert, repo.TransitionResume, repo.TransitionCancel,
		repo.TransitionSnooze,
	}
}

// To is Next for a plan with all phases.
func To(transition repo.Transition, from repo.Stage) (to repo.Stage, allowed bool) {
	return Next(repo.Plan{Stage: from}, transition)
}

// Next returns the stage that the transition leads a plan to. It is the plan's own if the plan
// is already there or past it, and stays unchanged. allowed is false if the
// transition is refused.
func Next(p repo.Plan, transition repo.Transition) (to repo.Stage, allowed bool) {
	phases := phasesOf(p.Phases)
	at := slices.Index(phases, p.Phase)
	move := lifecycle[transition]
	to, allowed = repo.Stage{Phase: p.Phase, State: move.to}, slices.Contains(move.from, p.State)
	switch transition {
	case repo.TransitionExecute:
		return enter(p, slices.Index(phases, repo.PhaseExecute), at)
	case repo.TransitionApply:
		return enter(p, slices.Index(phases, repo.PhaseApply), at)
	case repo.TransitionComplete:
		if at == len(phases)-1 {
			to.State = repo.PlanApplied
		}
	case repo.TransitionConstrain:
		allowed = allowed && p.Phase == repo.PhaseApply
	case repo.TransitionRevert:
		to.Phase = phases[0]
		allowed = allowed && (at > 0 || p.State == repo.PlanErrored)
	}
	if !allowed {
		return repo.Stage{}, false
	}
	return to, true
}

// enter leads a plan to the phase at a place, from the phase before. at is the place of the one that it is in.
func enter(p repo.Plan, place, at int) (to repo.Stage, allowed bool) {
	switch {
	case place < 0:
		return to, false
	case at >= place:
		return p.Stage, true
	case at < place-1 || p.State != repo.PlanComplete:
		return to, false
	}
	return repo.Stage{Phase: phasesOf(p.Phases)[place], State: repo.PlanQueued}, true
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
		invalidIf(!known, "transition",
			"is not start, complete, fail, execute, apply, constrain, revert, resume, cancel or snooze"),
		CheckSequence("version", c.Version),
		checkFence(c.Fence),
		checkNames(name{"actor", c.Actor}),
		checkText("reason", c.Reason, limits.MaxTextBytes),
		invalidIf(c.Reason == "" && (fails || cancels), "reason", "is empty"),
		invalidIf(c.Details != nil && !fails, "details", "are set, but only a failure has them"),
		invalidIf(c.Final && !fails, "final", "is set, but only a failure can be"),
		checkDelay("delay", c.Delay),
		invalidIf(c.Delay != 0 && known && !queues(transition), "delay",
			"is set, but the transition does not queue the plan"),
	)
	if err != nil || c.Details == nil {
		return c, err
	}
	return c, normalizeObject("details", &c.Details)
}

// queues reports whether the transition may lead to a queued plan.
func queues(transition repo.Transition) bool {
	switch transition {
	case repo.TransitionExecute, repo.TransitionApply, repo.TransitionFail:
		return true
	}
	return lifecycle[transition].to == repo.PlanQueued
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
	if cause.Version != 0 && cause.Version != p.Version { // also if it is there: another writer has moved it
		return p, false, Refuse(p, transition, cause)
	}
	to, allowed := Next(p, transition)
	switch {
	case !allowed:
		return p, false, Refuse(p, transition, cause)
	case to == p.Stage: // it is there
		return p, false, nil
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
		p.Deadline = time.Time{} // it is wanted now
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
