package directory_test

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/directory/directorytest"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

func TestDirectory(t *testing.T) {
	t.Parallel()
	directorytest.Run(t, func(t *testing.T) directorytest.Store {
		clock := memory.NewClock(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC))
		store := memory.NewWith(memory.Options{Clock: clock})
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return directorytest.Store{Store: store, Elapse: clock.Advance}
	})
}
