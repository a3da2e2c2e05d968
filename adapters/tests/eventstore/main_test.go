// Package eventstore tests the adapters below adapters/eventstore with the acceptance
// suites of the frameworks, on PostgreSQL and in memory.
package eventstore

import (
	"os"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// databases open two stores with the same data, as two processes have them.
var databases = map[string]func(t *testing.T) [2]repo.Store{
	"PostgreSQL": func(t *testing.T) [2]repo.Store {
		address := pgtest.NewDatabase(t)
		return [2]repo.Store{
			pgtest.OpenPool(t, pgtest.NewPool(t, address), agentstore.Options{}),
			pgtest.OpenPool(t, pgtest.NewPool(t, address), agentstore.Options{}),
		}
	},
	"Memory": func(t *testing.T) [2]repo.Store {
		address := "memory://" + strings.ReplaceAll(t.Name(), "/", "-")
		return [2]repo.Store{pgtest.OpenStore(t, address, agentstore.Options{}), pgtest.OpenStore(t, address, agentstore.Options{})}
	},
}

func onEach(t *testing.T, run func(t *testing.T, stores [2]repo.Store)) {
	t.Helper()
	t.Parallel()
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, open(t))
		})
	}
}
