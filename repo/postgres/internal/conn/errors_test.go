package conn

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/seed-df90f812/agentstore/repo"
)

// unsentError is an error that reports that nothing was sent.
type unsentError struct{ error }

func (unsentError) SafeToRetry() bool { return true }
func (e unsentError) Unwrap() error   { return e.error }

// Each error matches exactly the sentinel for how far its statement had got.
func TestTranslate(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset by peer")
	live := t.Context()
	ended, cancel := context.WithCancel(live)
	cancel()
	code := func(code string) error {
		return &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code}
	}
	fatal := func(severity, english, code string) error {
		return &pgconn.PgError{Severity: severity, SeverityUnlocalized: english, Code: code}
	}
	node := func(code, routine, message string) error {
		return &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Routine: routine, Message: message}
	}
	for _, test := range []struct {
		name string
		err  error
		ctx  context.Context
		at   Phase
		want error
	}{
		{"unanswered", lost, live, Committing, repo.ErrUnknownOutcome},
		{"unanswered, and the context ended", lost, ended, Committing, repo.ErrUnknownOutcome},
		{"unanswered by a read", lost, live, Reading, repo.ErrUnavailable},
		{"the context ended a read", lost, ended, Reading, context.Canceled},
		{"no connection", lost, live, Unsent, repo.ErrUnavailable},
		{"surely not sent", unsentError{lost}, live, Committing, repo.ErrUnavailable},
		{"surely not sent, and the context ended", unsentError{lost}, ended, Committing, context.Canceled},
		{"closed, perhaps while it waited", unsentError{pgconn.ErrConnClosed}, live, Committing, repo.ErrUnknownOutcome},
		{"a closed pool", puddle.ErrClosedPool, live, Unsent, repo.ErrClosed},
		{"rolled back at its commit", pgx.ErrTxCommitRollback, live, Committing, repo.ErrConflict},
		{"one of ours", fmt.Errorf("x: %w", repo.ErrLimit), live, Committing, repo.ErrLimit},
		{"serialization", code("40001"), live, Committing, repo.ErrContention},
		{"deadlock", code("40P01"), live, Committing, repo.ErrContention},
		{"a lock", code("55P03"), live, Committing, repo.ErrContention},
		{"a table", code("42P01"), live, Reading, repo.ErrSchema},
		{"a column", code("42703"), live, Reading, repo.ErrSchema},
		{"a schema", code("3F000"), live, Reading, repo.ErrSchema},
		{"a database", fatal("FATAL", "FATAL", "3D000"), live, Unsent, repo.ErrSchema},
		{"a right", code("42501"), live, Committing, repo.ErrPermission},
		{"a login", fatal("FATAL", "FATAL", "28P01"), live, Unsent, repo.ErrPermission},
		{"a value", code("22021"), live, Committing, repo.ErrInvalid},
		{"a unique key", code("23505"), live, Committing, repo.ErrConflict},
		{"a check", &pgconn.PgError{Severity: "ERROR", Code: "23514", ConstraintName: "a_check"}, live, Committing, repo.ErrInvalid},
		{"raised by a trigger", code("P0001"), live, Committing, repo.ErrConflict},
		{"raised with a SQLSTATE of its own", &pgconn.PgError{Code: "AB123", Where: "PL/pgSQL function f()"}, live, Committing, repo.ErrConflict},
		{"raised, not to be repeated", &pgconn.PgError{Code: "0A000", Routine: "exec_stmt_raise"}, live, Committing, repo.ErrConflict},
		{"raised, to be repeated", &pgconn.PgError{Code: "40001", Routine: "exec_stmt_raise"}, live, Committing, repo.ErrContention},
		{"rows that were left out", &pgconn.PgError{Code: "23000", ConstraintName: LeftOut}, live, Committing, repo.ErrConflict},
		{"a node lost at the commit", node("XX000", "ErrorIfPostCommitFailedShardPlacements", ""), live, Committing, repo.ErrUnknownOutcome},
		{"a node lost", node("08006", "ReportConnectionError", "x: server closed the connection"), live, Committing, repo.ErrUnknownOutcome},
		{"a node lost at its answer", node("XX000", "ReportResultError", "server closed the connection"), live, Committing, repo.ErrUnknownOutcome},
		{"a node that shuts down", node("57P01", "ReportResultError", ""), live, Committing, repo.ErrUnknownOutcome},
		{"a node lost while it reads", node("08006", "ReportConnectionError", ""), live, Reading, repo.ErrUnavailable},
		{"a node that is down", node("08006", "ReportConnectionError", "x: connection to server at \"y\" failed"), live, Committing, repo.ErrUnavailable},
		{"a node that refuses", node("08006", "ReportConnectionError", "x: Connection refused"), live, Committing, repo.ErrUnavailable},
		{"a node that starts", node("08006", "ReportConnectionError", "x: FATAL:  the database system is starting up"), live, Committing, repo.ErrUnavailable},
		{"a node, raised", node("08006", "exec_stmt_raise", ""), live, Committing, repo.ErrConflict},
		{"anything else", code("57014"), live, Committing, repo.ErrUnavailable},
		{"ended by the server", fatal("FATAL", "FATAL", "57P01"), live, Committing, repo.ErrUnknownOutcome},
		{"ended by a server that crashed", fatal("PANIC", "PANIC", "XX000"), live, Committing, repo.ErrUnknownOutcome},
		{"ended by the server, in its language", fatal("SCHWERWIEGEND", "FATAL", "25P03"), live, Committing, repo.ErrUnknownOutcome},
		{"ended, by a pooler that leaves the English out", fatal("SCHWERWIEGEND", "", "57P01"), live, Committing, repo.ErrUnknownOutcome},
		{"crashed, by such a pooler", fatal("SCHWERWIEGEND", "", "57P02"), live, Committing, repo.ErrUnknownOutcome},
		{"not ended, by such a pooler", fatal("FEHLER", "", "40001"), live, Committing, repo.ErrContention},
		{"a word that is no severity", fatal("FATAL", "ERROR", "40001"), live, Committing, repo.ErrContention},
		{"ended in the midst of a read", fatal("FATAL", "FATAL", "57P01"), live, Reading, repo.ErrUnavailable},
	} {
		got := Translate(test.ctx, test.err, test.at)
		if !errors.Is(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
		for _, sentinel := range repo.Sentinels() {
			if !errors.Is(test.want, sentinel) && errors.Is(got, sentinel) {
				t.Errorf("%s: %v is %v, too", test.name, got, sentinel)
			}
		}
	}
	if err := Translate(live, fmt.Errorf("x: %w", pgx.ErrNoRows), Committing); !errors.Is(err, pgx.ErrNoRows) || isOurs(err) {
		t.Errorf("no row gave %v", err)
	}
	if err := Translate(live, nil, Committing); err != nil {
		t.Errorf("nil gave %v", err)
	}
	// Values that the server quotes are dropped.
	told := Translate(live, &pgconn.PgError{Code: "23505", Message: "m", Detail: "d", Hint: "h", InternalQuery: "q", ConstraintName: "c"}, Reading)
	var kept *pgconn.PgError
	if !errors.As(told, &kept) || kept.Message != "m" || kept.ConstraintName != "c" || kept.Detail+kept.Hint+kept.Where+kept.InternalQuery != "" {
		t.Errorf("%+v", kept)
	}
	told = Translate(live, &pgconn.PgError{Code: "22P02", Message: "m", Routine: "r"}, Reading)
	if !errors.As(told, &kept) || kept.Message == "m" || kept.Code != "22P02" || kept.Routine != "r" {
		t.Errorf("%+v", kept)
	}
	// What comes out of a function may say anything.
	for _, said := range []*pgconn.PgError{
		{Code: "23505", Where: "w"}, {Code: "42601", Where: "w"}, {Code: "P0001"}, {Code: "40001", Routine: "exec_stmt_raise"},
	} {
		said.Message = "said"
		told = Translate(live, said, Reading)
		if !errors.As(told, &kept) || kept.Message == "said" || kept.Code != said.Code {
			t.Errorf("%+v", kept)
		}
	}
	told = Translate(live, &pgconn.PgError{Code: "57014", Message: "m", Where: "w", Routine: "ProcessInterrupts"}, Reading)
	if !errors.As(told, &kept) || kept.Message != "m" {
		t.Errorf("%+v", kept)
	}
	// An error of the operation's own is returned unchanged.
	mine := errors.New("mine")
	if err := Meaning(live, fmt.Errorf("x: %w", &Answer{mine}), Committing); err != mine { //nolint:errorlint // the very one
		t.Errorf("an answer gave %v", err)
	}
	if err := Meaning(live, lost, Committing); !errors.Is(err, repo.ErrUnknownOutcome) {
		t.Errorf("no answer gave %v", err)
	}
}

