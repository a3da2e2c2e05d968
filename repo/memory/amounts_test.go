//go:build !race

package memory_test

import (
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/repotest"
)

func TestAmounts(t *testing.T) {
	t.Parallel()
	repotest.RunAmounts(t, func(t *testing.T) repo.Store {
		store := memory.New()
		t.Cleanup(func() { _ = store.Close() })
		return store
	})
}
