package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/seed-df90f812/agentstore/repo"
)

// The SQLSTATEs that are told apart by name here.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	LockNotAvailable     = "55P03"
	uniqueViolation      = "23505"
	OutOfRange           = "22003"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	invalidSchemaName    = "3F000"
	invalidCatalogName   = "3D000"
	insufficientRight    = "42501"
	adminShutdown        = "57P01"
	crashShutdown        = "57P02"
	ReadOnlyTransaction  = "25006"
	QueryCanceled        = "57014"
	duplicatePrepared    = "42P05"

	// dataException is a class of them.
	dataException = "22"
)

// Error is an error of the database or of the way to it: one of repo's
// sentinels, with its cause.
type Error struct {
	Sentinel error
	Cause    error
}

func (e *Error) Error() string   { return e.Sentinel.Error() + ": " + e.Cause.Error() }
func (e *Error) Unwrap() []error { return []error{e.Sentinel, e.Cause} }

// Phase says how far a statement had got when its error occurred.
type Phase int

const (
	// Unsent says that there was no connection yet.
	Unsent Phase = iota
	// Reading says that the statement only reads, or its transaction cannot have been
	// committed.
	Reading
	// Committing says that the statement or the commit may have been executed.
	Committing
)

// Answer is an operation's own error in the midst of its statements. It ends them, and
// is not an error of the database.
type Answer struct{ Err error }

func (a *Answer) Error() string { return a.Err.Error() }
func (a *Answer) Unwrap() error { return a.Err }

// Meaning interprets the error of an operation's statements: an answer is returned
// unchanged, an error of the database is translated.
func Meaning(ctx context.Context, err error, at Phase) error {
	if a, ok := errors.AsType[*Answer](err); ok {
		return a.Err
	}
	return Translate(ctx, err, at)
}

// Translate adds the sentinel to an error. It is the one place that converts
// PostgreSQL's errors. An error that has a sentinel is returned unchanged.
func Translate(ctx context.Context, err error, at Phase) error {
	if err == nil || isOurs(err) {
		return err
	}
	if IsNoRows(err) { // an answer, which the operation gives its meaning
		return pgx.ErrNoRows
	}
	// An error that says itself that nothing was sent leaves no doubt. "conn closed"
	// says so, too, but the driver also gives it when the connection ended after a
	// statement of the simple protocol was sent: each commit is one.
	if at == Committing && pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed) {
		at = Unsent
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return translatePgError(pgErr, at)
	}
	switch {
	case errors.Is(err, puddle.ErrClosedPool):
		return repo.ErrClosed
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return &Error{repo.ErrConflict, errors.New("rolled back, because an error in the transaction was not returned")}
	case at == Committing:
		return &Error{repo.ErrUnknownOutcome, err}
	case ctx.Err() != nil:
		return fmt.Errorf("agentstore: %w", ctx.Err())
	default:
		return &Error{repo.ErrUnavailable, err}
	}
}

func translatePgError(pgErr *pgconn.PgError, at Phase) error {
	pgErr = withoutValues(pgErr)
	if at == Committing && EndsConnection(pgErr) {
		// The server ended the connection, perhaps after the commit.
		return &Error{repo.ErrUnknownOutcome, pgErr}
	}
	switch pgErr.Code {
	case serializationFailure, deadlockDetected, LockNotAvailable:
		return &Error{repo.ErrContention, pgErr}
	case undefinedTable, undefinedColumn, invalidSchemaName, invalidCatalogName:
		return &Error{repo.ErrSchema, pgErr}
	case insufficientRight:
		return &Error{repo.ErrPermission, pgErr}
	}
	switch class(pgErr) {
	case "28": // invalid authorization specification: the login
		return &Error{repo.ErrPermission, pgErr}
	case dataException:
		return &Error{repo.ErrInvalid, pgErr}
	case "23": // integrity constraint violation
		if pgErr.Code == uniqueViolation {
			return &Error{repo.ErrConflict, pgErr}
		}
		return &Error{repo.ErrInvalid, pgErr}
	}
	return &Error{repo.ErrUnavailable, pgErr}
}

// EndsConnection reports an error with which the server ended the connection. Its
// severity is in the server's language (lc_messages); a second field has it in
// English, but a pooler may omit that.
func EndsConnection(pgErr *pgconn.PgError) bool {
	severity := cmp.Or(pgErr.SeverityUnlocalized, pgErr.Severity)
	switch {
	case severity == "FATAL", severity == "PANIC":
		return true
	case pgErr.SeverityUnlocalized != "":
		return false
	}
	return pgErr.Code == adminShutdown || pgErr.Code == crashShutdown // which nothing survives
}

// class returns the class of an error's SQLSTATE.
func class(pgErr *pgconn.PgError) string { return pgErr.Code[:min(2, len(pgErr.Code))] }

// withoutValues copies a PostgreSQL error without the fields in which the server
// quotes values of rows. In a data exception that is the message, too.
func withoutValues(pgErr *pgconn.PgError) *pgconn.PgError {
	message := pgErr.Message
	if class(pgErr) == dataException {
		message = "data exception"
	}
	return &pgconn.PgError{
		Severity:            pgErr.Severity,
		SeverityUnlocalized: pgErr.SeverityUnlocalized,
		Code:                pgErr.Code,
		Message:             message,
		SchemaName:          pgErr.SchemaName,
		TableName:           pgErr.TableName,
		ColumnName:          pgErr.ColumnName,
		DataTypeName:        pgErr.DataTypeName,
		ConstraintName:      pgErr.ConstraintName,
		Routine:             pgErr.Routine,
	}
}

var sentinels = repo.Sentinels()

func isOurs(err error) bool {
	for _, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// Violates reports whether err is the violation of a constraint.
func Violates(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.ConstraintName == constraint
}

// HasCode reports whether err is the database's, with a SQLSTATE.
func HasCode(err error, code string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == code
}

// IsNoRows reports whether an error says that a statement had no row to answer with.
func IsNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// OrMissing is the error of a statement whose lack of rows means that something is
// missing.
func OrMissing(err, missing error) error {
	if IsNoRows(err) {
		return missing
	}
	return err
}

// circumstances are SQLSTATE classes, and one SQLSTATE, of errors that are caused by the
// connection, the transaction, the server or the moment, not by the appends.
var circumstances = []string{"08", "0A", "25", "26", "40", "53", "55", "57", "58", "XX", duplicatePrepared}

// IsRejection reports an error that one append of a group, or a trigger of the owner's
// on it, has caused and would cause again. It says nothing about the other appends.
func IsRejection(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && !EndsConnection(pgErr) && !slices.Contains(circumstances, class(pgErr)) && !slices.Contains(circumstances, pgErr.Code)
}
