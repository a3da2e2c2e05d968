package audit

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Entries are queued for the sealer however they are inserted.
func TestQueue(t *testing.T) {
	t.Parallel()
	conn := pgtest.Connect(t, pgtest.NewDatabase(t))
	want := 0
	insert := func(rows int, sql string) {
		t.Helper()
		pgtest.Exec(t, conn, sql)
		want += rows
		if waiting := pgtest.Value[int](t, conn, "SELECT count(*) FROM audit_unsealed u JOIN audit_entries e ON e.id = u.entry_id AND e.recorded_at = u.recorded_at"); waiting != want {
			t.Errorf("%s: %d entries wait to be sealed, want %d", sql, waiting, want)
		}
	}
	insert(0, "INSERT INTO audit_entries (occurred_at, id, type) SELECT now(), gen_random_uuid(), 'x' WHERE false")
	insert(1, "INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'tool_invoked')")
	insert(1, "SET session_replication_role = local; INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'x'); RESET session_replication_role")
	rows := make([][]any, 1000)
	for i := range rows {
		rows[i] = []any{time.Now(), [16]byte(repo.NewID()), "tool_invoked"}
	}
	if _, err := conn.CopyFrom(t.Context(), pgx.Identifier{"audit_entries"}, []string{"occurred_at", "id", "type"}, pgx.CopyFromRows(rows)); err != nil {
		t.Fatal(err)
	}
	insert(1001, "INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'tool_invoked') ON CONFLICT DO NOTHING")
}

// A batch of a prune removes only what the prune's entry tells of, and nothing that was
// sealed after it or not at all.
func TestPruneBatch(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store, conn := pgtest.OpenStore(t, databaseURL, agentstore.Options{}), pgtest.Connect(t, databaseURL)
	told := time.Now().UTC().Truncate(time.Microsecond)
	batch := prunes{T: t, store: store, conn: conn}
	prune := func(details string) repo.AuditEntry {
		return repo.AuditEntry{ID: repo.NewID(), OccurredAt: told, Type: events.AuditPruned, Details: []byte(details)}
	}
	all, none, typed := prune(`{"before":"2100-01-01T00:00:00Z"}`), prune(`{"before":"2000-01-01T00:00:00Z"}`), prune(`{"before":"2100-01-01T00:00:00Z","types":["auth_failure"]}`)
	first := entryAt(told)
	held := prune(`{"before":"2100-01-01T00:00:00Z","held":{"plans":["` + first.ID.String() + `"]}}`)
	first.PlanID = first.ID
	for _, entries := range [][]repo.AuditEntry{{first}, {all, none, typed, held}, {entryAt(told)}} {
		if err := store.Audit().Record(t.Context(), entries...); err != nil {
			t.Fatal(err)
		}
		seal(t, store, 10)
	}
	if err := store.Audit().Record(t.Context(), entryAt(told)); err != nil { // is not sealed
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		by   repo.ID
		want int64
	}{
		"no entry": {repo.NewID(), 0}, "no prune's": {first.ID, 0}, "of older entries": {none.ID, 0}, "of other types": {typed.ID, 0}, "held": {held.ID, 0},
	} {
		if pruned := batch.naive(test.by); pruned != test.want {
			t.Errorf("%s: %d entries were removed", name, pruned)
		}
	}
	if pruned := batch.naive(all.ID); pruned != 1 {
		t.Errorf("%d entries were removed, want the one that was sealed before the prune", pruned)
	}
}

// Recording an entry with the id of a prune that is under way is refused, and does not
// affect it.
func TestPruneHasOneEntry(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	sealedAudit(t, databaseURL)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	if pruned, err := store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: time.Now()}); err != nil || pruned.Entries != 20 {
		t.Fatalf("pruned %+v, %v", pruned, err)
	}
	list, err := store.Audit().List(t.Context(), repo.AuditFilter{Type: events.AuditPruned}, repo.Page{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	double := list.Items[0]
	double.OccurredAt = double.OccurredAt.Add(-time.Hour)
	if err := store.Audit().Record(t.Context(), double); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("its double: %v", err)
	}
}

// An entry that the database silently drops is no known one: recording it fails.
func TestDroppedEntryIsNotKnown(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	pgtest.Exec(t, pgtest.Connect(t, databaseURL), `CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
		CREATE TRIGGER skip BEFORE INSERT ON audit_entries FOR EACH ROW EXECUTE FUNCTION skip()`)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	if err := store.Audit().Record(t.Context(), entryAt(time.Now())); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("recorded: %v", err)
	}
}

// Two that record one id with two contents at once do not both succeed.
func TestConflictAtOnce(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 8})
	for range 50 {
		entry := entryAt(time.Now())
		var written, refused atomic.Int32
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				own := entry
				own.Actor = "agent " + string(rune('0'+i))
				switch err := store.Audit().Record(t.Context(), own); {
				case err == nil:
					written.Add(1)
				case errors.Is(err, repo.ErrConflict):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if written.Load() != 1 || refused.Load() != 3 {
			t.Fatalf("%d were written, %d refused", written.Load(), refused.Load())
		}
	}
}
