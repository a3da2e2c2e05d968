package repo

import (
	"errors"
	"fmt"
)

// The sentinels, for errors.Is. Each error of this module is at least one of
// them, or the context's own error.
var (
	// ErrInvalid: a value breaks a rule. Nothing was written. See InvalidError.
	ErrInvalid = errors.New("invalid value")
	// ErrNotFound: the entity does not exist. See NotFoundError.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the stored state is not the one the call needs. See
	// SequenceConflict, SessionConflict, MessageConflict, UsageConflict,
	// ActionConflict, ActionUnavailable, ActionInUse, PlanConflict and TransitionConflict.
	ErrConflict = errors.New("conflict")
	// ErrBudgetExceeded: the cost would pass the session's budget. See
	// BudgetExceeded.
	ErrBudgetExceeded = errors.New("budget exceeded")
	// ErrLimit: there is as much as there may be. See LimitExceeded.
	ErrLimit = errors.New("limit exceeded")
	// ErrImport: a document cannot be imported. See ImportError.
	ErrImport = errors.New("import refused")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrUnavailable: the database cannot be reached, is shutting down, has no
	// room or failed in another way. Nothing was written; the call may be made
	// again.
	ErrUnavailable = errors.New("database unavailable")
	// ErrPermission: the database refuses the login, or the role lacks a right.
	// Nothing was written, and trying again does not help.
	ErrPermission = errors.New("permission denied by the database")
	// ErrContention: the database aborted this transaction because of a conflict
	// with another one (deadlock, serialization failure, lock timeout). Nothing
	// was written; the whole transaction may be run again.
	ErrContention = errors.New("transaction conflicted with another")
	// ErrUnknownOutcome: the connection or the context ended after a write was
	// sent and before its answer came, so that it may or may not have been
	// committed. Making the call again with the same ids is safe: it writes
	// what is missing and returns what is there.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrSchema: the database does not exist, or this library does not work with its
	// schema or with one of its settings. Nothing was written.
	ErrSchema = errors.New("database not usable by this library")
)

// Sentinels returns all of the sentinels, for callers that map each to something of
// their own, such as an HTTP status. An error is at most one of them, except that
// the error of a refused import is also that of its cause.
func Sentinels() []error {
	return []error{
		ErrInvalid, ErrNotFound, ErrConflict, ErrBudgetExceeded, ErrLimit, ErrImport, ErrClosed,
		ErrUnavailable, ErrPermission, ErrContention, ErrUnknownOutcome, ErrSchema,
	}
}

// InvalidError names the value that breaks a rule, and the rule. It is
// [ErrInvalid]. It never holds the value itself.
type InvalidError struct {
	// Field is the path of the value, such as "messages[2].content".
	Field string
	// Reason says what is wrong with it, such as "is empty".
	Reason string
}

func (e *InvalidError) Error() string        { return e.Field + " " + e.Reason }
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(field, reason string, args ...any) *InvalidError {
	if len(args) > 0 {
		reason = fmt.Sprintf(reason, args...)
	}
	return &InvalidError{Field: field, Reason: reason}
}

// InsideTxError is returned by a store that is used with the context of its own
// unit of work ([Store].InTx), where it could wait for itself: for the unit's
// connection, or for a row that the unit has locked. It is [ErrInvalid]. Nothing
// was written.
type InsideTxError struct{}

func (*InsideTxError) Error() string {
	return "store used inside its own unit of work: use the repositories that InTx passes"
}
func (*InsideTxError) Is(target error) bool { return target == ErrInvalid }

// NotFoundError names what does not exist. It is [ErrNotFound].
type NotFoundError struct {
	// Kind is the entity's kind: "session", "message", "plan".
	Kind string
	// ID is the one asked for.
	ID ID
}

func (e *NotFoundError) Error() string        { return e.Kind + " " + e.ID.String() + " not found" }
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// SequenceConflict is returned by an append at a sequence that is not the next
// one. The messages that the caller has missed are those from Expected to Next-1,
// if Expected is below Next. It is [ErrConflict].
type SequenceConflict struct {
	SessionID ID
	// Expected is the caller's sequence, Next the one that the next message
	// would have got.
	Expected, Next int64
}

func (e *SequenceConflict) Error() string {
	return fmt.Sprintf("session %s: expected next sequence %d, but it is %d", e.SessionID, e.Expected, e.Next)
}
func (e *SequenceConflict) Is(target error) bool { return target == ErrConflict }

// SessionConflict says that a session with this id exists. Field names what differs from
// the one to be created; it is empty where an import found the id taken. It is
// [ErrConflict].
type SessionConflict struct {
	ID    ID
	Field string
}

func (e *SessionConflict) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("session %s already exists", e.ID)
	}
	return fmt.Sprintf("session %s already exists with another %s", e.ID, e.Field)
}
func (e *SessionConflict) Is(target error) bool { return target == ErrConflict }

// MessageConflict says that a message with this id is stored in the session, and
// that the append does not repeat it: Field names what differs. The field "batch" means
// that some messages of the batch are stored and others are not. It is
// [ErrConflict].
type MessageConflict struct {
	SessionID, ID ID
	Field         string
}

func (e *MessageConflict) Error() string {
	if e.Field == "batch" {
		return fmt.Sprintf("session %s: message %s is stored already, but others of its batch are not", e.SessionID, e.ID)
	}
	return fmt.Sprintf("session %s: message %s is stored already with another %s", e.SessionID, e.ID, e.Field)
}
func (e *MessageConflict) Is(target error) bool { return target == ErrConflict }

// UsageConflict says that a usage with this id was added to the session with other
// amounts: Field names one that differs. It is [ErrConflict].
type UsageConflict struct {
	SessionID, ID ID
	Field         string
}

func (e *UsageConflict) Error() string {
	return fmt.Sprintf("session %s: usage %s was added already with another %s", e.SessionID, e.ID, e.Field)
}
func (e *UsageConflict) Is(target error) bool { return target == ErrConflict }

// BudgetExceeded says that adding Requested to Cost would pass Budget, so that
// nothing was added. It is [ErrBudgetExceeded].
type BudgetExceeded struct {
	SessionID               ID
	Budget, Cost, Requested Cost
}

func (e *BudgetExceeded) Error() string {
	return fmt.Sprintf("session %s: cost %s + %s would pass the budget of %s", e.SessionID, e.Cost, e.Requested, e.Budget)
}
func (e *BudgetExceeded) Is(target error) bool { return target == ErrBudgetExceeded }

// ImportError says what is wrong with a document. Nothing of it was written.
// It is [ErrImport], and whatever Err is.
type ImportError struct {
	// Field is the path in the document, such as "messages[17].sequence".
	Field string
	// Reason says what is wrong there.
	Reason string
	// Err is the cause, where there is one: an *InvalidError, the reader's own.
	Err error
}

func (e *ImportError) Error() string {
	text := "import: " + e.Field + " " + e.Reason
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}
func (e *ImportError) Is(target error) bool { return target == ErrImport }
func (e *ImportError) Unwrap() error        { return e.Err }
