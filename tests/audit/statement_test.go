package audit

import (
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// What is recorded is in the sealer's queue, whatever a session's role of
// replication.
func TestQueueWhateverTheRole(t *testing.T) {
	t.Parallel()
	conn := connect(t, pgtest.NewDatabase(t))
	for i, role := range []string{"origin", "local", "replica"} {
		exec(t, conn, "SET session_replication_role = "+role)
		exec(t, conn, "INSERT INTO audit_entries (occurred_at, id, type) VALUES (now(), gen_random_uuid(), 'tool_invoked')")
		if waiting := scan[int64](t, conn, "SELECT count(*) FROM audit_unsealed"); waiting != int64(i+1) {
			t.Errorf("%s: %d entries wait to be sealed, want %d", role, waiting, i+1)
		}
	}
}

// The database's own function removes nothing that an entry of the trail does not
// tell of, whatever it is called with.
func TestPruneOfNothing(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	sealedTrail(t, databaseURL)
	conn := connect(t, databaseURL)
	const prune = "SELECT pruned FROM audit_prune_batch('-infinity', 'infinity', '{}', "
	wantCode(t, conn, "22023", prune+"gen_random_uuid(), 1000)")
	entry := repo.AuditEntry{ID: repo.NewID(), Type: repo.EventAuditPruned, Details: []byte(`{"before":"2000-01-01T00:00:00Z"}`)}
	if err := open(t, databaseURL).Audit().Record(t.Context(), entry); err != nil {
		t.Fatal(err)
	}
	if pruned := scan[int64](t, conn, prune+"'"+uuid(entry.ID)+"', 1000)"); pruned != 0 {
		t.Errorf("%d entries went that are younger than the prune says", pruned)
	}
}
