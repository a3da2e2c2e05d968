package postgres

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
	for _, test := range []struct {
		name string
		err  error
		ctx  context.Context
		at   phase
		want error
	}{
		{"unanswered", lost, live, committing, repo.ErrUnknownOutcome},
		{"unanswered, and the context ended", lost, ended, committing, repo.ErrUnknownOutcome},
		{"unanswered by a read", lost, live, reading, repo.ErrUnavailable},
		{"the context ended a read", lost, ended, reading, context.Canceled},
		{"no connection", lost, live, unsent, repo.ErrUnavailable},
		{"surely not sent", unsentError{lost}, live, committing, repo.ErrUnavailable},
		{"surely not sent, and the context ended", unsentError{lost}, ended, committing, context.Canceled},
		{"closed, perhaps while it waited", unsentError{pgconn.ErrConnClosed}, live, committing, repo.ErrUnknownOutcome},
		{"a closed pool", puddle.ErrClosedPool, live, unsent, repo.ErrClosed},
		{"rolled back at its commit", pgx.ErrTxCommitRollback, live, committing, repo.ErrConflict},
		{"one of ours", fmt.Errorf("x: %w", repo.ErrLimit), live, committing, repo.ErrLimit},
		{"serialization", code("40001"), live, committing, repo.ErrContention},
		{"deadlock", code("40P01"), live, committing, repo.ErrContention},
		{"a lock", code("55P03"), live, committing, repo.ErrContention},
		{"a table", code("42P01"), live, reading, repo.ErrSchema},
		{"a column", code("42703"), live, reading, repo.ErrSchema},
		{"a schema", code("3F000"), live, reading, repo.ErrSchema},
		{"a database", fatal("FATAL", "FATAL", "3D000"), live, unsent, repo.ErrSchema},
		{"a right", code("42501"), live, committing, repo.ErrPermission},
		{"a login", fatal("FATAL", "FATAL", "28P01"), live, unsent, repo.ErrPermission},
		{"a value", code("22021"), live, committing, repo.ErrInvalid},
		{"a unique key", code("23505"), live, committing, repo.ErrConflict},
		{"a check", &pgconn.PgError{Severity: "ERROR", Code: "23514", ConstraintName: "a_check"}, live, committing, repo.ErrInvalid},
		{"anything else", code("57014"), live, committing, repo.ErrUnavailable},
		{"ended by the server", fatal("FATAL", "FATAL", "57P01"), live, committing, repo.ErrUnknownOutcome},
		{"ended by a server that crashed", fatal("PANIC", "PANIC", "XX000"), live, committing, repo.ErrUnknownOutcome},
		{"ended by the server, in its language", fatal("SCHWERWIEGEND", "FATAL", "25P03"), live, committing, repo.ErrUnknownOutcome},
		{"ended, by a pooler that leaves the English out", fatal("SCHWERWIEGEND", "", "57P01"), live, committing, repo.ErrUnknownOutcome},
		{"crashed, by such a pooler", fatal("SCHWERWIEGEND", "", "57P02"), live, committing, repo.ErrUnknownOutcome},
		{"not ended, by such a pooler", fatal("FEHLER", "", "40001"), live, committing, repo.ErrContention},
		{"a word that is no severity", fatal("FATAL", "ERROR", "40001"), live, committing, repo.ErrContention},
		{"ended in the midst of a read", fatal("FATAL", "FATAL", "57P01"), live, reading, repo.ErrUnavailable},
	} {
		got := translate(test.ctx, test.err, test.at)
		if !errors.Is(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
		for _, sentinel := range repo.Sentinels() {
			if !errors.Is(test.want, sentinel) && errors.Is(got, sentinel) {
				t.Errorf("%s: %v is %v, too", test.name, got, sentinel)
			}
		}
	}
	if err := translate(live, fmt.Errorf("x: %w", pgx.ErrNoRows), committing); !errors.Is(err, pgx.ErrNoRows) || isOurs(err) {
		t.Errorf("no row gave %v", err)
	}
	if err := translate(live, nil, committing); err != nil {
		t.Errorf("nil gave %v", err)
	}
	// Values that the server quotes are dropped.
	told := translate(live, &pgconn.PgError{Code: "23505", Message: "m", Detail: "d", Hint: "h", Where: "w", InternalQuery: "q", ConstraintName: "c"}, reading)
	var kept *pgconn.PgError
	if !errors.As(told, &kept) || kept.Message != "m" || kept.ConstraintName != "c" || kept.Detail+kept.Hint+kept.Where+kept.InternalQuery != "" {
		t.Errorf("%+v", kept)
	}
	told = translate(live, &pgconn.PgError{Code: "22P02", Message: "m", Routine: "r"}, reading)
	if !errors.As(told, &kept) || kept.Message == "m" || kept.Code != "22P02" || kept.Routine != "r" {
		t.Errorf("%+v", kept)
	}
	// An error of the operation's own is returned unchanged.
	mine := errors.New("mine")
	if err := meaning(live, fmt.Errorf("x: %w", &answer{mine}), committing); err != mine { //nolint:errorlint // the very one
		t.Errorf("an answer gave %v", err)
	}
	if err := meaning(live, lost, committing); !errors.Is(err, repo.ErrUnknownOutcome) {
		t.Errorf("no answer gave %v", err)
	}
}

// Errors are retried if, and only if, a retry may succeed.
func TestIsPassing(t *testing.T) {
	t.Parallel()
	passing := map[error]bool{repo.ErrContention: true, repo.ErrUnavailable: true}
	for _, sentinel := range repo.Sentinels() {
		if got := isPassing(fmt.Errorf("x: %w", sentinel)); got != passing[sentinel] {
			t.Errorf("%v: %t", sentinel, got)
		}
	}
	if !isPassing(&doubtError{repo.ErrUnknownOutcome}) || isPassing(context.Canceled) {
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
		{&storeError{repo.ErrUnknownOutcome, own}, true},
		{&storeError{repo.ErrUnavailable, own}, true},
		{&storeError{repo.ErrContention, own}, true},
		{fmt.Errorf("x: %w", context.Canceled), true},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), true},
		{pgx.ErrNoRows, false}, // an answer that the operation interprets
		{nil, false},
	} {
		if got := afterDoubt(false, test.err); got != test.err { //nolint:errorlint // the very one
			t.Errorf("%v without a doubt gave %v", test.err, got)
		}
		got := afterDoubt(true, test.err)
		var doubt *doubtError
		if errors.Is(got, repo.ErrUnknownOutcome) != test.unknown || errors.As(got, &doubt) != test.unknown {
			t.Errorf("%v in doubt gave %v", test.err, got)
		}
		if errors.Is(got, repo.ErrUnavailable) || errors.Is(got, repo.ErrContention) {
			t.Errorf("%v in doubt gave %v, which says that nothing was written", test.err, got)
		}
		if settled := settled(got); errors.As(settled, &doubt) {
			t.Errorf("%v settled gave %v, which is tried again", test.err, settled)
		}
	}
}
