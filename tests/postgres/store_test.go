package postgres

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// openStore opens a store on a database of the test's own. At the test's end no
// connection may be in use.
func openStore(t *testing.T, options ...agentstore.Options) *agentstore.Store {
	t.Helper()
	return openURL(t, pgtest.NewDatabase(t), options...)
}

func openURL(t *testing.T, databaseURL string, options ...agentstore.Options) *agentstore.Store {
	t.Helper()
	store, err := agentstore.Open(t.Context(), databaseURL, options...)
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

func user(content string) repo.NewMessage {
	return repo.NewMessage{Role: repo.RoleUser, Content: content}
}
