package usage

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/usage/usagetest"
)

// Each test has a view of its own, and so counters of its own.
func TestOnPostgreSQL(t *testing.T) {
	t.Parallel()
	store := pgtest.OpenStore(t, pgtest.NewDatabase(t), agentstore.Options{})
	t.Run("views", func(t *testing.T) {
		usagetest.Run(t, func(*testing.T) repo.Store { return store.In(repo.NewID().String()) })
	})
}
