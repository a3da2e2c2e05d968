// Package demo shows the library's main task on a real database: writers append to
// one session while a reader follows it. A naive implementation then does the same.
// The demonstration uses a new schema, which it drops at the end.
package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// The size of the demonstration: a few seconds on a small machine.
const (
	writers   = 8
	perWriter = 500
)

// Run runs the demonstration on the database of config and writes a report. It
// returns an error if a check fails. It leaves nothing in the database.
func Run(ctx context.Context, config *pgxpool.Config, out io.Writer) (err error) {
	scratch := "agentstore_demo_" + strings.ReplaceAll(repo.NewID().String(), "-", "")
	name := pgx.Identifier{scratch}.Sanitize()
	config.ConnConfig.RuntimeParams["search_path"] = name
	config.MaxConns = writers + 2
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()

	// Statements on the scratch schema itself are not the library's, so they are
	// not among its queries.
	if _, err := pool.Exec(ctx, "CREATE SCHEMA "+name); err != nil {
		return fmt.Errorf("make a scratch schema: %w", err)
	}
	defer func() {
		// Even if the demonstration was interrupted.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if _, dropErr := pool.Exec(ctx, "DROP SCHEMA "+name+" CASCADE"); err == nil && dropErr != nil {
			err = fmt.Errorf("drop the scratch schema: %w", dropErr)
		}
	}()

	var version string
	if err := pool.QueryRow(ctx, "SELECT current_setting('server_version')").Scan(&version); err != nil {
		return err
	}
	begin := time.Now()
	store, err := agentstore.OpenPool(ctx, pool, agentstore.Options{Migrate: true})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	fmt.Fprintf(out, "PostgreSQL %s; the scratch schema %s was migrated in %s and is dropped at the end.\n\n",
		version, scratch, time.Since(begin).Round(time.Millisecond))
	ours, checks, err := runOurs(ctx, store.Sessions(), out)
	if err != nil {
		return err
	}
	naive, err := runNaive(ctx, pool)
	if err != nil {
		return err
	}
	return report(out, checks, ours, naive)
}

// RunInMemory runs the demonstration with the store in memory.
func RunInMemory(ctx context.Context, out io.Writer) error {
	store := memory.New()
	defer func() { _ = store.Close() }()
	fmt.Fprintf(out, "Without a database this uses the store in memory. (To compare it with a naive implementation on PostgreSQL,\n"+
		"set DATABASE_URL, or run make demo in a clone, on a machine with Docker or PostgreSQL's binaries.)\n\n")
	ours, checks, err := runOurs(ctx, store.Sessions(), out)
	if err != nil {
		return err
	}
	return report(out, checks, ours)
}
