package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// NewStore opens a store on a new database.
func NewStore(t testing.TB, options agentstore.Options) *agentstore.Store {
	t.Helper()
	return OpenStore(t, NewDatabase(t), options)
}

// OpenStore opens a store that is closed at the test's end. The test fails if one of its
// connections is then still in use.
func OpenStore(t testing.TB, databaseURL string, options agentstore.Options) *agentstore.Store {
	t.Helper()
	store := open(t, databaseURL, options)
	if pool := store.Pool(); pool != nil { // a store in memory has none
		t.Cleanup(func() { CheckReturned(t, pool) })
	}
	return store
}

// Opener returns a function that opens stores for subtests on one database, and so on
// one pool. Its connections are checked when the last subtest has ended.
func Opener(t testing.TB, databaseURL string, options agentstore.Options) func(t *testing.T) repo.Store {
	t.Helper()
	OpenStore(t, databaseURL, options)
	return func(t *testing.T) repo.Store {
		t.Helper()
		return open(t, databaseURL, agentstore.Options{})
	}
}

// OpenPool opens a store on a pool of NewPool, which checks that its connections are
// returned. The store is closed at the test's end.
func OpenPool(t testing.TB, pool *pgxpool.Pool, options agentstore.Options) *agentstore.Store {
	t.Helper()
	store, err := agentstore.OpenPool(t.Context(), pool, options)
	return closed(t, store, err)
}

func open(t testing.TB, databaseURL string, options agentstore.Options) *agentstore.Store {
	t.Helper()
	store, err := agentstore.Open(t.Context(), databaseURL, options)
	return closed(t, store, err)
}

// closed closes a store that was opened at the test's end.
func closed(t testing.TB, store *agentstore.Store, err error) *agentstore.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// CountDense reads a session, checks that its sequences are 0, 1, 2, …, and returns
// the number of its messages.
func CountDense(t testing.TB, store repo.Repositories, session repo.ID) (count int64) {
	t.Helper()
	for message, err := range store.Sessions().Messages(t.Context(), session, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if message.Sequence != count {
			t.Fatalf("sequence %d after %d messages", message.Sequence, count)
		}
		count++
	}
	return count
}

// NewSession makes a session and returns its id.
func NewSession(t testing.TB, store repo.Repositories) repo.ID {
	t.Helper()
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	return session.ID
}
