package audit

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	trail "github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Entries are queued for the sealer, whatever session_replication_role is.
func TestQueueWhateverTheRole(t *testing.T) {
	t.Parallel()
	conn := pgtest.Connect(t, pgtest.NewDatabase(t))
	for i, role := range []string{"origin", "local", "replica"} {
		pgtest.Exec(t, conn, "SET session_replication_role = "+role)
		pgtest.Exec(t, conn, "INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'tool_invoked')")
		if waiting := pgtest.Value[int64](t, conn, "SELECT count(*) FROM audit_unsealed"); waiting != int64(i+1) {
			t.Errorf("%s: %d entries wait to be sealed, want %d", role, waiting, i+1)
		}
	}
}

// The function that prunes removes only what a prune's entry covers, whatever its
// arguments.
func TestPruneOfNothing(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	sealedAudit(t, databaseURL)
	conn := pgtest.Connect(t, databaseURL)
	const prune, older = "SELECT pruned FROM audit_prune_entries('-infinity', 'infinity', '{}', ", "SELECT pruned FROM audit_prune_batch('-infinity', 'infinity', '{}', "
	wantCode(t, conn, "22023", prune+"gen_random_uuid(), now(), 1000)")
	wantCode(t, conn, "22023", older+"gen_random_uuid(), 1000)")
	entry := repo.AuditEntry{ID: repo.NewID(), Type: repo.EventAuditPruned, Details: []byte(`{"before":"2000-01-01T00:00:00Z"}`)}
	if err := pgtest.OpenStore(t, databaseURL, agentstore.Options{}).Audit().Record(t.Context(), entry); err != nil {
		t.Fatal(err)
	}
	id, at := "'"+uuid(entry.ID)+"'", "'"+entry.ID.Timestamp().UTC().Format(time.RFC3339Nano)+"'"
	for _, sql := range []string{prune + id + ", " + at + ", 1000)", older + id + ", 1000)"} {
		if pruned := pgtest.Value[int64](t, conn, sql); pruned != 0 {
			t.Errorf("%d entries were removed that are younger than the prune's bound", pruned)
		}
	}
}

// A prune does not cover what was sealed after it, even if somebody later recorded an
// entry with its id and an earlier time.
func TestPruneOfWhatWasSealedLater(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store, conn := pgtest.OpenStore(t, databaseURL, agentstore.Options{}), pgtest.Connect(t, databaseURL)
	told := time.Now().UTC().Truncate(time.Microsecond)
	prune := repo.AuditEntry{ID: repo.NewID(), OccurredAt: told, Type: repo.EventAuditPruned, Details: []byte(`{"before":"2100-01-01T00:00:00Z"}`)}
	double := prune
	double.OccurredAt = told.Add(-time.Second)
	for _, entry := range []repo.AuditEntry{prune, entryAt(told), double} {
		if err := store.Audit().Record(t.Context(), entry); err != nil {
			t.Fatal(err)
		}
		seal(t, store, 1)
	}
	if err := store.Audit().Record(t.Context(), entryAt(told)); err != nil { // nor does it cover unsealed entries
		t.Fatal(err)
	}
	pruned := pgtest.Value[int64](t, conn, "SELECT pruned FROM audit_prune_entries('-infinity', 'infinity', '{}', $1, $2, 1000)", uuid(prune.ID), told)
	if pruned != 0 {
		t.Errorf("%d entries were removed that were sealed after the prune, or not at all", pruned)
	}
}

// Recording an entry with the id of a prune that is under way, and an earlier time,
// neither stops nor bounds that prune, nor do its removals count as that entry's.
func TestPruneBesideItsDouble(t *testing.T) {
	t.Parallel()
	for name, double := range map[string]string{
		"no prune's":    `('audit_pruned', '{}')`,
		"a lesser one":  `('audit_pruned', '{"before":"2000-01-01T00:00:00Z"}')`,
		"another type":  `('tool_invoked', '{}')`,
		"of all before": `('audit_pruned', '{"before":"2100-01-01T00:00:00Z","types":["auth_failure"]}')`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
			sealer, err := trail.NewSealer(store.AuditStore(), trail.SealerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			sealed := func() {
				t.Helper()
				if sealed, err := sealer.SealOnce(t.Context()); err != nil || sealed == 0 {
					t.Fatalf("sealed %d, %v", sealed, err)
				}
			}
			if err := store.Audit().Record(t.Context(), entryAt(time.Now()), entryAt(time.Now())); err != nil {
				t.Fatal(err)
			}
			sealed()
			conn := pgtest.Connect(t, databaseURL)
			// It is recorded after the prune's entry, and is behind it in the queue.
			pgtest.Exec(t, conn, `
				CREATE FUNCTION record_double() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN
					IF pg_trigger_depth() = 1 THEN
						INSERT INTO audit_entries (occurred_at, id, type, details)
						SELECT n.occurred_at - interval '1 microsecond', n.id, d.type, d.details::json
						FROM new_entries n, (VALUES `+double+`) AS d (type, details) WHERE n.type = 'audit_pruned';
					END IF;
					RETURN NULL;
				END $$;
				CREATE TRIGGER z_record_double AFTER INSERT ON audit_entries REFERENCING NEW TABLE AS new_entries
					FOR EACH STATEMENT EXECUTE FUNCTION record_double()`)
			pruned, err := store.AuditStore().Prune(t.Context(), repo.AuditPrune{Before: time.Now().AddDate(1, 0, 0)})
			if err != nil || pruned.Entries != 2 {
				t.Errorf("pruned %+v, %v", pruned, err)
			}
			if doubles := pgtest.Value[int](t, conn, "SELECT count(*) FROM audit_entries"); doubles != 2 {
				t.Errorf("%d entries with the id, want 2: the prune's and its double", doubles)
			}
			sealed()
			if report, err := trail.Verify(t.Context(), store.AuditStore(), trail.VerifyOptions{}); err != nil || len(report.Breaks) > 0 {
				t.Errorf("verifying found %+v, %v", report.Breaks, err)
			}
		})
	}
}
