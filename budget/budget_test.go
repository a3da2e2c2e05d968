package budget_test

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/budget/budgettest"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

func TestBudget(t *testing.T) {
	t.Parallel()
	budgettest.Run(t, func(t *testing.T) budgettest.Store {
		clock := memory.NewClock(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC))
		store := memory.NewWith(memory.Options{Clock: clock})
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return budgettest.Store{Store: store, Elapse: clock.Advance}
	})
}
