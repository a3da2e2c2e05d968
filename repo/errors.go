package repo

import (
	"errors"
	"fmt"
)

// The sentinels. After all but ErrUnknownOutcome nothing was written.
var (
	ErrInvalid      = errors.New("invalid value")  // a value is invalid: InvalidError
	ErrNotFound     = errors.New("not found")      // NotFoundError
	ErrGone         = errors.New("gone")           // also ErrNotFound: it has existed
	ErrConflict     = errors.New("conflict")       // what is stored does not allow the call: all types not named here
	ErrLimit        = errors.New("limit exceeded") // LimitExceededError
	ErrImport       = errors.New("import refused") // ImportError
	ErrStreamFailed = errors.New("stream failed")  // its writer has ended it as failed: StreamFailedError
	ErrClosed       = errors.New("store is closed")
	// ErrUnavailable: the database cannot be reached, has no room or failed in another way. The call may be repeated.
	ErrUnavailable = errors.New("database unavailable")
	// ErrPermission: the database refuses the login, or the role lacks a privilege.
	ErrPermission = errors.New("permission denied by the database")
	// ErrContention: the database aborted this transaction for another one. The whole transaction may be run again.
	ErrContention = errors.New("transaction conflicted with another")
	// ErrUnknownOutcome: the connection or the context ended before the answer to a write, which may have been committed.
	// Repeating the call with the same ids is safe: it writes what is missing and returns what is stored.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrSchema: the database does not exist, or this library does not work with its schema or its settings.
	ErrSchema = errors.New("database not usable by this library")
)

// Sentinels returns all sentinels, ErrGone before ErrNotFound, to be mapped.
func Sentinels() []error {
	return []error{
		ErrInvalid, ErrGone, ErrNotFound, ErrConflict, ErrLimit, ErrImport, ErrStreamFailed, ErrClosed,
		ErrUnavailable, ErrPermission, ErrContention, ErrUnknownOutcome, ErrSchema,
	}
}

// InvalidError names an invalid value, and the rule that it breaks.
type InvalidError struct {
	Field  string // the path of the value, such as "messages[2].content"
	Reason string // such as "is empty"
}

func (e *InvalidError) Error() string        { return e.Field + " " + e.Reason }
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(field, reason string, args ...any) *InvalidError {
	if len(args) > 0 {
		reason = fmt.Sprintf(reason, args...)
	}
	return &InvalidError{Field: field, Reason: reason}
}

// NotFoundError names what does not exist.
type NotFoundError struct {
	// "session", "message", "turn", "plan", "action", "state", "stream", "lease" or "audit entry"; of packages on top also
	// others, such as "reservation"
	Kind      string
	ID        ID     // zero: it was requested by its name
	Name      string // the key of a session, a stream or a value of state, or the name of an action
	Namespace string // of a session's key
	Scope     Scope  // of a value of state
	Gone      bool   // it also matches ErrGone: a session was deleted; a stream has expired
}

func (e *NotFoundError) Error() string {
	text := entity(e.Kind, e.ID, e.Name, e.Scope)
	if e.Namespace != "" {
		text += fmt.Sprintf(" in namespace %q", e.Namespace)
	}
	if e.Gone {
		return text + " is gone: it was deleted or has expired"
	}
	return text + " not found"
}

func (e *NotFoundError) Is(target error) bool {
	return target == ErrNotFound || e.Gone && target == ErrGone
}

// entity returns what errors call an entity.
func entity(kind string, id ID, name string, scope Scope) string {
	switch {
	case kind == "state" && name != "":
		return fmt.Sprintf("%s: key %q", scope.text(), name)
	case kind == "state":
		return scope.text()
	case name != "":
		return fmt.Sprintf("%s %q", kind, name)
	}
	return kind + " " + id.String()
}

// ExistsError reports that something else has this id or name already.
type ExistsError struct {
	Kind      string // "session", "message", "turn", "usage", "plan", "action" or "audit entry"
	SessionID ID     // of a message, a turn or a usage
	ID        ID
	Name      string // the id of a turn or the name of an action
	// Field names a field that differs; empty: it must be new, or is not compared by field. "id" of a session: another one
	// has the key. "batch" of a message: only some of its batch are stored; "turn": another turn has stored it. "fork" of
	// a session: it is no fork of the same message, or has forks.
	Field string
	Gone  bool // the session with this id was deleted, and no other gets its id
}

