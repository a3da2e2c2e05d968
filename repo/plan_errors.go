package repo

import "fmt"

// ActionNotFound names an action that does not exist. It is [ErrNotFound].
type ActionNotFound struct{ Name ActionName }

func (e *ActionNotFound) Error() string        { return "action " + e.Name.String() + " not found" }
func (e *ActionNotFound) Is(target error) bool { return target == ErrNotFound }

// ActionConflict says that an action of this name exists with another Field, or
// is at another version than the caller's. It is [ErrConflict].
type ActionConflict struct {
	Name  ActionName
	Field string
	// Version is the stored action's.
	Version int64
}

func (e *ActionConflict) Error() string {
	if e.Field == "version" {
		return fmt.Sprintf("action %s is at version %d", e.Name, e.Version)
	}
	return fmt.Sprintf("action %s already exists with another %s", e.Name, e.Field)
}
func (e *ActionConflict) Is(target error) bool { return target == ErrConflict }

// ActionUnavailable says that the action cannot be used. It is [ErrConflict].
type ActionUnavailable struct {
	Name  ActionName
	State ActionState
}

func (e *ActionUnavailable) Error() string {
	return fmt.Sprintf("action %s is %s", e.Name, e.State)
}
func (e *ActionUnavailable) Is(target error) bool { return target == ErrConflict }

// ActionInUse says that plans were made of the action, so that it cannot be
// deleted. It is [ErrConflict].
type ActionInUse struct{ Name ActionName }

func (e *ActionInUse) Error() string        { return "action " + e.Name.String() + " is in use" }
func (e *ActionInUse) Is(target error) bool { return target == ErrConflict }

// PlanConflict says that a plan with this id exists, and that the use does not
// repeat it: Field names what differs. It is [ErrConflict].
type PlanConflict struct {
	ID    ID
	Field string
}

func (e *PlanConflict) Error() string {
	return fmt.Sprintf("plan %s already exists with another %s", e.ID, e.Field)
}
func (e *PlanConflict) Is(target error) bool { return target == ErrConflict }

// TransitionConflict says that the plan is not where the transition begins, or
// not at the version that the caller knows: it is at Stage and Version. It is
// [ErrConflict].
type TransitionConflict struct {
	PlanID     ID
	Transition Transition
	Stage
	Version int64
	// Child is the plan that was to be moved, where PlanID is its parent, which
	// is not live and so does not allow it. Zero: PlanID itself was to be moved.
	Child ID
}

func (e *TransitionConflict) Error() string {
	if !e.Child.IsZero() {
		return fmt.Sprintf("plan %s: %s is not allowed below plan %s, which is at %s, version %d", e.Child, e.Transition, e.PlanID, e.text(), e.Version)
	}
	return fmt.Sprintf("plan %s: %s is not allowed at %s, version %d", e.PlanID, e.Transition, e.text(), e.Version)
}
func (e *TransitionConflict) Is(target error) bool { return target == ErrConflict }

// LimitExceeded says that there would be more than Limit. It is [ErrLimit].
type LimitExceeded struct {
	// Kind is what is limited: "reversions", "depth", "children".
	Kind  string
	ID    ID
	Limit int
}

func (e *LimitExceeded) Error() string {
	return fmt.Sprintf("plan %s: more than %d %s", e.ID, e.Limit, e.Kind)
}
func (e *LimitExceeded) Is(target error) bool { return target == ErrLimit }

// MissingPlan is the error of an import whose i-th linked plan does not exist.
func MissingPlan(i int, id ID) error {
	return &ImportError{
		Field:  at("linked_plan_ids", i),
		Reason: "does not exist here",
		Err:    &NotFoundError{Kind: "plan", ID: id},
	}
}
