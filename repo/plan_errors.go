package repo

import "fmt"

// TransitionConflictError reports that the plan's stage or version does not allow it.
type TransitionConflictError struct {
	PlanID     ID
	Transition Transition
	Stage            // the plan's own
	Version    int64 // the plan's own
	Expected   int64 // the caller's Cause.Version, if that is not the plan's; zero: the stage is why
	Child      ID    // set if PlanID's child was to make the transition, and PlanID, which is not live, does not allow it
}

func (e *TransitionConflictError) Error() string {
	if !e.Child.IsZero() {
		return fmt.Sprintf("plan %s: %s is not allowed below plan %s, which is at %s, version %d", e.Child, e.Transition,
			e.PlanID, e.text(), e.Version)
	}
	if e.Expected != 0 {
		return fmt.Sprintf("plan %s: %s expects version %d, but it is at %s, version %d", e.PlanID, e.Transition, e.Expected,
			e.text(), e.Version)
	}
	return fmt.Sprintf("plan %s: %s is not allowed at %s, version %d", e.PlanID, e.Transition, e.text(), e.Version)
}
func (e *TransitionConflictError) Is(target error) bool { return target == ErrConflict }
