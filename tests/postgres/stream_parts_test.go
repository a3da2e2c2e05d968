package postgres

import (
	"context"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A library before version 19 removes a stream in which it sees no part. One that comes
// between its look and its lock goes with the stream: it was not refused, and is not left
// behind.
func TestStreamGoesWithItsParts(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn, store := pgtest.Connect(t, pgtest.ReadCommitted(databaseURL)), pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	stream := openStream(t, store, "a")
	tx := beginTx(t, store)
	if _, err := postgres.Bind(tx).Streams().Append(t.Context(), stream, []byte("late")); err != nil {
		t.Fatal(err)
	}
	removed := make(chan error, 1)
	go func() { // as that library does: what it looks at, it does not look at again after the wait
		_, err := conn.Exec(context.Background(), `WITH empty AS (
				SELECT s.id FROM streams s WHERE (SELECT true FROM stream_parts p WHERE p.stream_id = s.id LIMIT 1) IS NULL FOR UPDATE
			) DELETE FROM streams s USING empty e WHERE s.id = e.id`)
		removed <- err
	}()
	awaitLockWait(t, store.Pool())
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	counts := pgtest.Value[string](t, conn, "SELECT (SELECT count(*) FROM streams) || ' streams, ' || (SELECT count(*) FROM stream_parts) || ' parts'")
	if counts != "0 streams, 0 parts" {
		t.Errorf("there are %s", counts)
	}
}
