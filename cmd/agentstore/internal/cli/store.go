package cli

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/pgurl"
)

// handler is a command that uses a store.
type handler func(ctx context.Context, invocation invocation, store *agentstore.Store) error

// database returns the URL of --database-url, or else the environment's.
func (i invocation) database(flag string) string { return cmp.Or(flag, i.env("DATABASE_URL")) }

// inSchema returns the schema of --schema, or else the environment's.
func (i invocation) inSchema() string { return cmp.Or(i.schema, i.env("AGENTSTORE_SCHEMA")) }

// withStore opens the database's store for the duration of fn.
func withStore(ctx context.Context, invocation invocation, fn handler) error {
	databaseURL := invocation.database(invocation.databaseURL)
	switch {
	case databaseURL == "":
		return usageError{text: "no database: set DATABASE_URL or --database-url"}
	case strings.HasPrefix(databaseURL, "memory:"):
		return usageError{text: "a store in memory lives within one process, so that this command would find it empty: give the URL of a PostgreSQL database"}
	}
	store, err := invocation.open(ctx, databaseURL, invocation.inSchema())
	if err != nil {
		return invalidUsage(err)
	}
	return errors.Join(fn(ctx, invocation, store), store.Close())
}

// poolConfig parses a database URL, for callers that make their own pools.
func poolConfig(databaseURL string) (*pgxpool.Config, error) {
	if err := pgurl.Check(databaseURL); err != nil {
		return nil, usageError{text: "the database URL " + err.Error()}
	}
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil { // its message quotes the URL
		return nil, usageError{text: "the database URL has a malformed pool parameter"}
	}
	return config, nil
}
