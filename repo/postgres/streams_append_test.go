package postgres

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
)

// Parts that were not stored are never acknowledged, whatever the row says.
func TestPartsRefusal(t *testing.T) {
	t.Parallel()
	for _, unsure := range []bool{false, true} {
		a := &partsAppending{stream: repo.Stream{Key: "a", Fence: 1, Next: 2}, parts: [][]byte{{1}}, Progress: commit.Progress{Unsure: unsure}}
		err := a.refusal(&db.StreamLookRow{Fence: 1, Status: string(repo.StreamOpen), NextSequence: 2})
		if !errors.Is(err, repo.ErrContention) {
			t.Errorf("unsure %t: %v", unsure, err)
		}
	}
}
