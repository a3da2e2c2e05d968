package pgtest

import (
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
)

// Unsubscribe drops a subscription, and leaves its publisher's slot. It first waits until all tables are copied: the slot
// of one that is still being copied is made when older transactions have ended, and the one that drops it would wait for that.
func Unsubscribe(t testing.TB, subscriber Database, name string) {
	t.Helper()
	await.For(t, "all tables are copied", func() bool {
		return Value[bool](t, subscriber, `SELECT NOT EXISTS (SELECT FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid
			WHERE s.subname = $1 AND r.srsubstate <> 'r')`, name)
	})
	Exec(t, subscriber, "ALTER SUBSCRIPTION "+name+" DISABLE")
	Exec(t, subscriber, "ALTER SUBSCRIPTION "+name+" SET (slot_name = NONE)")
	Exec(t, subscriber, "DROP SUBSCRIPTION "+name)
}
