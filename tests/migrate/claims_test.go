package migrate

import (
	"testing"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Plans that were queued before version 16 are in the queue after version 17, and those that
// an older library moves in between are where they should be. A plan that is moved while
// version 17 runs is not in the queue.
func TestQueueOfOlderPlans(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	migrator := open(t, databaseURL, schema.Options{})
	run := func(version int64) {
		t.Helper()
		if _, err := migrator.Run(t.Context(), schema.TargetUp(version)); err != nil {
			t.Fatal(err)
		}
	}
	use := func() string {
		return pgtest.Value[string](t, conn, `INSERT INTO plans (id, namespace, action_name, root_id, phase, state)
			SELECT m.id, 'local', 'local/a', m.id, 'strategize', 'queued' FROM (SELECT gen_random_uuid() AS id) AS m RETURNING id::text`)
	}
	const start = "UPDATE plans SET state = 'processing' WHERE id = $1"
	run(15)
	pgtest.Exec(t, conn, "INSERT INTO actions (name, namespace, reusable, read_only) VALUES ('local/a', 'local', true, false)")
	waits, started, moved, cancelled := use(), use(), use(), use()
	pgtest.Exec(t, conn, start, started)
	run(16)
	between, again := use(), moved
	pgtest.Exec(t, conn, start, moved)
	pgtest.Exec(t, conn, "UPDATE plans SET phase = 'execute', state = 'queued' WHERE id = $1", again)
	tx, err := pgtest.Connect(t, databaseURL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, tx, "UPDATE plans SET state = 'cancelled', cancelled_at = now(), cancel_reason = 'x' WHERE id = $1", cancelled)
	result := make(chan error, 1)
	go func() {
		_, err := migrator.Run(t.Context(), schema.TargetUp(17))
		result <- err
	}()
	pgtest.Await(t, patience, "version 17 waits for the plan", func() bool {
		return pgtest.Value[bool](t, conn, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid')")
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{waits: "strategize", started: "", moved: "execute", cancelled: "", between: "strategize"} {
		got := pgtest.Value[string](t, conn, "SELECT coalesce((SELECT phase FROM plan_queue WHERE plan_id = $1), '')", id)
		if got != want {
			t.Errorf("in the queue at %q, want %q", got, want)
		}
	}
}
