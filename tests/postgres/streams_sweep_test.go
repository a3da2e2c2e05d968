package postgres

import (
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Streams that have expired are removed in the store's own time, also where a statement may remove
// only a fraction of them: here a trigger cancels what removes more than 4 MiB, as a time limit does.
// A writer that opens a stream meanwhile does not wait for that.
func TestStreamSweepOfLargeParts(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	others, store := pgtest.NewPool(t, databaseURL), process(t, databaseURL)
	pgtest.Exec(t, others, `INSERT INTO streams (id, key, owner, opener, began, fence, status, ttl, expires_at)
		SELECT gen_random_uuid(), 'old' || n, 'b', gen_random_uuid(), n, n, 'open', '1 minute', now() - interval '1 second' FROM generate_series(1, 4) n`)
	pgtest.Exec(t, others, `INSERT INTO stream_parts (stream_id, sequence, data)
		SELECT id, n, convert_to(repeat('x', 1 << 20), 'UTF8') FROM streams, generate_series(1, 10) n`)
	pgtest.Exec(t, others, `CREATE FUNCTION limited() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM pg_advisory_xact_lock_shared(1);
		IF (SELECT sum(octet_length(data)) FROM removed) > 4 << 20 THEN RAISE EXCEPTION 'too long' USING ERRCODE = 'query_canceled'; END IF;
		RETURN NULL; END $$`)
	pgtest.Exec(t, others, `CREATE TRIGGER limited AFTER DELETE ON stream_parts REFERENCING OLD TABLE AS removed
		FOR EACH STATEMENT EXECUTE FUNCTION limited()`)
	// The naive way: as many parts as there may be, however large.
	if _, err := others.Exec(t.Context(), "DELETE FROM stream_parts"); err == nil {
		t.Fatal("all parts may be removed at once")
	}
	release := lock(t, others, "SELECT pg_advisory_xact_lock(1)")
	openStream(t, store, "new")
	pgtest.AwaitLockWait(t, others, 1)
	openStream(t, store, "beside a sweep that is stuck")
	release()
	await.For(t, "the streams are removed", func() bool {
		openStream(t, store, "new")
		return pgtest.Value[int](t, others, "SELECT count(*) FROM streams WHERE key LIKE 'old%'") == 0
	})
	if left := pgtest.Value[int](t, others, "SELECT count(*) FROM stream_parts"); left != 0 {
		t.Errorf("%d parts are left", left)
	}
}
