package repo

import (
	"errors"
	"fmt"
)

// The sentinels, for errors.Is. Each error of this module matches at least one of
// them, or is the context's own error.
var (
	// ErrInvalid: a value is invalid. Nothing was written. See InvalidError.
	ErrInvalid = errors.New("invalid value")
	// ErrNotFound: the entity does not exist. See NotFoundError, SessionDeletedError,
	// StateNotFoundError and StreamNotFoundError.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the stored state does not allow the call. See
	// SequenceConflictError, SessionConflictError, SessionVersionError, MessageConflictError, UsageConflictError,
	// TurnConflictError, StateConflictError, StateTypeError,
	// LeaseConflictError, LeaseLostError, StreamFencedError, StreamEndedError, StreamSequenceError,
	// ActionConflictError, ActionUnavailableError, ActionInUseError, PlanConflictError, TransitionConflictError and
	// AuditConflictError.
	ErrConflict = errors.New("conflict")
	// ErrBudgetExceeded: the cost would exceed the session's budget. See
	// BudgetExceededError.
	ErrBudgetExceeded = errors.New("budget exceeded")
	// ErrLimit: a limit is reached. See LimitExceededError and StateLimitError.
	ErrLimit = errors.New("limit exceeded")
	// ErrImport: a document cannot be imported. See ImportError.
	ErrImport = errors.New("import refused")
	// ErrStreamGone: the stream has expired. See StreamGoneError.
	ErrStreamGone = errors.New("stream is gone")
	// ErrStreamFailed: the writer of the stream has ended it as failed. See
	// StreamFailedError.
	ErrStreamFailed = errors.New("stream failed")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrUnavailable: the database cannot be reached, is shutting down, has no
	// room or failed in another way; or this machine has no room for the temporary
	// file of an import. Nothing was written; the call may be repeated.
	ErrUnavailable = errors.New("database unavailable")
	// ErrPermission: the database refuses the login, or the role lacks a privilege.
	// Nothing was written, and repeating the call does not help.
	ErrPermission = errors.New("permission denied by the database")
	// ErrContention: the database aborted this transaction because of a conflict
	// with another one (deadlock, serialization failure, lock timeout). Nothing
	// was written; the whole transaction may be run again.
	ErrContention = errors.New("transaction conflicted with another")
	// ErrUnknownOutcome: the connection or the context ended after a write was
	// sent and before its answer arrived, so that it may or may not have been
	// committed. Repeating the call with the same ids is safe: it writes what is
	// missing and returns what is stored.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrSchema: the database does not exist, or this library does not work with its
	// schema or with one of its settings. Nothing was written.
	ErrSchema = errors.New("database not usable by this library")
)

// Sentinels returns all sentinels, for callers that map each of them, for example to
// an HTTP status. An error matches at most one of them, except that the error of a
// refused import also matches its cause.
func Sentinels() []error {
	return []error{
		ErrInvalid, ErrNotFound, ErrConflict, ErrBudgetExceeded, ErrLimit, ErrImport, ErrStreamGone, ErrStreamFailed, ErrClosed,
		ErrUnavailable, ErrPermission, ErrContention, ErrUnknownOutcome, ErrSchema,
	}
}

// InvalidError names an invalid value, and the rule that it breaks. It matches
// [ErrInvalid]. It never contains the value itself.
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
// transaction ([Store].InTx), because it could wait for itself: for the
// transaction's connection, or for a row that the transaction has locked. It
// matches [ErrInvalid]. Nothing was written.
type InsideTxError struct{}

func (*InsideTxError) Error() string {
	return "store used inside its own transaction: use the repositories that InTx passes"
}
func (*InsideTxError) Is(target error) bool { return target == ErrInvalid }

// NotFoundError names an entity that does not exist. It matches [ErrNotFound].
type NotFoundError struct {
	// Kind is the entity's kind: "session", "message", "plan".
	Kind string
	// ID is the requested id. Zero: a session was requested by a key that none has.
	ID ID
	// Key is the requested key, if the caller gave one ([SessionReader].Find, [ByKey]).
	Key SessionKey
}

func (e *NotFoundError) Error() string {
	if e.Key != (SessionKey{}) {
		return fmt.Sprintf("%s with the key %q in namespace %q not found", e.Kind, e.Key.Key, e.Key.namespace())
	}
	return e.Kind + " " + e.ID.String() + " not found"
}
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// SessionDeletedError ends [MessageReader].Follow when the session has been deleted.
// It matches [ErrNotFound].
type SessionDeletedError struct {
	SessionID ID
}

func (e *SessionDeletedError) Error() string {
	return fmt.Sprintf("session %s was deleted", e.SessionID)
}

func (e *SessionDeletedError) Is(target error) bool { return target == ErrNotFound }

