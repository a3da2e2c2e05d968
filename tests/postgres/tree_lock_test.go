package postgres

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// A tree grows under the lock of its root: a child waits for who has that.
func TestChildWaitsForTheTree(t *testing.T) {
	t.Parallel()
	store := openStore(t, agentstore.Options{MaxConns: 4})
	f := newFamily(t, store)
	release := lock(t, store.Pool(), "UPDATE plans SET depth = depth WHERE id = $1", uuidText(f.root))
	made := make(chan error, 1)
	go func() {
		_, err := store.Plans().Use(t.Context(), f.action, repo.UseAction{ParentID: f.root})
		made <- err
	}()
	awaitLockWait(t, store.Pool())
	release()
	if err := <-made; err != nil {
		t.Error(err)
	}
}
