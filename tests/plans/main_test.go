package plans

import (
	"os"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also the binary of the racer processes.
func TestMain(m *testing.M) {
	if os.Getenv(racerEnv) != "" {
		os.Exit(racerMain())
	}
	os.Exit(pgtest.Main(m))
}

// newAction creates a reusable action and returns its name.
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
