package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Streams that have expired are removed in the store's own time, also where a statement may take
// only a fraction of what removing all of them takes, and the callers' deadlines are short.
func TestStreamSweepOfLargeParts(t *testing.T) {
	t.Parallel()
	const timeout = 100 * time.Millisecond
	parts := pgtest.Choose(1000, 200)
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "ALTER TABLE stream_parts ALTER data SET STORAGE EXTERNAL") // not compressed, as what is random is not
	pgtest.Exec(t, conn, `INSERT INTO streams (id, key, owner, opener, began, fence, status, ttl, expires_at)
		SELECT gen_random_uuid(), 'old' || n, 'b', gen_random_uuid(), n, n, 'open', '1 minute', now() - interval '1 second' FROM generate_series(1, 4) n`)
	pgtest.Exec(t, conn, `INSERT INTO stream_parts (stream_id, sequence, data)
		SELECT id, n, convert_to(repeat('x', 1 << 20), 'UTF8') FROM streams, generate_series(1, $1) n`, parts/4)

	// The naive way: as many parts as there may be, however large.
	naive := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, naive, fmt.Sprintf("SET statement_timeout = %d", timeout.Milliseconds()))
	if _, err := naive.Exec(t.Context(), "DELETE FROM stream_parts"); err == nil {
		t.Fatal("removing all parts at once takes no longer than a statement may")
	}

	store := process(t, pgtest.WithParameter(databaseURL, "statement_timeout", fmt.Sprint(timeout.Milliseconds())))
	begun, longest, opened := time.Now(), time.Duration(0), 0
	await.For(t, "the streams are removed", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		call := time.Now()
		if _, err := store.Streams().Open(ctx, repo.NewStream{Key: "new", Owner: "x"}); err == nil {
			longest, opened = max(longest, time.Since(call)), opened+1
		}
		time.Sleep(10 * time.Millisecond)
		return pgtest.Value[int](t, conn, "SELECT count(*) FROM streams WHERE key LIKE 'old%'") == 0
	})
	t.Logf("%d MiB removed after %v; %d calls of Open took at most %v", parts, time.Since(begun).Round(time.Millisecond), opened, longest)
	if left := pgtest.Value[int](t, conn, "SELECT count(*) FROM stream_parts"); left != 0 || opened == 0 {
		t.Errorf("%d parts are left, %d streams were opened", left, opened)
	}
}

// A store that is closed sweeps no more, and Close does not wait for the next sweep.
func TestStreamSweepEnds(t *testing.T) {
	t.Parallel()
	store := process(t, pgtest.NewDatabase(t))
	openStream(t, store, "a")
	begun := time.Now()
	if err := store.Close(); err != nil || time.Since(begun) > 30*time.Second {
		t.Errorf("Close took %v, error %v", time.Since(begun), err)
	}
}
