package pgtest

import (
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
)

// AwaitLockWait waits until at least count sessions of the database wait for a lock that another
// one holds. The connection may be in a transaction.
func AwaitLockWait(t testing.TB, database Database, count int) {
	t.Helper()
	await.For(t, fmt.Sprintf("%d sessions wait for a lock", count), func() bool { return LockWaits(t, database) >= count })
}

// LockWaits returns how many sessions of the database wait for a lock.
func LockWaits(t testing.TB, database Database) int {
	t.Helper()
	Exec(t, database, "SELECT pg_stat_clear_snapshot()") // a transaction keeps what it saw first
	// The lock for extending a file is held for moments only.
	return Value[int](t, database, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event <> 'extend'`)
}
