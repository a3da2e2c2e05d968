package postgres

import (
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The test binary is also the binary of the processes of TestHistoryRace and TestProcessesPlace.
func TestMain(m *testing.M) {
	for variable, run := range map[string]func(task string) error{historyTaskVariable: runHistoryWriters, spreadTaskVariable: runSpreadWriters} {
		if task := os.Getenv(variable); task != "" {
			if err := run(task); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(pgtest.Main(m))
}

// naivePool returns a pool for a naive implementation on the store's database.
func naivePool(t *testing.T, store *agentstore.Store) *pgxpool.Pool {
	t.Helper()
	config := store.Pool().Config()
	return pgtest.NewPool(t, pgtest.ReadCommitted(config.ConnString()), func(c *pgxpool.Config) { c.MaxConns = config.MaxConns })
}
