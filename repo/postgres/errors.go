package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"

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
	lockNotAvailable     = "55P03"
	uniqueViolation      = "23505"
	outOfRange           = "22003"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
	invalidSchemaName    = "3F000"
	invalidCatalogName   = "3D000"
	insufficientRight    = "42501"
	adminShutdown        = "57P01"
	crashShutdown        = "57P02"
	readOnlyTransaction  = "25006"
	queryCanceled        = "57014"
	duplicatePrepared    = "42P05"

	// dataException is a class of them.
	dataException = "22"
)

// storeError is an error of the database or of the way to it: one of repo's
// sentinels, with its cause.
type storeError struct {
	sentinel error
	cause    error
}

func (e *storeError) Error() string   { return e.sentinel.Error() + ": " + e.cause.Error() }
func (e *storeError) Unwrap() []error { return []error{e.sentinel, e.cause} }

// phase says how far a statement had got when its error occurred.
type phase int

const (
	// unsent: there was no connection yet.
	unsent phase = iota
	// reading: the statement only reads, or its transaction cannot have been
	// committed.
	reading
	// committing: the statement or the commit may have been executed.
	committing
)

// answer is an operation's own error in the midst of its statements. It ends them, and
// is not an error of the database.
type answer struct{ err error }

func (a *answer) Error() string { return a.err.Error() }
func (a *answer) Unwrap() error { return a.err }

// meaning interprets the error of an operation's statements: an answer is returned
// unchanged, an error of the database is translated.
func meaning(ctx context.Context, err error, at phase) error {
	if a, ok := errors.AsType[*answer](err); ok {
		return a.err
	}
	return translate(ctx, err, at)
}

// Translate wraps an error of one of the caller's own statements, sent through
// Store.Pool or the transaction of Bind, with the sentinel that the store's errors
// have. It assumes that the statement only reads: a lost connection is
// repo.ErrUnavailable, although a statement that writes may have been executed. An
// error that has a sentinel is returned unchanged, and nil as nil.
func Translate(ctx context.Context, err error) error { return translate(ctx, err, reading) }

// translate adds the sentinel to an error. It is the one place that converts
// PostgreSQL's errors. An error that has a sentinel is returned unchanged.
func translate(ctx context.Context, err error, at phase) error {
	if err == nil || isOurs(err) {
		return err
	}
	if isNoRows(err) { // an answer, which the operation gives its meaning
		return pgx.ErrNoRows
	}
	// An error that says itself that nothing was sent leaves no doubt. "conn closed"
	// says so, too, but the driver also gives it when the connection ended after a
	// statement of the simple protocol was sent: each commit is one.
	if at == committing && pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed) {
		at = unsent
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return translatePgError(pgErr, at)
	}
	switch {
	case errors.Is(err, puddle.ErrClosedPool):
		return repo.ErrClosed
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return &storeError{repo.ErrConflict, errors.New("rolled back, because an error in the transaction was not returned")}
	case at == committing:
		return &storeError{repo.ErrUnknownOutcome, err}
	case ctx.Err() != nil:
		return fmt.Errorf("agentstore: %w", ctx.Err())
	default:
		return &storeError{repo.ErrUnavailable, err}
	}
}

func translatePgError(pgErr *pgconn.PgError, at phase) error {
	pgErr = withoutValues(pgErr)
	if at == committing && endsConnection(pgErr) {
		// The server ended the connection, perhaps after the commit.
		return &storeError{repo.ErrUnknownOutcome, pgErr}
	}
	switch pgErr.Code {
	case serializationFailure, deadlockDetected, lockNotAvailable:
		return &storeError{repo.ErrContention, pgErr}
	case undefinedTable, undefinedColumn, invalidSchemaName, invalidCatalogName:
		return &storeError{repo.ErrSchema, pgErr}
	case insufficientRight:
		return &storeError{repo.ErrPermission, pgErr}
	}
	switch class(pgErr) {
	case "28": // invalid authorization specification: the login
		return &storeError{repo.ErrPermission, pgErr}
	case dataException:
		return &storeError{repo.ErrInvalid, pgErr}
	case "23": // integrity constraint violation
		if pgErr.Code == uniqueViolation {
			return &storeError{repo.ErrConflict, pgErr}
		}
		return &storeError{repo.ErrInvalid, pgErr}
	}
	return &storeError{repo.ErrUnavailable, pgErr}
}

// endsConnection reports an error with which the server ended the connection. Its
// severity is in the server's language (lc_messages); a second field has it in
// English, but a pooler may omit that.
func endsConnection(pgErr *pgconn.PgError) bool {
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

// violates reports whether err is the violation of a constraint.
func violates(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.ConstraintName == constraint
}

func hasCode(err error, code string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == code
}

func isNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// orMissing is the error of a statement whose lack of rows means that something is
// missing.
func orMissing(err, missing error) error {
	if isNoRows(err) {
		return missing
	}
	return err
}

func sessionNotFound(id repo.ID) error { return &repo.NotFoundError{Kind: "session", ID: id} }
