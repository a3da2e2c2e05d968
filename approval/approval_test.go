package approval_test

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/approval/approvaltest"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

func open(t *testing.T) (*agentstore.Store, *memory.Clock) {
	t.Helper()
	clock := memory.NewClock(time.Now().Add(-24 * time.Hour))
	store, err := agentstore.Open(t.Context(), "memory://"+repo.NewID().String(), agentstore.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store, clock
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	store, clock := open(t)
	approvaltest.Run(t, store, clock.Advance)
}
