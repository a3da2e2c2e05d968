package repo

import "fmt"

// ActionNotFoundError names an action that does not exist. It matches [ErrNotFound].
type ActionNotFoundError struct{ Name ActionName }

func (e *ActionNotFoundError) Error() string        { return "action " + e.Name.String() + " not found" }
func (e *ActionNotFoundError) Is(target error) bool { return target == ErrNotFound }

// ActionConflictError reports that an action of this name exists with another Field,
// or has a version other than the caller's. It matches [ErrConflict].
type ActionConflictError struct {
	Name  ActionName
	Field string
	// Version is the stored action's version.
	Version int64
}

func (e *ActionConflictError) Error() string {
	if e.Field == "version" {
		return fmt.Sprintf("action %s is at version %d", e.Name, e.Version)
	}
	return fmt.Sprintf("action %s already exists with another %s", e.Name, e.Field)
}
func (e *ActionConflictError) Is(target error) bool { return target == ErrConflict }

// ActionUnavailableError reports that the action cannot be used. It matches
// [ErrConflict].
type ActionUnavailableError struct {
	Name  ActionName
	State ActionState
}

func (e *ActionUnavailableError) Error() string {
	return fmt.Sprintf("action %s is %s", e.Name, e.State)
}
func (e *ActionUnavailableError) Is(target error) bool { return target == ErrConflict }

// ActionInUseError reports that the action has plans, so that it cannot be deleted.
// It matches [ErrConflict].
type ActionInUseError struct{ Name ActionName }

func (e *ActionInUseError) Error() string        { return "action " + e.Name.String() + " is in use" }
func (e *ActionInUseError) Is(target error) bool { return target == ErrConflict }

// PlanConflictError reports that a use's key is that of the plan with this id, which differs
// from the one to create: Field names a field that differs. It matches [ErrConflict].
type PlanConflictError struct {
	ID    ID
	Field string
}

func (e *PlanConflictError) Error() string {
	return fmt.Sprintf("plan %s already exists with another %s", e.ID, e.Field)
}
func (e *PlanConflictError) Is(target error) bool { return target == ErrConflict }

// TransitionConflictError reports that the plan's stage does not allow the
// transition, or that its version is not the caller's. Stage and Version are the
// plan's own. It matches [ErrConflict].
type TransitionConflictError struct {
	PlanID     ID
	Transition Transition
	Stage
	Version int64
	// Child is set if PlanID's child was to make the transition, and PlanID does
	// not allow it because it is not live. Zero: the transition was PlanID's own.
	Child ID
}

func (e *TransitionConflictError) Error() string {
	if !e.Child.IsZero() {
		return fmt.Sprintf("plan %s: %s is not allowed below plan %s, which is at %s, version %d", e.Child, e.Transition, e.PlanID, e.text(), e.Version)
	}
	return fmt.Sprintf("plan %s: %s is not allowed at %s, version %d", e.PlanID, e.Transition, e.text(), e.Version)
}
func (e *TransitionConflictError) Is(target error) bool { return target == ErrConflict }

// LimitExceededError reports that there would be more than Limit. It matches
// [ErrLimit].
type LimitExceededError struct {
	// Kind is what is limited: "reversions", "depth", "children".
	Kind  string
	ID    ID
	Limit int
}

func (e *LimitExceededError) Error() string {
	return fmt.Sprintf("plan %s: more than %d %s", e.ID, e.Limit, e.Kind)
}
func (e *LimitExceededError) Is(target error) bool { return target == ErrLimit }
