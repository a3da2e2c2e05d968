// Package budget tests package budget with servers and processes.
package budget

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/budget/budgettest"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also that of the processes that spend.
func TestMain(m *testing.M) {
	if task := os.Getenv(taskVariable); task != "" {
		if err := spend(task); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Main(m))
}

// aged makes what is kept in the store older.
func aged(t *testing.T, store *agentstore.Store, d time.Duration) {
	t.Helper()
	if _, err := store.Pool().Exec(t.Context(), "UPDATE state_values SET updated_at = updated_at - $1::interval", d); err != nil {
		t.Error(err)
	}
}

// Guarantee: Budgets: Reserved and settled together never pass any limit.
func TestBudget(t *testing.T) {
	t.Parallel()
	budgettest.Run(t, func(t *testing.T) budgettest.Store {
		store := pgtest.NewStore(t, agentstore.Options{})
		return budgettest.Store{Store: store, Elapse: func(d time.Duration) { aged(t, store, d) }}
	})
}

func TestBudgetInView(t *testing.T) {
	t.Parallel()
	budgettest.Run(t, func(t *testing.T) budgettest.Store {
		store := pgtest.NewStore(t, agentstore.Options{})
		var view repo.Store = store.In("tenant")
		return budgettest.Store{Store: view, Elapse: func(d time.Duration) { aged(t, store, d) }}
	})
}
