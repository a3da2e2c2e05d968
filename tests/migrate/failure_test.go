package migrate

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestFailedVersionIsRolledBackAndNamed(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	migrations := fstest.MapFS{
		"0001_first.sql":  file("CREATE TABLE first ();", "DROP TABLE first;"),
		"0002_second.sql": file("CREATE TABLE second ();\nSELECT 1/0;", "DROP TABLE second;"),
		"0003_third.sql":  file("CREATE TABLE third ();", "DROP TABLE third;"),
	}
	var kinds []schema.EventKind
	options := schema.Options{Migrations: migrations, Progress: func(event schema.Event) { kinds = append(kinds, event.Kind) }}
	steps, err := open(t, databaseURL, options).Run(t.Context(), schema.TargetLatest())
	var failed *schema.StepError
	var reason *pgconn.PgError
	if !errors.As(err, &failed) || failed.Step.Name != "0002_second" || !errors.As(err, &reason) || reason.Code != "22012" {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "22012") || strings.Contains(err.Error(), "OK") {
		t.Errorf("the error does not contain the cause: %v", err)
	}
	if len(steps) != 1 || steps[0].Version != 1 {
		t.Errorf("steps %v, want only the first", steps)
	}
	if got := len(kinds); got != 4 || kinds[3] != schema.EventFailed {
		t.Errorf("events %v", kinds)
	}
	checkVersion(t, conn, 1, "second")

	migrations["0002_second.sql"] = file("CREATE TABLE second ();", "DROP TABLE second;")
	if steps, err := open(t, databaseURL, options).Run(t.Context(), schema.TargetLatest()); err != nil || len(steps) != 2 {
		t.Errorf("repaired: steps %v, error %v", steps, err)
	}
}

func TestCancelInMidMigrationLeavesACleanState(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	migrations := fstest.MapFS{
		"0001_first.sql": file("CREATE TABLE first ();", "DROP TABLE first;"),
		"0002_long.sql":  file("CREATE TABLE long ();\nSELECT pg_sleep(3600);", "DROP TABLE long;"),
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	reason := errors.New("the deployment was called off")
	result := make(chan error, 1)
	migrator := open(t, databaseURL, schema.Options{Migrations: migrations})
	go func() {
		_, err := migrator.Run(ctx, schema.TargetLatest())
		result <- err
	}()
	await.For(t, "the long version runs", func() bool {
		return pgtest.Value[bool](t, conn, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep')")
	})
	cancel(reason)
	err := await.Value(t, "the end of the run", result)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, reason) {
		t.Errorf("got %v", err)
	}
	await.For(t, "the lock is free", func() bool { return pgtest.Value[int64](t, conn, heldLocks, lockID) == 0 })
	checkVersion(t, conn, 1, "long")

	migrations["0002_long.sql"] = file("CREATE TABLE long ();", "DROP TABLE long;")
	if _, err := open(t, databaseURL, schema.Options{Migrations: migrations, LockTimeout: -1}).Run(t.Context(), schema.TargetLatest()); err != nil {
		t.Errorf("the next run: %v", err)
	}
}

func TestWrongPasswordIsNotPrinted(t *testing.T) {
	t.Parallel()
	parsed, err := url.Parse(pgtest.NewEmptyDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	parsed.User = url.UserPassword("nobody", "hush-hush")
	databaseURL := parsed.String()
	_, err = schema.Open(t.Context(), databaseURL, schema.Options{})
	if err == nil {
		t.Skip("this server lets anybody in")
	}
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v", err)
	}
	code, stdout, stderr := execute(t.Context(), t, databaseURL, "migrate", "up", "--json")
	if code != 1 || strings.Contains(stdout+stderr, "hush") || !strings.Contains(stderr, "nobody") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// checkVersion checks the version, and that later versions left no table.
func checkVersion(t *testing.T, conn *pgx.Conn, want int64, absent string) {
	t.Helper()
	if got := pgtest.Value[int64](t, conn, "SELECT coalesce(max(version), 0) FROM agentstore_migrations"); got != want {
		t.Errorf("version %d, want %d", got, want)
	}
	if pgtest.Value[bool](t, conn, "SELECT to_regclass($1) IS NOT NULL", absent) {
		t.Errorf("table %s of a version that was rolled back exists", absent)
	}
}
