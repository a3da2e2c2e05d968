// Package budget tests package budget with servers and processes.
package budget

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/budget/budgettest"
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

// Each test has a namespace of its own, but for the one of namespaces.
//
// Guarantee: Budgets: Reserved and settled together never pass any limit.
func TestBudget(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	budgettest.Run(t, func(t *testing.T) budgettest.Store {
		if strings.HasSuffix(t.Name(), "/Views") {
			return budgettest.Store{Store: store}
		}
		namespace := t.Name()
		return budgettest.Store{Store: store.In(namespace), Elapse: func(d time.Duration) {
			if _, err := store.Pool().Exec(t.Context(), `UPDATE state_values v SET updated_at = v.updated_at - $2::interval
				FROM state_scopes s WHERE s.id = v.scope_id AND s.namespace = $1`, namespace, d); err != nil {
				t.Error(err)
			}
		}}
	})
}
