package migrate

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Sessions of before version 11, and those that an older library creates after it, are
// in the list by activity. Appends of an older library keep it up to date. A session
// that is deleted while version 12 runs does not make it fail.
func TestActivityOfOlderSessions(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	migrator := open(t, databaseURL, schema.Options{})
	create := func() string {
		id := pgtest.Value[string](t, conn, "INSERT INTO sessions (id, updated_at) VALUES (gen_random_uuid(), now() - interval '2 hours') RETURNING id::text")
		pgtest.Exec(t, conn, "INSERT INTO session_counters (session_id, updated_at) VALUES ($1, now() - interval '1 hour')", id)
		return id
	}
	run := func(version int64) {
		t.Helper()
		if _, err := migrator.Run(t.Context(), schema.TargetUp(version)); err != nil {
			t.Fatal(err)
		}
	}
	run(10)
	before, used, doomed := create(), create(), create()
	run(11)
	between := create()
	doing := pgtest.Connect(t, databaseURL)
	tx, err := doing.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, tx, "SELECT FROM session_counters c JOIN sessions s ON s.id = c.session_id WHERE s.id = $1 FOR UPDATE", doomed)
	pgtest.Exec(t, tx, "DELETE FROM sessions WHERE id = $1", doomed)
	result := make(chan error, 1)
	go func() {
		_, err := migrator.Run(t.Context(), schema.TargetUp(12))
		result <- err
	}()
	pgtest.Await(t, patience, "version 12 waits for the deletion", func() bool {
		return pgtest.Value[bool](t, conn, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid')")
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err != nil {
		t.Fatal(err)
	}
	ago := func(id string) time.Duration {
		return pgtest.Value[time.Duration](t, conn, "SELECT coalesce((SELECT now() - active_at FROM session_activity WHERE session_id = $1), '-1 hour')", id).Round(time.Hour)
	}
	pgtest.Exec(t, conn, "UPDATE session_counters SET next_sequence = next_sequence + 1, updated_at = greatest(updated_at, clock_timestamp()) WHERE session_id = $1", used)
	for id, want := range map[string]time.Duration{
		before: time.Hour, used: 0, between: 2 * time.Hour, doomed: -time.Hour,
	} {
		if got := ago(id); got != want {
			t.Errorf("a session was active %v ago, want %v", got, want)
		}
	}
}
