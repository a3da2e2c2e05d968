package failover

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// pair is a primary with a migrated database, and its streaming replica.
type pair struct {
	primary, replica *pgtest.Cluster
	// url names both, and asks for the one that takes writes.
	url string
}

// newPair starts both. A synchronous primary answers a commit when the replica
// has it on disk.
func newPair(t *testing.T, synchronous bool) pair {
	t.Helper()
	primary := pgtest.NewCluster(t)
	var settings []string
	if synchronous {
		settings = append(settings, "synchronous_standby_names=replica", "synchronous_commit=on")
	}
	primary.Start(t, settings...)
	replica := primary.Replica(t)
	replica.Start(t)
	if err := schema.Up(t.Context(), primary.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	return pair{primary, replica, fmt.Sprintf(
		"postgres://postgres:%s@127.0.0.1:%s,127.0.0.1:%s/postgres?sslmode=disable&target_session_attrs=read-write&connect_timeout=2",
		primary.Password, primary.Port, replica.Port)}
}

func openStore(t *testing.T, databaseURL string) *agentstore.Store {
	t.Helper()
	store, err := agentstore.Open(t.Context(), databaseURL, agentstore.Options{MaxConns: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pgtest.CheckReturned(t, store.Pool())
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func newSession(t *testing.T, store repo.Repositories) repo.ID {
	t.Helper()
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	return session.ID
}

func execSQL(t *testing.T, databaseURL, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}
