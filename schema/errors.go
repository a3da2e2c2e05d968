package schema

import (
	"errors"
	"fmt"
	"time"
)

// Sentinels for errors.Is. Where there are facts to tell, the error is also one
// of the types below, for errors.As.
var (
	// ErrBehind: the database lacks migrations of this binary ([BehindError]).
	ErrBehind = errors.New("schema: database is behind")
	// ErrAhead: the database is newer than this binary, and does not allow it
	// ([AheadError]).
	ErrAhead = errors.New("schema: database is newer than this binary")
	// ErrGap: a version was skipped: a newer one is applied ([GapError]).
	ErrGap = errors.New("schema: a version is missing below the newest one")
	// ErrUnknownVersion: no such version in this binary ([UnknownVersionError]).
	ErrUnknownVersion = errors.New("schema: unknown version")
	// ErrLocked: another process held the migration lock too long ([LockedError]).
	ErrLocked = errors.New("schema: another process is migrating this database")
	// ErrBusy: others used a table for so long that a version could not have it.
	// The version was rolled back.
	ErrBusy = errors.New("tables remained in use by others")
	// ErrDataLoss: a revert would have destroyed rows. Nothing was changed.
	ErrDataLoss = errors.New("refused to destroy data")
	// ErrPooled: a transaction pooler stands between this process and the
	// server, so that the migration lock does not hold.
	ErrPooled = errors.New("the migration lock does not hold on this connection: connect directly, not through a transaction pooler")
	// ErrURL: the database URL cannot be used. The message never quotes it.
	ErrURL = errors.New("schema: invalid database URL")
)

// BehindError says how far the database is behind.
type BehindError struct {
	Have, Want int64
}

func (e BehindError) Error() string {
	return fmt.Sprintf("schema: database is behind: it has version %d, this binary wants %d (before this binary starts, run its: agentstore migrate up)", e.Have, e.Want)
}

// Is makes errors.Is(err, ErrBehind) true.
func (e BehindError) Is(target error) bool { return target == ErrBehind }

// AheadError says how far the database is ahead.
type AheadError struct {
	// Have is the database's version, Want the newest that this binary knows.
	Have, Want int64
	// Oldest is the oldest library that the database works with, by the newest
	// version that it knows.
	Oldest int64
	// Revert says that this binary may work on the database, but was asked to
	// revert versions that it does not know.
	Revert bool
}

func (e AheadError) Error() string {
	if e.Revert {
		return fmt.Sprintf("schema: database is newer than this binary: it has version %d, this binary knows %d (revert with the binary that applied it)", e.Have, e.Want)
	}
	return fmt.Sprintf("schema: database is newer than this binary: it has version %d, which works with libraries of version %d and later, this binary knows %d (upgrade the binary)", e.Have, e.Oldest, e.Want)
}

// Is makes errors.Is(err, ErrAhead) true.
func (e AheadError) Is(target error) bool { return target == ErrAhead }

// GapError names the oldest skipped version and the newest applied one.
type GapError struct {
	Missing, Have int64
}

func (e GapError) Error() string {
	return fmt.Sprintf("schema: version %d is not applied but version %d is: the migrations ran in another order", e.Missing, e.Have)
}

// Is makes errors.Is(err, ErrGap) true.
func (e GapError) Is(target error) bool { return target == ErrGap }

// UnknownVersionError names a version that this binary does not hold.
type UnknownVersionError struct {
	Version int64
	// Applied says that the version was found in the database, between versions
	// that this binary knows.
	Applied bool
}

func (e UnknownVersionError) Error() string {
	if e.Applied {
		return fmt.Sprintf("schema: the database has version %d, which this binary does not know", e.Version)
	}
	return fmt.Sprintf("schema: unknown version %d", e.Version)
}

// Is makes errors.Is(err, ErrUnknownVersion) true.
func (e UnknownVersionError) Is(target error) bool { return target == ErrUnknownVersion }

// LockedError says how long the lock was waited for, and who holds it.
type LockedError struct {
	Waited time.Duration
	// HolderPID is the process id of the server's session that holds the lock,
	// and Holder its application name. Zero when it could not be found out.
	HolderPID int64
	Holder    string
}

func (e LockedError) Error() string {
	text := fmt.Sprintf("schema: another process is migrating this database: no lock after %s", e.Waited.Round(time.Millisecond))
	if e.HolderPID != 0 {
		text += fmt.Sprintf(" (held by server process %d, application %q)", e.HolderPID, e.Holder)
	}
	return text
}

// Is makes errors.Is(err, ErrLocked) true.
func (e LockedError) Is(target error) bool { return target == ErrLocked }

// StepError says which version failed. It wraps the cause: a *pgconn.PgError,
// [ErrDataLoss], [ErrPooled], the context's error, ….
type StepError struct {
	Step Step
	Err  error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("schema: %s %s: %v", e.Step.Name, e.Step.Direction, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }
