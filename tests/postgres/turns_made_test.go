package postgres

import (
	"slices"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// newSessions makes sessions, and returns their ids in order.
func newSessions(t *testing.T, store repo.Repositories, count int) []repo.ID {
	t.Helper()
	ids := make([]repo.ID, count)
	for i := range ids {
		ids[i] = pgtest.NewSession(t, store)
	}
	slices.SortFunc(ids, repo.ID.Compare)
	return ids
}
