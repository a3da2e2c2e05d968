package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	if _, err := poolConfig(databaseURL); err != nil {
		return err
	}
	store, err := invocation.open(ctx, databaseURL, invocation.inSchema())
	if err != nil {
		return invalidUsage(err)
	}
	return errors.Join(fn(ctx, invocation, store), store.Close())
}

// errURL means that the database URL cannot be used. The message does not quote it, but
// may show the form of one: it is not a usageError, whose text would be omitted.
var errURL = errors.New("the database URL")

// poolConfig parses a database URL. Its error is errURL.
func poolConfig(databaseURL string) (*pgxpool.Config, error) {
	if err := pgurl.Check(databaseURL); err != nil {
		return nil, fmt.Errorf("%w %w", errURL, err)
	}
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil { // its message quotes the URL
		return nil, fmt.Errorf("%w has a malformed pool parameter", errURL)
	}
	return config, nil
}
