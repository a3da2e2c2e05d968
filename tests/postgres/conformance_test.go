package postgres

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/repo/repotest"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The suite runs in each mode that a user may choose, each on a database of its
// own, which the subtests share.

// opener opens stores on one database, and so on one pool. Whether its
// connections come back can be told when the last subtest has ended.
func opener(t *testing.T, databaseURL string) func(t *testing.T) repo.Store {
	t.Helper()
	openURL(t, databaseURL, agentstore.Options{Tracer: isolated{t}})
	return func(t *testing.T) repo.Store {
		store, err := agentstore.Open(t.Context(), databaseURL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return store
	}
}

func TestConformanceOfPool(t *testing.T) {
	t.Parallel()
	repotest.Run(t, opener(t, pgtest.NewDatabase(t)))
}

func TestConformanceInTx(t *testing.T) {
	t.Parallel()
	repotest.RunRepositories(t, repotest.InTx(opener(t, pgtest.NewDatabase(t))))
}

func TestConformanceOfBind(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, pgtest.NewDatabase(t))
	repotest.RunRepositories(t, func(t *testing.T) repo.Repositories { return bindTx(t, pool) })
}

// beginner is a pool, whatever its configuration.
type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

func bindTx(t *testing.T, pool beginner) repo.Repositories {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("Rollback: %v", err)
		}
	})
	return postgres.Bind(tx)
}

// The exec modes of pgx: https://pkg.go.dev/github.com/jackc/pgx/v5#QueryExecMode.
func TestConformanceOfExecModes(t *testing.T) {
	t.Parallel()
	modes := []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}
	if testing.Short() { // the one that differs most from the default
		modes = modes[len(modes)-1:]
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			databaseURL := withParameter(t, pgtest.NewDatabase(t), "default_query_exec_mode", mode)
			t.Run("pool", func(t *testing.T) {
				open := opener(t, databaseURL)
				repotest.RunRepositories(t, func(t *testing.T) repo.Repositories { return open(t) })
			})
			t.Run("bind", func(t *testing.T) {
				pool := pgtest.NewPool(t, databaseURL)
				repotest.RunRepositories(t, func(t *testing.T) repo.Repositories { return bindTx(t, pool) })
			})
		})
	}
}

func withParameter(t *testing.T, databaseURL, name, value string) string {
	t.Helper()
	parsed, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	query := parsed.Query()
	query.Set(name, value)
	parsed.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // the driver takes + for itself
	return parsed.String()
}
