package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// withStore opens the database's store for the time of fn.
func withStore(ctx context.Context, invocation invocation, databaseURL string, fn func(*agentstore.Store) error) error {
	if databaseURL == "" {
		databaseURL = invocation.env("DATABASE_URL")
	}
	switch {
	case databaseURL == "":
		return usageError{text: "no database: set DATABASE_URL or --database-url"}
	case strings.HasPrefix(databaseURL, "memory:"):
		return usageError{text: "a store in memory lives within one process, so that this command would find it empty: give the URL of a PostgreSQL database"}
	}
	store, err := invocation.open(ctx, databaseURL)
	if errors.Is(err, repo.ErrInvalid) {
		return usageError{text: err.Error()}
	}
	if err != nil {
		return err
	}
	return errors.Join(fn(store), store.Close())
}
