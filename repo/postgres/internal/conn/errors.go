package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	internalError        = "XX000"

	// dataException and integrityViolation are classes of them.
	dataException      = "22"
	integrityViolation = "23"

	// LeftOut is the name that rows_left_out (schema/migrations/0001) gives instead of a constraint's.
	LeftOut = "rows_left_out"
	leftOut = "rows were left out"
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

func translatePgError(given *pgconn.PgError, at Phase) error {
	pgErr := withoutValues(given)
	if at == Committing && (EndsConnection(pgErr) || losesNode(given)) {
		// The server, or a node of a distributed engine, ended the connection, perhaps after the commit.
		return &Error{repo.ErrUnknownOutcome, pgErr}
	}
	if refusal := refusal(given); refusal != nil {
		return &Error{refusal, pgErr}
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
	case integrityViolation:
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

// losesNode reports that the coordinator of a distributed engine lost a node that may have executed the statement or
// the commit. It says so in an error, and keeps the connection. If it could not connect to the node, nothing was sent.
func losesNode(pgErr *pgconn.PgError) bool {
	switch code := pgErr.Code; {
	case isRaised(pgErr):
		return false
	case code == adminShutdown, code == crashShutdown:
		return true
	case code == internalError:
		return pgErr.Routine == "ErrorIfPostCommitFailedShardPlacements" || pgErr.Routine == "ReportResultError"
	}
	return class(pgErr) == "08" && !slices.ContainsFunc(unconnected,
		func(words string) bool { return strings.Contains(pgErr.Message, words) })
}

// unconnected are the words of the coordinator, of libpq and of the operating system for a connection that was not
// made.
var unconnected = []string{
	"could not establish", "connection to server at ", "Connection refused", "No route to host", "the database system is ",
	"not yet accepting connections",
}

// refusal returns the error of what a trigger or another function of the owner's refuses, or nil.
func refusal(pgErr *pgconn.PgError) error {
	switch class := class(pgErr); {
	case constraint(pgErr) == LeftOut:
		return &repo.RefusedError{Kind: "database", Reason: "left out rows: a trigger of its owner's did not let them in"}
	case isRaised(pgErr) && !slices.Contains(meant, class):
	case slices.Contains(meant, class), slices.Contains(circumstances, class), slices.Contains(schemas, pgErr.Code):
		return nil
	case class != "P0" && !isWithin(pgErr):
		return nil
	}
	return &repo.RefusedError{Kind: "database", Reason: "refuses it, by a trigger or a function of its owner's"}
}

// meant are classes that mean what they say, also from a trigger, which may raise a class that
// may be repeated to ask for a repetition.
var meant = []string{dataException, integrityViolation, "28", "40", "53", "55", "57", "58"}

// schemas are the SQLSTATEs of a schema or a right that is missing, perhaps in a function of ours.
var schemas = []string{undefinedTable, undefinedColumn, invalidSchemaName, invalidCatalogName, insufficientRight}

// isRaised reports an error that RAISE or ASSERT of a function has given, with a SQLSTATE of its
// choice.
func isRaised(pgErr *pgconn.PgError) bool {
	return pgErr.Routine == "exec_stmt_raise" || pgErr.Routine == "exec_stmt_assert"
}

// isWithin reports an error that comes out of a function. A distributed engine says in the same field on which node a
// statement was executed.
func isWithin(pgErr *pgconn.PgError) bool {
	where := pgErr.Where
	if strings.HasPrefix(where, onNode) {
		_, where, _ = strings.Cut(where, "\n")
	}
	return where != ""
}

// constraint returns the name of the constraint that was violated. A distributed engine has it in the message alone,
// and with the number of a shard. No name of ours ends with a number.
func constraint(pgErr *pgconn.PgError) string {
	if pgErr.ConstraintName != "" || !strings.HasPrefix(pgErr.Where, onNode) || class(pgErr) != integrityViolation {
		return pgErr.ConstraintName
	}
	if pgErr.Message == leftOut {
		return LeftOut
	}
	_, name, _ := strings.Cut(pgErr.Message, `constraint "`)
	name, _, _ = strings.Cut(name, `"`)
	if short := strings.TrimRight(name, "0123456789"); len(name)-len(short) >= 6 {
		name = strings.TrimSuffix(short, "_")
	}
	return name
}

// onNode begins the context of what a node of a distributed engine says.
const onNode = "while executing command on "

// class returns the class of an error's SQLSTATE.
func class(pgErr *pgconn.PgError) string { return pgErr.Code[:min(2, len(pgErr.Code))] }

// withoutValues copies a PostgreSQL error without the fields in which the server
// quotes values of rows. In a data exception that is the message, too, and in all that
// comes out of a function, which may say anything, such as a trigger of the owner's.
func withoutValues(pgErr *pgconn.PgError) *pgconn.PgError {
	message := pgErr.Message
	switch {
	case class(pgErr) == dataException:
		message = "data exception"
	case isRaised(pgErr), class(pgErr) == "P0", isWithin(pgErr) && pgErr.Routine != "ProcessInterrupts": // a timeout
		message = "its text is left out"
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
		ConstraintName:      constraint(pgErr),
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
func Violates(err error, name string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && constraint(pgErr) == name
}

// Whole returns the error of a statement that has written fewer rows than it was given, which the statements that can
// say so raise themselves (rows_left_out).
func Whole(rows int64, given int, err error) error {
	if err == nil && rows != int64(given) {
		err = &pgconn.PgError{
			Severity: "ERROR", Code: integrityViolation + "000", ConstraintName: LeftOut, Message: leftOut,
			Routine: "exec_stmt_raise",
		}
	}
	return err
}

// HasCode reports whether err is the database's, with a SQLSTATE.
func HasCode(err error, code string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == code
}

// IsAnswered reports an error with which the server answered a statement, and kept the
// connection: it may be about what the statement asked for.
func IsAnswered(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && !EndsConnection(pgErr)
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
	if !ok || !IsAnswered(pgErr) {
		return false
	}
	return isRaised(pgErr) && !slices.Contains(meant, class(pgErr)) ||
		!slices.Contains(circumstances, class(pgErr)) && !slices.Contains(circumstances, pgErr.Code)
}
