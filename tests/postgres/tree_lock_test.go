package postgres

import (
	"errors"
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

// A plan has so many children, and no more.
func TestChildLimit(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	f := newFamily(t, store)
	if _, err := store.Pool().Exec(t.Context(), `INSERT INTO plans (id, namespace, action_name, root_id, parent_id, depth, phase, state)
		SELECT gen_random_uuid(), p.namespace, p.action_name, p.id, p.id, 1, 'strategize', 'queued'
		FROM plans p, generate_series(1, $2 - 1 - (SELECT count(*) FROM plans c WHERE c.parent_id = $1)) WHERE p.id = $1`,
		uuidText(f.root), repo.MaxChildPlans); err != nil {
		t.Fatal(err)
	}
	for _, want := range []error{nil, repo.ErrLimit} {
		if _, err := store.Plans().Use(t.Context(), f.action, repo.UseAction{ParentID: f.root}); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
