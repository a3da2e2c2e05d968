package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	storeapi "github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// No operation fails while a later version is applied and reverted, and an instance that is
// started then works, too.
// Guarantee: Migrations: A library works during and after a newer one's migration, if that allows it.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	service := startService(t, databaseURL)
	service.work(t)
	checkNaive := naiveReader(t, databaseURL)
	migrator := open(t, databaseURL, schema.Options{Migrations: later(t), LockTimeout: time.Hour})
	restarted := pgtest.WithParameter(databaseURL, "application_name", "restarted") // another pool
	for range pgtest.Choose(3, 1) {
		step(t, migrator, schema.TargetUp(expanding))
		service.work(t)
		checkNaive()
		pgtest.NewSession(t, pgtest.OpenStore(t, restarted, storeapi.Options{Migrate: true}))
		step(t, migrator, schema.TargetDownSteps(1))
		service.work(t)
		// Down of the rest is refused, after it has locked the writers out for its check.
		if steps, err := migrator.Run(t.Context(), schema.TargetDown(0)); !errors.Is(err, schema.ErrDataLoss) || len(steps) != 0 {
			t.Fatalf("down to nothing: %v, %v", steps, err)
		}
	}
	service.check(t)
}

// naiveReader prepares a query that does not name its columns. The function that it returns
// checks that the query fails when there are more.
func naiveReader(t *testing.T, databaseURL string) (check func()) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	if _, err := conn.Prepare(t.Context(), "naive", "SELECT * FROM messages LIMIT 0"); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, conn, "naive")
	return func() {
		_, err := conn.Exec(t.Context(), "naive")
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "0A000" {
			t.Errorf("SELECT * after the migration gave %v: the harness does not catch it", err)
		}
	}
}

// occupy uses the table messages, as a long report does, until it is freed.
func occupy(t *testing.T, databaseURL string) (free func()) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "BEGIN")
	pgtest.Exec(t, conn, "LOCK TABLE messages IN ACCESS SHARE MODE")
	return func() { pgtest.Exec(t, conn, "ROLLBACK") }
}

// queued waits until a version, or a writer behind it, waits for the table messages.
func queued(t *testing.T, conn *pgx.Conn, writer bool) {
	t.Helper()
	await.For(t, "messages is waited for", func() bool {
		return pgtest.Value[bool](t, conn, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND (mode <> 'AccessExclusiveLock') = $1
			AND relation = 'messages'::regclass AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`, writer)
	})
}

// While a version waits for a table, all others wait behind it. The migrator gives way each
// time that its lock timeout is over, and continues when the table is free.
// Guarantee: Migrations: A migration delays an append by half a second at most for each table.
func TestWaitingVersionLetsWritersPass(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	migrations := later(t)
	name := fmt.Sprintf("%04d_expand.sql", expanding)
	limit := "-- +goose Up\nCREATE TABLE waits AS SELECT current_setting('lock_timeout') AS bound;"
	migrations[name].Data = bytes.Replace(migrations[name].Data, []byte("-- +goose Up"), []byte(limit), 1)
	var yielded atomic.Int64
	migrator := open(t, databaseURL, schema.Options{Migrations: migrations, LockTimeout: time.Hour, Progress: func(event schema.Event) {
		if event.Kind == schema.EventYielded {
			yielded.Add(1)
		}
	}})
	service := startService(t, databaseURL, "append")
	free := occupy(t, databaseURL)
	ended := make(chan error, 1)
	go func() {
		_, err := migrator.Run(t.Context(), schema.TargetUp(expanding))
		ended <- err
	}()
	conn := pgtest.Connect(t, databaseURL)
	for range 2 {
		queued(t, conn, false)
		before := yielded.Load()
		await.For(t, "the version gives way", func() bool { return yielded.Load() > before })
		service.work(t) // the table is still occupied
	}
	free()
	if err := await.Value(t, "the end of the migration", ended); err != nil {
		t.Error(err)
	}
	service.check(t)
	bound, err := time.ParseDuration(pgtest.Value[string](t, conn, "SELECT bound FROM waits"))
	if err != nil || bound != 500*time.Millisecond {
		t.Errorf("a version waits for a table for %v, %v", bound, err)
	}
}

// The naive migrator waits for the table without a limit, and the writers wait with it.
func TestNaiveVersionHoldsUpWriters(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	service := startService(t, databaseURL, "append")
	free := occupy(t, databaseURL)
	ended := make(chan error, 1)
	migrating, conn := pgtest.Connect(t, databaseURL), pgtest.Connect(t, databaseURL)
	go func() {
		_, err := migrating.Exec(t.Context(), "SET lock_timeout = 0; ALTER TABLE messages ADD COLUMN extra int")
		ended <- err
	}()
	queued(t, conn, false)
	queued(t, conn, true)
	free()
	if err := await.Value(t, "the end of the naive migration", ended); err != nil {
		t.Error(err)
	}
	service.end()
}

func TestBusyTablesEndTheRun(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	occupy(t, databaseURL)
	migrator := open(t, databaseURL, schema.Options{
		Migrations: later(t), LockTimeout: -1,
		TableLockTimeout: 50 * time.Millisecond, // short: the table stays occupied, so it fires however late
	})
	_, err := migrator.Run(t.Context(), schema.TargetLatest())
	var failed *schema.StepError
	if !errors.Is(err, schema.ErrBusy) || !errors.As(err, &failed) || failed.Step.Version != expanding {
		t.Errorf("got %v", err)
	}
	if conn := pgtest.Connect(t, databaseURL); pgtest.Value[int64](t, conn, heldLocks, lockID) != 0 {
		t.Error("the migration lock is still held")
	}
}
