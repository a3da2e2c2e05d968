package postgres

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Children are added under the lock of the tree's root: adding one waits for that
// lock.
func TestChildWaitsForTheTree(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	f := newFamily(t, store)
	release := lock(t, store.Pool(), "UPDATE plans SET depth = depth WHERE id = $1", f.root.String())
	made := make(chan error, 1)
	go func() {
		_, err := store.Plans().Use(t.Context(), f.action, repo.UseAction{ParentID: f.root})
		made <- err
	}()
	pgtest.AwaitLockWait(t, store.Pool(), 1)
	release()
	if err := <-made; err != nil {
		t.Error(err)
	}
}

// A plan has at most limits.MaxChildPlans children.
func TestChildLimit(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	f := newFamily(t, store)
	pgtest.Exec(t, store.Pool(), `INSERT INTO plans (id, namespace, action_name, root_id, parent_id, depth, phase, state)
		SELECT gen_random_uuid(), p.namespace, p.action_name, p.id, p.id, 1, 'strategize', 'queued'
		FROM plans p, generate_series(1, $2 - 1 - (SELECT count(*) FROM plans c WHERE c.parent_id = $1)) WHERE p.id = $1`,
		f.root.String(), limits.MaxChildPlans)
	for _, want := range []error{nil, repo.ErrLimit} {
		if _, err := store.Plans().Use(t.Context(), f.action, repo.UseAction{ParentID: f.root}); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
