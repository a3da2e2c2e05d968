package postgres

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// grouped are writes that are made in groups. Each makes what it needs, and returns how to write once more.
var grouped = map[string]func(t *testing.T, store *agentstore.Store) (write func() error){
	"append": func(t *testing.T, store *agentstore.Store) func() error {
		id := pgtest.NewSession(t, store)
		return func() error { return second(store.Sessions().Append(t.Context(), id, user("x"))) }
	},
	"append of two": func(t *testing.T, store *agentstore.Store) func() error {
		id := pgtest.NewSession(t, store)
		return func() error { return second(store.Sessions().Append(t.Context(), id, user("x"), user("y"))) }
	},
	"turn": func(t *testing.T, store *agentstore.Store) func() error {
		id := pgtest.NewSession(t, store)
		return func() error {
			turn := repo.Turn{
				SessionID: id, ID: repo.NewID().String(), Messages: []repo.NewMessage{user("x")},
				State: []repo.StateChange{{Key: "k", Value: json.RawMessage("1")}},
			}
			return second(store.Sessions().AppendTurn(t.Context(), turn))
		}
	},
	"part": func(t *testing.T, store *agentstore.Store) func() error {
		stream, err := store.Streams().Open(t.Context(), repo.NewStream{Key: "k", Owner: "o", TTL: time.Hour, Session: pgtest.NewSession(t, store)})
		if err != nil {
			t.Fatal(err)
		}
		return func() (err error) {
			stream.Next, err = store.Streams().Append(t.Context(), stream, []byte("x"))
			return err
		}
	},
	"claim and move": func(t *testing.T, store *agentstore.Store) func() error {
		queuePlans(t, store, "a", 200)
		return func() error {
			claimed := claimOne(t, store, "a")
			return second(store.Plans().Transition(t.Context(), claimed.Plan.ID, repo.TransitionComplete, repo.Cause{Fence: claimed.Lease.Fence}))
		}
	},
	"renewal": func(t *testing.T, store *agentstore.Store) func() error {
		lease, err := store.Leases().Acquire(t.Context(), repo.NewLease{Key: repo.LeaseKey{Kind: "k", Name: "n"}, Owner: "o", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return func() error { return second(store.Leases().Renew(t.Context(), lease, time.Hour)) }
	},
}

// The tables were as small as can be when the server made its plans, which it keeps. Then an open snapshot keeps 20,000 versions of
// each row. A write reads a few blocks nevertheless.
// Guarantee: Messages: Beside an old snapshot no grouped write reads all versions of a row.
func TestGroupedWritesBesideASnapshot(t *testing.T) {
	t.Parallel()
	for name, prepare := range grouped {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			most := int64(60)
			if strings.HasPrefix(name, "claim") {
				most = 600 // it looks at many tables, and a plan has ten versions here, each of which has an index entry
			}
			if blocks := blocksBesideASnapshot(t, prepare); blocks > most {
				t.Errorf("a write reads %d blocks", blocks)
			}
		})
	}
}

// blocksBesideASnapshot returns how many blocks of tables and indexes a write reads.
func blocksBesideASnapshot(t *testing.T, prepare func(*testing.T, *agentstore.Store) func() error) int64 {
	t.Helper()
	const writes = 100
	databaseURL := pgtest.NewDatabase(t)
	conn, reader := pgtest.Connect(t, databaseURL), pgtest.Connect(t, databaseURL)
	leaveAlone(t, conn)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 2})
	write := prepare(t, store)
	repeat := func(n int) {
		t.Helper()
		for range n {
			if err := write(); err != nil {
				t.Fatal(err)
			}
		}
	}
	pgtest.Exec(t, conn, "VACUUM ANALYZE")
	repeat(20) // the server keeps its plans
	pgtest.Exec(t, reader, "BEGIN ISOLATION LEVEL REPEATABLE READ")
	pgtest.Value[int](t, reader, "SELECT 1")
	pgtest.Exec(t, conn, `DO $$ BEGIN
		FOR i IN 1..20000 LOOP
			UPDATE session_counters SET fence = fence;
			UPDATE leases SET fence = fence;
		END LOOP;
		FOR i IN 1..10 LOOP
			UPDATE plans SET version = version;
			UPDATE plan_claims SET owner = owner;
		END LOOP;
	END $$`)
	repeat(3) // the store learns where the rows are
	// The server counts what a process has read when that ends.
	read := func() int64 {
		t.Helper()
		return pgtest.Value[int64](t, conn, "SELECT sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0))::bigint FROM pg_statio_user_tables")
	}
	pgtest.Exec(t, conn, "SELECT pg_stat_force_next_flush()")
	before := read()
	repeat(writes)
	_ = store.Close()
	await.For(t, "the store's processes to end", func() bool {
		return pgtest.Value[int](t, conn, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'") == 2
	})
	return (read() - before) / writes
}