func (e *ExistsError) Error() string {
	text := entity(e.Kind, e.ID, e.Name, Scope{})
	if !e.SessionID.IsZero() {
		text = "session " + e.SessionID.String() + ": " + text
	}
	switch {
	case e.Gone:
		return text + " was deleted"
	case e.Kind == "turn", e.Kind == "audit entry":
		return text + " is stored already with other contents"
	case e.Field == "":
		return text + " already exists"
	case e.Field == "id":
		return text + " already has the key"
	case e.Field == "batch":
		return text + " is stored already, but others of its batch are not"
	}
	return text + " already exists with another " + e.Field
}
func (e *ExistsError) Is(target error) bool { return target == ErrConflict }

// VersionConflictError reports that something is not at the version that the call expects.
type VersionConflictError struct {
	Kind             string // what has the version: "session", "state" or "action"
	ID               ID     // a session's
	Name             string // an action's, or a key of state in Scope; without a key it is the scope's version
	Scope            Scope
	Expected, Actual int64 // the caller's and the stored version; 0: does not exist
}

func (e *VersionConflictError) Error() string {
	return fmt.Sprintf("%s: expected version %d, but it is %d", entity(e.Kind, e.ID, e.Name, e.Scope), e.Expected,
		e.Actual)
}
func (e *VersionConflictError) Is(target error) bool { return target == ErrConflict }

// SequenceConflictError reports that a sequence is not the expected one.
type SequenceConflictError struct {
	Kind           string // "session", "stream", or "head": the last sequence of a session's transcript
	ID             ID
	Name           string // the stream's key
	Expected, Next int64  // the caller's sequence, and the actual next one; of the kind "head" the actual last one
}

func (e *SequenceConflictError) Error() string {
	if e.Kind == "head" {
		return fmt.Sprintf("session %s: expected the transcript to end with message %d, but it ends with %d", e.ID,
			e.Expected, e.Next)
	}
	return fmt.Sprintf("%s: expected next sequence %d, but it is %d", entity(e.Kind, e.ID, e.Name, Scope{}), e.Expected,
		e.Next)
}
func (e *SequenceConflictError) Is(target error) bool { return target == ErrConflict }

// RefusedError reports that what is stored does not allow the call. It wraps the *pgconn.PgError of an owner's trigger.
type RefusedError struct {
	Kind   string // "action", "plan", "state", "stream", "session", "hold" or "database"
	ID     ID     // of the plan, stream, session or held thing; zero: a namespace or an owner is held
	Name   string // the name or key
	Scope  Scope  // of the value of state
	Reason string // such as "is archived"
}

func (e *RefusedError) Error() string {
	switch e.Kind {
	case "database":
		return "the database " + e.Reason
	case "hold":
		if e.ID.IsZero() {
			return "a namespace, or an owner in it, " + e.Reason
		}
		return e.ID.String() + " " + e.Reason
	}
	return entity(e.Kind, e.ID, e.Name, e.Scope) + " " + e.Reason
}
func (e *RefusedError) Is(target error) bool { return target == ErrConflict }

// LimitExceededError reports that there would be more than Limit, or, of a value of state, less than AtLeast.
type LimitExceededError struct {
	Kind  string // "budget" of a session; "reversions", "depth" or "children" of a plan; "state"; or a part of a call
	ID    ID     // the session's or the plan's; zero: the limit is for a call or a value
	Name  string // the key of a value of state
	Scope Scope  // of the value of state
	Limit int64  // of a value of state its StateChange.AtMost or AtLeast
	// Current and Requested are of a budget, as a Cost, like Limit, what was spent, and what would have been added; of a
	// value of state the value, and StateChange.By.
	Current, Requested int64
}

func (e *LimitExceededError) Error() string {
	text := fmt.Sprintf("more than %d %s", e.Limit, e.Kind)
	switch {
	case e.Kind == "budget":
		text = fmt.Sprintf("session %s: cost %s + %s would pass the budget of %s", e.ID, Cost(e.Current), Cost(e.Requested),
			Cost(e.Limit))
	case e.Kind == "state":
		text = fmt.Sprintf("%s: %d %+d would pass the bound of %d", entity(e.Kind, e.ID, e.Name, e.Scope), e.Current,
			e.Requested, e.Limit)
	case !e.ID.IsZero():
		text = "plan " + e.ID.String() + ": " + text
	}
	return text
}
func (e *LimitExceededError) Is(target error) bool { return target == ErrLimit }

// ImportError reports what is wrong with a document. It wraps Err.
type ImportError struct {
	Field  string // the path in the document, such as "messages[17].sequence"
	Reason string // what is wrong there
	Err    error  // the cause, if there is one: an *InvalidError, or the reader's error
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
