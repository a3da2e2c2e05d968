package audit

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// All operations work on an empty trail, and on one that is completely sealed.
func TestEmpty(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]auditlog.Keeper{"postgres": pgtest.NewStore(t, agentstore.Options{}), "memory": memory.New()} {
		t.Run(name, func(t *testing.T) {
			nothing := func() {
				t.Helper()
				trail := store.AuditLog()
				sealed, err := trail.Seal(t.Context(), 10, func(auditlog.Unsealed, auditlog.HashReader) (auditlog.Seal, error) {
					return auditlog.Seal{}, errors.New("called")
				})
				if err != nil || sealed != 0 {
					t.Errorf("Seal: %d, %v", sealed, err)
				}
				if waiting, err := trail.Waiting(t.Context(), 0); err != nil || waiting != (auditlog.Waiting{}) {
					t.Errorf("Waiting: %+v, %v", waiting, err)
				}
				strays, err := trail.Strays(t.Context(), 0)
				lost, lostErr := trail.Lost(t.Context(), 0)
				if err != nil || lostErr != nil || len(strays)+len(lost) != 0 {
					t.Errorf("Strays, Lost: %v, %v, %v, %v", strays, lost, err, lostErr)
				}
			}
			nothing()
			if _, err := store.AuditLog().Checkpoint(t.Context()); !errors.Is(err, repo.ErrNotFound) {
				t.Errorf("Checkpoint: %v", err)
			}
			if leaves, err := store.AuditLog().Leaves(t.Context(), 0, 10); err != nil || len(leaves) != 0 {
				t.Errorf("Leaves: %v, %v", leaves, err)
			}
			if hashes, err := store.AuditLog().Hashes(t.Context(), nil); err != nil || len(hashes) != 0 {
				t.Errorf("Hashes: %v, %v", hashes, err)
			}
			if holds, err := store.AuditLog().Holds(t.Context()); err != nil || len(holds) != 0 {
				t.Errorf("Holds: %v, %v", holds, err)
			}
			if pruned, err := store.AuditLog().Prune(t.Context(), auditlog.Prune{Before: time.Now()}); err != nil || pruned != (auditlog.Pruned{}) {
				t.Errorf("Prune: %v, %v", pruned, err)
			}
			if page, err := store.Audit().List(t.Context(), repo.AuditFilter{}, repo.Page{}); err != nil || len(page.Items) != 0 || page.Next != "" {
				t.Errorf("List: %v, %v", page, err)
			}
			if count, more, err := store.Audit().Count(t.Context(), repo.AuditFilter{}, 0); err != nil || more || count != 0 {
				t.Errorf("Count: %v, %v", count, err)
			}
			var document bytes.Buffer
			if err := store.Audit().Export(t.Context(), repo.AuditFilter{}, &document); err != nil || document.Len() != 0 {
				t.Errorf("Export: %q, %v", document.String(), err)
			}

			if err := store.Audit().Record(t.Context(), entryAt(time.Now()), entryAt(time.Now())); err != nil {
				t.Fatal(err)
			}
			if sealed := seal(t, store, 1) + seal(t, store, 1); sealed != 2 {
				t.Errorf("sealed %d", sealed)
			}
			nothing()
			if checkpoint, err := store.AuditLog().Checkpoint(t.Context()); err != nil || checkpoint.Size != 2 {
				t.Errorf("Checkpoint: %+v, %v", checkpoint, err)
			}
		})
	}
}
