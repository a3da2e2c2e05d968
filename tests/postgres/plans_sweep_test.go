package postgres

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A sweep ends what is behind a great many locked plans: past their deadline, under claims that have
// expired, and kept for long enough.
func TestSweepBehindWhatIsLocked(t *testing.T) {
	t.Parallel()
	const locked, free = 2200, 3
	for name, over := range map[string][]string{
		"overdue": {"UPDATE plan_queue SET deadline = now()"},
		"expired": {
			expireThem, "UPDATE plans SET updated_at = now() - interval '1 hour' WHERE updated_at > now() - interval '30 minutes'",
			"UPDATE plan_claims SET check_at = now() - interval '1 hour'",
		},
		"kept": {
			"UPDATE plans SET state = 'errored', error_message = 'x', keep_micros = 1 WHERE state = 'queued'",
			"UPDATE plan_ends SET delete_at = least(delete_at, now())",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
			end := func(count int) {
				queueMany(t, store.Pool(), "queue", count)
				for _, statement := range over {
					pgtest.Exec(t, store.Pool(), statement)
				}
			}
			end(locked)
			tx := beginOn(t, store.Pool())
			pgtest.Exec(t, tx, lockThem)
			end(free)
			if swept, err := store.Plans().Sweep(t.Context(), 0); err != nil || swept != free {
				t.Errorf("swept %d plans, %v", swept, err)
			}
		})
	}
}
