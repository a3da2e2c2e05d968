package grants

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func entry() repo.AuditEntry {
	return repo.AuditEntry{ID: repo.NewID(), OccurredAt: time.Now(), Type: events.ToolInvoked, Actor: "agent"}
}

// The audit role records, quarantines, seals and reads the log. It cannot prune, hold or
// release.
func TestAuditRole(t *testing.T) {
	t.Parallel()
	g := newGranted(t)
	store := pgtest.OpenStore(t, g.auditWrite, agentstore.Options{})
	sink, err := store.AuditLog().Sink(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sink.Close() }()
	early := entry()
	early.OccurredAt = time.Date(2003, 3, 3, 0, 0, 0, 0, time.UTC)
	if got, err := sink.Record(t.Context(), []repo.AuditEntry{entry(), early}); err != nil || got.Written != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := sink.Quarantine(t.Context(), auditlog.Poison{ID: repo.NewID(), Document: []byte{0}, Reason: "x"}); err != nil {
		t.Error(err)
	}
	sealed, err := store.AuditLog().Seal(t.Context(), 10, func(u auditlog.Unsealed, _ auditlog.HashReader) (auditlog.Seal, error) {
		leaves := make([][32]byte, len(u.Entries))
		return auditlog.Seal{Leaves: leaves, Hidden: leaves, Hashes: leaves, Checkpoint: auditlog.Checkpoint{Size: 2, Note: []byte{1}}}, nil
	})
	if err != nil || sealed != 2 {
		t.Errorf("sealed %d, %v", sealed, err)
	}
	if _, err := store.AuditLog().Leaf(t.Context(), early.ID); err != nil {
		t.Error(err)
	}
	if _, err := store.AuditLog().Strays(t.Context(), 10); err != nil {
		t.Error(err)
	}
	if findings, err := store.AuditLog().Doctor(t.Context()); err != nil || len(findings) != 1 || findings[0].Check != "quarantine" {
		t.Errorf("the doctor's findings for the roles: %+v, %v", findings, err)
	}
	if _, err := store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: time.Now()}); !errors.Is(err, repo.ErrPermission) {
		t.Errorf("prune: %v", err)
	}
	if err := store.AuditLog().Hold(t.Context(), auditlog.Hold{PlanID: repo.NewID(), Reason: "x"}); !errors.Is(err, repo.ErrPermission) {
		t.Errorf("hold: %v", err)
	}
}

// No role can change entries, or bypass the sealer's queue.
func (g granted) testNobodyChangesTheAuditTrail(t *testing.T) {
	for _, role := range []string{g.application, g.reader, g.auditWrite} {
		denied(t, role,
			"UPDATE audit_entries SET actor = 'x'", "DELETE FROM audit_entries", "TRUNCATE audit_entries",
			"UPDATE audit_leaves SET hash = hash", "DELETE FROM audit_leaves", "DELETE FROM audit_hashes", "DELETE FROM audit_checkpoints",
			"SET agentstore.audit_prune = 'on'; DELETE FROM audit_entries", "SET agentstore.audit_prune = 'on'; UPDATE audit_leaves SET pruned_by = gen_random_uuid()",
			"INSERT INTO audit_holds (kind, subject, reason) VALUES ('plan', gen_random_uuid(), 'x')", "DELETE FROM audit_holds",
			"ALTER TABLE audit_entries DISABLE TRIGGER ALL", "SET session_replication_role = replica",
		)
	}
	// Only the database sets times of recording, nonces and marks of leaves.
	for _, role := range []string{g.application, g.auditWrite} {
		denied(t, role,
			"INSERT INTO audit_entries (occurred_at, id, type, recorded_at) VALUES (now(), gen_random_uuid(), 'x', now())",
			"INSERT INTO audit_entries (occurred_at, id, type, salts) VALUES (now(), gen_random_uuid(), 'x', '{a,b,c,d}')",
			"COPY audit_entries (occurred_at, id, type, recorded_at) FROM STDIN",
			"INSERT INTO audit_quarantine (id, document, reason, created_at) VALUES (gen_random_uuid(), '', '', now())",
			"INSERT INTO audit_leaves (sequence, occurred_at, entry_id, hash, pruned_by) VALUES (9, now(), gen_random_uuid(), '', gen_random_uuid())",
			"INSERT INTO audit_checkpoints (size, root, note, created_at) VALUES (9, '', '', now())",
			"INSERT INTO audit_unsealed (recorded_at, entry_id) VALUES (now(), gen_random_uuid())",
			"UPDATE audit_unsealed SET recorded_at = now()", "UPDATE audit_checkpoints SET note = ''",
		)
	}
	denied(t, g.application,
		"INSERT INTO session_counters (session_id, updated_at, fence) VALUES (gen_random_uuid(), now(), 7)",
		"UPDATE session_counters SET session_id = gen_random_uuid()")
	for _, role := range []string{g.application, g.reader} {
		denied(t, role, "DELETE FROM audit_unsealed", "INSERT INTO audit_leaves (sequence) VALUES (1)",
			"INSERT INTO audit_hashes (index) VALUES (1)", "INSERT INTO audit_checkpoints (size) VALUES (1)")
	}
}
