package migrate

import (
	"strings"
	"syscall"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A migrator is killed in the middle of a version: it has created two tables, and waits at the
// third. The server notices by itself, and rolls back; a migrator that waits takes over, and
// one that comes later finds everything done.
// Guarantee: Migrations: A killed migrator leaves no lock behind.
func TestWaitingMigratorTakesOverFromAKilledOne(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	gate := newGate(t, databaseURL, "messages")
	killed := agentstore(t, databaseURL, "migrate", "up", "--lock-timeout", "1h")
	gate.waitFor(t, 1, 1)
	if got := pgtest.Value[int64](t, gate.look, heldLocks, lockID); got != 1 {
		t.Fatalf("%d sessions hold the lock during the migration", got)
	}
	next := agentstore(t, databaseURL, "migrate", "up", "--lock-timeout", "1h")
	gate.waitFor(t, 2, 1)
	await.For(t, "the next one has tried to get the lock", func() bool {
		return pgtest.Value[bool](t, gate.look, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'agentstore migrate' AND query LIKE '%pg_try_advisory_lock%')`)
	})
	if err := killed.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed.exit(t)
	// The gate is still closed, so only the client's death ends the wait. The next one creates
	// the first two tables again: nothing is left of them.
	gate.waitFor(t, 1, 1)
	gate.open(t)
	if code := next.exit(t); code != 0 || !strings.Contains(next.stderr.String(), "waiting for it") {
		t.Errorf("exit code %d: %s", code, next.stderr.String())
	}
	if err := open(t, databaseURL, schema.Options{}).Validate(t.Context()); err != nil {
		t.Error(err)
	}
	if got := pgtest.Value[int64](t, gate.look, heldLocks, lockID); got != 0 {
		t.Errorf("%d locks left behind", got)
	}
}

func TestSignalRollsBackAndFreesTheLock(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewEmptyDatabase(t)
			look := pgtest.Connect(t, databaseURL)
			gate := newGate(t, databaseURL, "messages")
			process := agentstore(t, databaseURL, "migrate", "up", "--lock-timeout", "1h", "--progress-every", "20ms")
			gate.waitFor(t, 1, 1)
			await.For(t, "a line that it still runs", func() bool { return strings.Contains(process.stderr.String(), "still running after") })
			if err := process.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if code := process.exit(t); code != 130 {
				t.Errorf("exit code %d: %s", code, process.stderr.String())
			}
			if !strings.Contains(process.stdout.String(), "rolled back") {
				t.Errorf("stdout %q, stderr %q", process.stdout.String(), process.stderr.String())
			}
			await.For(t, "the lock is free", func() bool {
				return pgtest.Value[int64](t, look, heldLocks, lockID) == 0
			})
			if pgtest.Value[bool](t, look, "SELECT to_regclass('sessions') IS NOT NULL") {
				t.Error("half a version is left")
			}
		})
	}
}
