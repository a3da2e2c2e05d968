package pgbouncer

import (
	"context"
	"fmt"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Behind a transaction pooler followers have no notifications, and leave none of its
// sessions listening: they poll. What is written behind a pooler is announced to
// stores that are connected to the server.
func TestFollow(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	pooled := pgtest.OpenStore(t, withMode(pgtest.NewBouncer(t, databaseURL, "transaction", poolerSessions), documentedMode), agentstore.Options{MaxConns: 8})
	direct := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	id := pgtest.NewSession(t, pooled)
	for next := range int64(4) {
		for name, writer := range map[string]*agentstore.Store{"pooled": pooled, "direct": direct} {
			if _, err := writer.Sessions().Append(t.Context(), id, message(fmt.Sprint(name, next))); err != nil {
				t.Fatal(err)
			}
		}
		for name, reader := range map[string]*agentstore.Store{"pooled": pooled, "direct": direct} {
			if !read(t, reader, id, 2*next, 2*next+2) {
				t.Fatalf("%s did not get what was written", name)
			}
		}
	}
	// Those that poll wait for what the others write.
	got := make(chan bool, 1)
	go func() { got <- read(t, pooled, id, 8, 9) }()
	if _, err := direct.Sessions().Append(t.Context(), id, message("last")); err != nil {
		t.Fatal(err)
	}
	if !await.Value(t, "what the poll finds", got) {
		t.Error("the poll found nothing")
	}
	if listening := pgtest.Value[int](t, conn, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'listen %'`); listening > 1 {
		t.Errorf("%d sessions listen, want the direct one at most", listening)
	}
	// Transactions that are open together have all of the pooler's sessions.
	for range poolerSessions {
		tx, err := pooled.Pool().Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		var channels int
		if err := tx.QueryRow(t.Context(), "SELECT count(*) FROM pg_listening_channels()").Scan(&channels); err != nil {
			t.Fatal(err)
		}
		if channels > 0 {
			t.Error("a session of the pooler listens")
		}
	}
}

const poolerSessions = 3

// read follows until a sequence.
func read(t *testing.T, store *agentstore.Store, id repo.ID, from, until int64) bool {
	for m, err := range store.Sessions().Follow(t.Context(), id, from) {
		if err != nil || m.Sequence != from {
			t.Errorf("message %d, %v, want message %d", m.Sequence, err, from)
			return false
		}
		if from++; from == until {
			return true
		}
	}
	return false
}
