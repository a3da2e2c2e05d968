package audit

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	trail "github.com/seed-df90f812/agentstore/audit"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/tests/tables"
)

// An entry that was pruned and then inserted again, by foreign SQL or by a transaction that does
// not see that it was pruned, does not stop prunes: the next one removes it, and what is left is
// the trail before.
func TestPruneOfAPrunedEntry(t *testing.T) {
	t.Parallel()
	for name, insert := range map[string]func(*testing.T, *agentstore.Store, repo.Audit, repo.AuditEntry) error{
		"SQL": func(t *testing.T, store *agentstore.Store, _ repo.Audit, entry repo.AuditEntry) error {
			_, err := store.Pool().Exec(t.Context(), "INSERT INTO audit_entries (id, occurred_at, type) VALUES ($1, $2, 'tool_invoked')", [16]byte(entry.ID), entry.OccurredAt)
			return err
		},
		"an old snapshot": func(t *testing.T, _ *agentstore.Store, old repo.Audit, entry repo.AuditEntry) error {
			return old.Record(t.Context(), entry)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := pgtest.NewStore(t, agentstore.Options{})
			prune := func() auditlog.Pruned {
				t.Helper()
				tables.Seal(t, store)
				pruned, err := store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: time.Now().Add(-time.Minute)})
				if err != nil {
					t.Fatal(err)
				}
				tables.Seal(t, store)
				return pruned
			}
			first, second := entryAt(time.Now().Add(-time.Hour)), entryAt(time.Now().Add(-time.Hour))
			tx, err := store.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			if err != nil {
				t.Fatal(err)
			}
			old := postgres.Bind(tx).Audit()
			if _, _, err = old.Count(t.Context(), repo.AuditFilter{}, 0); err == nil { // takes its snapshot
				err = store.Audit().Record(t.Context(), first)
			}
			if err != nil {
				t.Fatal(err)
			}
			prune()
			if err = insert(t, store, old, first); err == nil {
				err = tx.Commit(t.Context())
			}
			if err == nil {
				err = store.Audit().Record(t.Context(), second)
			}
			if err != nil {
				t.Fatal(err)
			}
			if pruned := prune(); pruned.Entries != 2 {
				t.Errorf("pruned %+v", pruned)
			}
			report, err := trail.Verify(t.Context(), store.AuditLog(), trail.VerifyOptions{})
			if err != nil || !report.Intact() || report.Pruned != 2 || report.Waiting != 0 {
				t.Errorf("%+v, %v", report, err)
			}
		})
	}
}
