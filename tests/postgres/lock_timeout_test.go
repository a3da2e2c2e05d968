package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A lock timeout applies wherever it is set, even on a pool of one connection, which
// waits for no row.
func TestLockTimeoutOfSettings(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, databaseURL string) *agentstore.Store{
		"the URL's": func(t *testing.T, databaseURL string) *agentstore.Store {
			t.Helper()
			return pgtest.OpenStore(t, pgtest.WithParameter(databaseURL, "lock_timeout", "50ms"), agentstore.Options{MaxConns: 1})
		},
		"the database's": func(t *testing.T, databaseURL string) *agentstore.Store {
			t.Helper()
			pgtest.Exec(t, pgtest.NewPool(t, databaseURL), `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET lock_timeout = 50', current_database()); END $$`)
			return pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 1})
		},
		"the caller's": func(t *testing.T, databaseURL string) *agentstore.Store {
			t.Helper()
			return pgtest.OpenPool(t, pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) {
				c.MaxConns = 1
				c.ConnConfig.RuntimeParams["lock_timeout"] = "0.05s"
			}), agentstore.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := pgtest.NewDatabase(t)
			others := pgtest.NewPool(t, databaseURL)
			store := open(t, databaseURL)
			id := pgtest.NewSession(t, store)
			release := hold(t, others, id)
			defer release()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := store.Sessions().Append(ctx, id, user("x")); !errors.Is(err, repo.ErrContention) {
				t.Errorf("an append to a held session: %v", err)
			}
		})
	}
}