// SequenceConflictError is returned by an append at a sequence that is not the next
// one. If Expected is below Next, the caller has missed the messages from Expected
// to Next-1. It matches [ErrConflict].
type SequenceConflictError struct {
	SessionID ID
	// Expected is the caller's sequence, Next the session's actual next one.
	Expected, Next int64
}

func (e *SequenceConflictError) Error() string {
	return fmt.Sprintf("session %s: expected next sequence %d, but it is %d", e.SessionID, e.Expected, e.Next)
}
func (e *SequenceConflictError) Is(target error) bool { return target == ErrConflict }

// SessionConflictError reports that a session with this id exists, or was deleted. Field
// names a field that differs from the session to create: "id" if another one has its key;
// it is empty if the session must be new ([ExistingNone]), or was deleted. It matches
// [ErrConflict].
type SessionConflictError struct {
	ID    ID
	Field string
	// Deleted: the session with this id was deleted, and no other gets its id.
	Deleted bool
}

func (e *SessionConflictError) Error() string {
	switch {
	case e.Deleted:
		return fmt.Sprintf("session %s was deleted", e.ID)
	case e.Field == "":
		return fmt.Sprintf("session %s already exists", e.ID)
	case e.Field == "id":
		return fmt.Sprintf("session %s already has the key", e.ID)
	}
	return fmt.Sprintf("session %s already exists with another %s", e.ID, e.Field)
}
func (e *SessionConflictError) Is(target error) bool { return target == ErrConflict }

// SessionVersionError is returned by an update of a session that is not at the
// version that the update expects: somebody else has updated it. It matches
// [ErrConflict].
type SessionVersionError struct {
	ID ID
	// Expected is the caller's version, Actual the session's.
	Expected, Actual int64
}

func (e *SessionVersionError) Error() string {
	return fmt.Sprintf("session %s: expected version %d, but it is %d", e.ID, e.Expected, e.Actual)
}
func (e *SessionVersionError) Is(target error) bool { return target == ErrConflict }

// MessageConflictError reports that a message with this id is stored in the session
// and differs from the one to append: Field names a field that differs. The field
// "batch" means that some messages of the batch are stored and others are not, and
// "turn" that the message was stored by another append or turn. It matches
// [ErrConflict].
type MessageConflictError struct {
	SessionID, ID ID
	Field         string
}

func (e *MessageConflictError) Error() string {
	if e.Field == "batch" {
		return fmt.Sprintf("session %s: message %s is stored already, but others of its batch are not", e.SessionID, e.ID)
	}
	return fmt.Sprintf("session %s: message %s is stored already with another %s", e.SessionID, e.ID, e.Field)
}
func (e *MessageConflictError) Is(target error) bool { return target == ErrConflict }

// UsageConflictError reports that a usage with this id was added to the session with
// other amounts: Field names one that differs. It matches [ErrConflict].
type UsageConflictError struct {
	SessionID, ID ID
	Field         string
}

func (e *UsageConflictError) Error() string {
	return fmt.Sprintf("session %s: usage %s was added already with another %s", e.SessionID, e.ID, e.Field)
}
func (e *UsageConflictError) Is(target error) bool { return target == ErrConflict }

// TurnConflictError reports that a turn with this id is stored in the session, and
// has other messages, changes of state or usage. It matches [ErrConflict].
type TurnConflictError struct {
	SessionID ID
	ID        string
}

func (e *TurnConflictError) Error() string {
	return fmt.Sprintf("session %s: turn %q is stored already with other contents", e.SessionID, e.ID)
}
func (e *TurnConflictError) Is(target error) bool { return target == ErrConflict }

// AuditConflictError reports that an entry of the audit trail has this id, and another
// content. It matches [ErrConflict].
type AuditConflictError struct {
	ID ID
}

func (e *AuditConflictError) Error() string {
	return fmt.Sprintf("audit entry %s is recorded already with other contents", e.ID)
}
func (e *AuditConflictError) Is(target error) bool { return target == ErrConflict }

// BudgetExceededError reports that adding Requested to Cost would exceed Budget, so
// that nothing was added. It matches [ErrBudgetExceeded].
type BudgetExceededError struct {
	SessionID               ID
	Budget, Cost, Requested Cost
}

func (e *BudgetExceededError) Error() string {
	return fmt.Sprintf("session %s: cost %s + %s would pass the budget of %s", e.SessionID, e.Cost, e.Requested, e.Budget)
}
func (e *BudgetExceededError) Is(target error) bool { return target == ErrBudgetExceeded }

// ImportError reports what is wrong with a document. Nothing of it was written.
// It matches [ErrImport] and whatever Err matches.
type ImportError struct {
	// Field is the path in the document, such as "messages[17].sequence".
	Field string
	// Reason says what is wrong there.
	Reason string
	// Err is the cause, if there is one: an *InvalidError, or the reader's error.
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
