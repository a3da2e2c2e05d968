package plans

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also the racer process that the tests start.
func TestMain(m *testing.M) {
	if os.Getenv(racerEnv) != "" {
		os.Exit(racerMain())
	}
	os.Exit(pgtest.Main(m))
}

func openURL(t *testing.T, databaseURL string) *agentstore.Store {
	t.Helper()
	store, err := agentstore.Open(t.Context(), databaseURL)
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

// newAction makes a reusable action and returns its name.
func newAction(t *testing.T, store repo.Store) string {
	t.Helper()
	action, err := store.Actions().Create(t.Context(), repo.NewAction{
		Name: "race", ActionDefinition: repo.ActionDefinition{Reusable: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return action.Name.String()
}
