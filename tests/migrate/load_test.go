package migrate

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	storeapi "github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const (
	// longWait is how long another client uses the tables that a version needs.
	longWait = 3 * time.Second
	// slack is how much longer than the lock timeout a statement may take, on a slow
	// machine.
	slack = 2 * time.Second
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
	yielded := 0
	migrator := open(t, databaseURL, schema.Options{Migrations: later(t), TableLockTimeout: 100 * time.Millisecond, Progress: func(event schema.Event) {
		if event.Kind == schema.EventYielded {
			yielded++
		}
	}})
	restarted := pgtest.WithParameter(databaseURL, "application_name", "restarted") // another pool
	for range 3 {
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
	service.check(t, patience)
	t.Logf("the versions gave way %d times", yielded)
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

// occupy uses the table messages, as a long report does, and releases it after
// longWait, or at the test's end.
func occupy(t *testing.T, databaseURL string) (freed <-chan struct{}) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "BEGIN")
	pgtest.Exec(t, conn, "LOCK TABLE messages IN ACCESS SHARE MODE")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-time.After(longWait):
		case <-t.Context().Done():
		}
		_ = conn.PgConn().Conn().Close()
	}()
	t.Cleanup(func() { <-ended })
	return ended
}

// While a version waits for a table, everybody else waits behind it. The migrator
// gives way repeatedly, and continues when the table is free.
// Guarantee: Migrations: A migration delays an append by half a second at most for each table.
func TestWaitingVersionLetsWritersPass(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	yielded := 0
	migrator := open(t, databaseURL, schema.Options{Migrations: later(t), Progress: func(event schema.Event) {
		if event.Kind == schema.EventYielded {
			yielded++
		}
	}})
	service := startService(t, databaseURL, "append")
	freed := occupy(t, databaseURL)
	step(t, migrator, schema.TargetUp(expanding))
	select {
	case <-freed:
	default:
		t.Error("the version did not need the table")
	}
	if yielded == 0 {
		t.Error("the version never gave way")
	}
	service.check(t, schema.DefaultTableLockTimeout+slack)
}

// The naive migrator waits for the table without a limit. The harness finds that the
// writers wait with it.
func TestNaiveVersionHoldsUpWriters(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	service := startService(t, databaseURL, "append")
	occupy(t, databaseURL)
	pgtest.Exec(t, pgtest.Connect(t, databaseURL), "ALTER TABLE messages ADD COLUMN extra int")
	service.end()
	if service.longest < schema.DefaultTableLockTimeout+slack {
		t.Errorf("no append took longer than %s: the harness does not catch the naive migrator", service.longest)
	}
}

func TestBusyTablesEndTheRun(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	occupy(t, databaseURL)
	migrator := open(t, databaseURL, schema.Options{Migrations: later(t), LockTimeout: -1, TableLockTimeout: 50 * time.Millisecond})
	_, err := migrator.Run(t.Context(), schema.TargetLatest())
	var failed *schema.StepError
	if !errors.Is(err, schema.ErrBusy) || !errors.As(err, &failed) || failed.Step.Version != expanding {
		t.Errorf("got %v", err)
	}
	if conn := pgtest.Connect(t, databaseURL); pgtest.Value[int64](t, conn, heldLocks, lockID) != 0 {
		t.Error("the migration lock is still held")
	}
}
