package postgres

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Health names the holder of an old snapshot, since when, and the dead versions that it keeps.
func TestHealth(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	pool := pgtest.NewPool(t, databaseURL)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	ctx := t.Context()
	id := pgtest.NewSession(t, store)

	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	pgtest.Exec(t, tx, "SET LOCAL application_name = 'a report'")
	pgtest.Exec(t, tx, "SELECT count(*) FROM sessions")
	pid := int(tx.Conn().PgConn().PID())
	for range 200 {
		if _, err := store.Sessions().Append(ctx, id, user("x")); err != nil {
			t.Fatal(err)
		}
	}
	is := func(h postgres.Holder) bool { return h.PID == pid }
	await.For(t, "the holder and the dead versions are seen", func() bool {
		health, err := store.Health(ctx)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(health.Holders, is)
		dead := slices.ContainsFunc(health.Tables, func(t postgres.TableHealth) bool { return t.Name == "session_counters" && t.Dead > 0 })
		if at < 0 || !dead {
			return false
		}
		h := health.Holders[at]
		if h.Kind != "session" || h.Name != "a report" || h.Age < 200 || time.Since(h.Since) > time.Hour || h.Since.After(time.Now().Add(time.Minute)) {
			t.Errorf("it is %+v", h)
		}
		return true
	})
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	health, err := store.Health(ctx)
	if err != nil || slices.ContainsFunc(health.Holders, is) {
		t.Errorf("after its end: %+v, %v", health.Holders, err)
	}
	memory, err := agentstore.Open(ctx, "memory://"+t.Name(), agentstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if health, err := memory.Health(ctx); err != nil || health.Holders != nil || health.Tables != nil {
		t.Errorf("in memory: %+v, %v", health, err)
	}
	if err := memory.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := memory.Health(ctx); err == nil {
		t.Error("a closed store has health")
	}
}

// A transaction that is idle has no snapshot at read committed. Once it has written, it keeps row
// versions all the same, and Health names it.
func TestHealthOfIdleTransaction(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	pool := pgtest.NewPool(t, databaseURL)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	id, other := pgtest.NewSession(t, store), pgtest.NewSession(t, store)
	tx, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	pgtest.Exec(t, tx, "UPDATE session_counters SET updated_at = updated_at WHERE session_id = $1", [16]byte(other))
	for range 200 {
		if _, err := store.Sessions().Append(t.Context(), id, user("x")); err != nil {
			t.Fatal(err)
		}
	}
	pgtest.Exec(t, pool, "VACUUM session_counters")
	await.For(t, "the versions that vacuum could not remove are seen", func() bool {
		return pgtest.Value[int64](t, pool, "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'session_counters'") >= 200
	})
	health, err := store.Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(health.Holders, func(h postgres.Holder) bool { return h.PID == int(tx.Conn().PgConn().PID()) })
	if at < 0 {
		t.Fatalf("there are no holders: %+v", health.Holders)
	}
	if h := health.Holders[at]; h.Age < 200 || h.Since.IsZero() {
		t.Errorf("it is %+v", h)
	}
}

// Long values are compressed by lz4 where the server has it, and the store says so.
func TestHealthOfCompression(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	want := "pglz"
	if pgtest.Value[bool](t, store.Pool(), "SELECT count(*) > 0 FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)") {
		want = "lz4"
	}
	health, err := store.Health(t.Context())
	if err != nil || health.Compression != want {
		t.Errorf("the compression is %q, want %q (%v)", health.Compression, want, err)
	}
	if want == "pglz" {
		return
	}
	id := pgtest.NewSession(t, store)
	text := strings.Repeat("a text of some words, which repeats itself ", 2000)
	if _, err := store.Sessions().Append(t.Context(), id, user(text)); err != nil {
		t.Fatal(err)
	}
	if got := pgtest.Value[string](t, store.Pool(), "SELECT pg_column_compression(content) FROM messages WHERE session_id = $1", id.String()); got != want {
		t.Errorf("a message is compressed by %q", got)
	}
}
