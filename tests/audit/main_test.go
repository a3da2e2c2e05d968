// Package audit tests the storage of the audit trail: what the database itself
// enforces, what concurrency does to it, and what reading it costs.
package audit

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/tests/command"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func TestMain(m *testing.M) { os.Exit(command.Main(m)) }

// open opens a store, which the test's end closes.
func open(t *testing.T, databaseURL string, options ...agentstore.Options) *agentstore.Store {
	t.Helper()
	store, err := agentstore.Open(t.Context(), databaseURL, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pgtest.CheckReturned(t, store.Pool())
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func newPool(t *testing.T, config *pgxpool.Config) (*pgxpool.Pool, error) {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err == nil {
		t.Cleanup(pool.Close)
	}
	return pool, err
}
