package files

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/files"
	"github.com/seed-df90f812/agentstore/files/filespg"
	"github.com/seed-df90f812/agentstore/files/filestest"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// newBlobs returns those of a store's database.
func newBlobs(t testing.TB, store *agentstore.Store) files.Blobs {
	t.Helper()
	blobs, err := filespg.New(store.Pool())
	if err != nil {
		t.Fatal(err)
	}
	return blobs
}

// newFiles returns those of the default namespace.
func newFiles(t testing.TB, store *agentstore.Store, options files.Options) *files.Files {
	t.Helper()
	f, err := files.New(store, "", newBlobs(t, store), options)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// elapse lets time pass for all that files have in state.
func elapse(t testing.TB, store *agentstore.Store, d time.Duration) {
	t.Helper()
	if _, err := store.Pool().Exec(t.Context(), `UPDATE state_values v SET updated_at = v.updated_at - $1::interval FROM state_scopes s
		WHERE s.id = v.scope_id AND s.name LIKE '%files/shard/%'`, d); err != nil {
		t.Error(err)
	}
}

// Guarantee: Files: The same bytes are kept once in a namespace, and never across.
func TestFiles(t *testing.T) {
	t.Parallel()
	filestest.Run(t, func(t *testing.T) filestest.Store {
		store := pgtest.NewStore(t, agentstore.Options{})
		return filestest.Store{Store: store, Blobs: newBlobs(t, store), Elapse: func(d time.Duration) { elapse(t, store, d) }}
	})
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	blobs := newBlobs(t, pgtest.NewStore(t, agentstore.Options{}))
	filestest.RunBlobs(t, func(*testing.T) files.Blobs { return blobs })
	if _, err := filespg.New(nil); err == nil {
		t.Error("there is no pool")
	}
}