// Errors are retried if, and only if, a retry may succeed.
func TestIsPassing(t *testing.T) {
	t.Parallel()
	passing := map[error]bool{repo.ErrContention: true, repo.ErrUnavailable: true}
	for _, sentinel := range repo.Sentinels() {
		if got := IsPassing(fmt.Errorf("x: %w", sentinel)); got != passing[sentinel] {
			t.Errorf("%v: %t", sentinel, got)
		}
	}
	if !IsPassing(&doubtError{repo.ErrUnknownOutcome}) || IsPassing(context.Canceled) {
		t.Error("a doubt is found out, and an ended context is not waited for")
	}
}

// After an attempt whose answer was lost, no error says that nothing was written.
func TestErrorsAfterALostAnswer(t *testing.T) {
	t.Parallel()
	own := errors.New("own")
	for _, test := range []struct {
		err     error
		unknown bool
	}{
		{&Error{repo.ErrUnknownOutcome, own}, true},
		{&Error{repo.ErrUnavailable, own}, true},
		{&Error{repo.ErrContention, own}, true},
		{fmt.Errorf("x: %w", context.Canceled), true},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), true},
		{pgx.ErrNoRows, false}, // an answer that the operation interprets
		{nil, false},
	} {
		if got := AfterDoubt(false, test.err); got != test.err { //nolint:errorlint // the very one
			t.Errorf("%v without a doubt gave %v", test.err, got)
		}
		got := AfterDoubt(true, test.err)
		var doubt *doubtError
		if errors.Is(got, repo.ErrUnknownOutcome) != test.unknown || errors.As(got, &doubt) != test.unknown {
			t.Errorf("%v in doubt gave %v", test.err, got)
		}
		if errors.Is(got, repo.ErrUnavailable) || errors.Is(got, repo.ErrContention) {
			t.Errorf("%v in doubt gave %v, which says that nothing was written", test.err, got)
		}
		if settled := Settled(got); errors.As(settled, &doubt) {
			t.Errorf("%v settled gave %v, which is tried again", test.err, settled)
		}
	}
}
