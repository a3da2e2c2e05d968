package migrate

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestLockTimeout(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	holder := holdLock(t, databaseURL)
	try := func(timeout time.Duration) (waiting int) {
		t.Helper()
		migrator := open(t, databaseURL, schema.Options{LockTimeout: timeout, Progress: func(event schema.Event) {
			if event.Kind == schema.EventWaiting {
				waiting++
			}
		}})
		_, err := migrator.Run(t.Context(), schema.TargetLatest())
		var locked *schema.LockedError
		if !errors.Is(err, schema.ErrLocked) || !errors.As(err, &locked) {
			t.Fatalf("%s: %v", timeout, err)
		}
		if want := int64(holder.PgConn().PID()); locked.HolderPID != want {
			t.Errorf("%s: holder %d, want %d", timeout, locked.HolderPID, want)
		}
		if locked.Waited < timeout {
			t.Errorf("%s: gave up after %s", timeout, locked.Waited)
		}
		return waiting
	}
	if waiting := try(-1); waiting != 0 {
		t.Errorf("without a timeout: reported %d times that it waits", waiting)
	}
	// On a slow machine the first look alone may take the whole timeout.
	timeout, waiting := 100*time.Millisecond, 0
	for ; waiting == 0; timeout *= 2 {
		waiting = try(timeout)
	}
	if waiting != 1 {
		t.Errorf("reported %d times that it waits", waiting)
	}
	if pgtest.Value[bool](t, holder, "SELECT to_regclass('agentstore_migrations') IS NOT NULL") {
		t.Error("a run without the lock created the version table")
	}
	if code, _, stderr := execute(t.Context(), t, databaseURL, "migrate", "up", "--lock-timeout", "0"); code != 5 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestContextEndsTheWaitForTheLock(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	holdLock(t, databaseURL)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := open(t, databaseURL, schema.Options{LockTimeout: time.Hour, Progress: func(event schema.Event) {
		if event.Kind == schema.EventWaiting {
			cancel()
		}
	}}).Run(ctx, schema.TargetLatest())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A database that is up to date needs no lock: many replicas can start while one
// migrates.
func TestUpToDateTakesNoLock(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t)
	holdLock(t, databaseURL)
	steps, err := open(t, databaseURL, schema.Options{LockTimeout: -1}).Run(t.Context(), schema.TargetLatest())
	if err != nil || len(steps) != 0 {
		t.Errorf("steps %v, error %v", steps, err)
	}
}

// A transaction pooler would run the version in another session than the one with the
// lock. Here the session releases the lock itself.
func TestVersionIsNotCommittedWithoutTheLock(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	migrations := fstest.MapFS{"0001_a.sql": file("CREATE TABLE a (); SELECT pg_advisory_unlock_all();", "DROP TABLE a;")}
	_, err := open(t, databaseURL, schema.Options{Migrations: migrations}).Run(t.Context(), schema.TargetLatest())
	if !errors.Is(err, schema.ErrPooled) {
		t.Errorf("got %v, want ErrPooled", err)
	}
	if pgtest.Value[bool](t, pgtest.Connect(t, databaseURL), "SELECT to_regclass('a') IS NOT NULL") {
		t.Error("the version was committed")
	}
}

// A migrator works with a pool whose only connection is in use.
func TestMigratorFromABusyPool(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	pool := pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) { c.MaxConns = 1 })
	busy, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Release()
	migrations := fstest.MapFS{"0001_a.sql": file("CREATE TABLE a ();", "DROP TABLE a;")}
	migrator, err := schema.New(pool, schema.Options{Migrations: migrations})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Run(t.Context(), schema.TargetLatest()); err != nil {
		t.Error(err)
	}
	if err := migrator.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}
