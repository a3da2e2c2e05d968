package memory_test

import (
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/repotest"
)

func TestConformance(t *testing.T) {
	repotest.Run(t, func(t *testing.T) repo.Store {
		store := memory.New()
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return store
	}, repotest.Bubbles())
}

// The repositories of a transaction pass the suite, too.
func TestConformanceInTx(t *testing.T) {
	repotest.RunRepositories(t, repotest.InTx(func(*testing.T) repo.Store { return memory.New() }), repotest.Bubbles())
}
