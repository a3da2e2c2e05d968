package schema

import (
	"errors"
	"fmt"
	"time"
)

// Sentinels for errors.Is. Each error of this package matches one of them, or is the
// context's own. An error with details is also a pointer to one of the types below, for
// errors.As; the driver's errors, such as *pgconn.PgError, are wrapped.
var (
	// ErrBehind: the database lacks migrations of this binary ([BehindError]).
	ErrBehind = errors.New("schema: database is behind")
	// ErrAhead: the database is newer than this binary, and does not allow it
	// ([AheadError]).
	ErrAhead = errors.New("schema: database is newer than this binary")
	// ErrGap: a version is not applied, but a newer one is ([GapError]).
	ErrGap = errors.New("schema: a version is missing below the newest one")
	// ErrUnknownVersion: this binary does not have the version
	// ([UnknownVersionError]).
	ErrUnknownVersion = errors.New("schema: unknown version")
	// ErrLocked: another process held the migration lock too long ([LockedError]).
	ErrLocked = errors.New("schema: another process is migrating this database")
	// ErrBusy: a version could not lock a table in time, because others were using
	// it. The version was rolled back.
	ErrBusy = errors.New("tables remained in use by others")
	// ErrDataLoss: a revert would have destroyed rows. Nothing was changed.
	ErrDataLoss = errors.New("refused to destroy data")
	// ErrPooled: the connection goes through a transaction pooler, through which
	// the migration lock does not hold.
	ErrPooled = errors.New("the migration lock does not hold on this connection: connect directly, not through a " +
		"transaction pooler")
	// ErrExists: a table, type or function that is not agentstore's has the name of
	// one that the version creates ([ExistsError]). The version was rolled back.
	ErrExists = errors.New("a name is taken")
	// ErrPermission: the server refused the login, or the role lacks a privilege, for
	// example to create the schema or a table.
	ErrPermission = errors.New("the role may not do that")
	// ErrSchemaName: [Options].Schema or [Roles].Schema is not a usable name, or
	// the URL's search_path is a different schema.
	ErrSchemaName = errors.New("schema: invalid name of a schema")
	// ErrURL: the database URL cannot be used. The message never quotes it.
	ErrURL = errors.New("schema: invalid database URL")
	// ErrInvalid: an argument is invalid: a [Target], a pool that is nil, a name in
	// [Roles], or the files in [Options].Migrations.
	ErrInvalid = errors.New("schema: invalid argument")
	// ErrUnavailable: the server cannot be reached, is shutting down, has no room or
	// no such database, or the connection was lost. The version that was running was
	// rolled back, unless the connection was lost during its commit.
	ErrUnavailable = errors.New("schema: database unavailable")
	// ErrFailed: the server refused a statement for another reason, or a version's
	// file cannot be read as SQL. The version was rolled back.
	ErrFailed = errors.New("schema: a statement failed")
)

// BehindError reports that the database lacks migrations of this binary.
type BehindError struct {
	Have, Want int64
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("schema: database is behind: it has version %d, this binary wants %d "+
		"(before this binary starts, run its: agentstore migrate up)", e.Have, e.Want)
}

// Is makes errors.Is(err, ErrBehind) true.
func (e *BehindError) Is(target error) bool { return target == ErrBehind }

// AheadError reports that the database is newer than this binary.
type AheadError struct {
	// Have is the database's version, Want the newest that this binary knows.
	Have, Want int64
	// Oldest is the oldest library that the database works with, identified by the
	// newest version that it knows.
	Oldest int64
	// Revert reports that this binary works on the database, but was asked to
	// revert versions that it does not know.
	Revert bool
}

func (e *AheadError) Error() string {
	if e.Revert {
		return fmt.Sprintf("schema: database is newer than this binary: it has version %d, this binary knows %d "+
			"(revert with the binary that applied it)", e.Have, e.Want)
	}
	return fmt.Sprintf("schema: database is newer than this binary: it has version %d, which works with libraries of "+
		"version %d and later, "+
		"this binary knows %d (upgrade the binary)", e.Have, e.Oldest, e.Want)
}

// Is makes errors.Is(err, ErrAhead) true.
func (e *AheadError) Is(target error) bool { return target == ErrAhead }

// GapError names the oldest skipped version and the newest applied one.
type GapError struct {
	Missing, Have int64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("schema: version %d is not applied but version %d is: the migrations ran in another order",
		e.Missing, e.Have)
}

// Is makes errors.Is(err, ErrGap) true.
func (e *GapError) Is(target error) bool { return target == ErrGap }

// UnknownVersionError names a version that this binary does not have.
type UnknownVersionError struct {
	Version int64
	// Applied reports that the version is in the database, between versions that
	// this binary knows.
	Applied bool
}

func (e *UnknownVersionError) Error() string {
	if e.Applied {
		return fmt.Sprintf("schema: the database has version %d, which this binary does not know", e.Version)
	}
	return fmt.Sprintf("schema: unknown version %d", e.Version)
}

// Is makes errors.Is(err, ErrUnknownVersion) true.
func (e *UnknownVersionError) Is(target error) bool { return target == ErrUnknownVersion }

// LockedError reports how long the migrator waited for the lock, and its holder.
type LockedError struct {
	Waited time.Duration
	// HolderPID is the process id of the server's session that holds the lock,
	// and Holder its application name. They are zero if they are not known.
	HolderPID int64
	Holder    string
}

func (e *LockedError) Error() string {
	text := fmt.Sprintf("schema: another process is migrating this database: no lock after %s",
		e.Waited.Round(time.Millisecond))
	if e.HolderPID != 0 {
		text += fmt.Sprintf(" (held by server process %d, application %q)", e.HolderPID, e.Holder)
	}
	return text
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// ExistsError reports a name that was taken before the version could create it.
type ExistsError struct {
	// Name is empty if the server's message does not contain it.
	Name string
	// Err is the server's error.
	Err error
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("the name %q is taken: a schema of its own keeps agentstore's tables apart from others' "+
		"(Options.Schema, --schema): %v", e.Name, e.Err)
}

// Is makes errors.Is(err, ErrExists) true.
func (e *ExistsError) Is(target error) bool { return target == ErrExists }

func (e *ExistsError) Unwrap() error { return e.Err }

// StepError names the version that failed. It wraps the cause: for example a
// *pgconn.PgError, [ErrDataLoss], [ErrExists], [ErrPermission], [ErrPooled] or the
// context's error.
type StepError struct {
	Step Step
	Err  error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("schema: %s %s: %v", e.Step.Name, e.Step.Direction, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }
