// Package demo shows the library's main job on a real database: writers append
// to one session while a reader follows it, and the naive way does the same
// beside it. It works in a schema of its own, which it drops at the end.
package demo

import (
	"context"
	"fmt"
	"io"
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

// Run shows the demonstration on the database of config and writes a report.
// An error, or a check that fails, is returned. Nothing stays in the database.
func Run(ctx context.Context, config *pgxpool.Config, out io.Writer) (err error) {
	scratch := "agentstore_demo_" + repo.NewID().String()
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
		// Also when the demonstration was interrupted.
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
	fmt.Fprintf(out, "%d writers append %d messages each to one session, while a reader follows it:\n", writers, perWriter)

	ours, checks, err := runOurs(ctx, store.Sessions())
	if err != nil {
		return err
	}
	naive, err := runNaive(ctx, pool)
	if err != nil {
		return err
	}
	return report(out, ours, &naive, checks)
}

// RunInMemory shows it in process, where there is no database.
func RunInMemory(ctx context.Context, out io.Writer) error {
	store := memory.New()
	defer func() { _ = store.Close() }()
	fmt.Fprintf(out, "There is no PostgreSQL here, so that this is the store in memory. (With DATABASE_URL, or in a clone with\n"+
		"a container or PostgreSQL's binaries, make demo shows it on a database, and the naive way beside it.)\n\n")
	fmt.Fprintf(out, "%d writers append %d messages each to one session, while a reader follows it:\n", writers, perWriter)
	ours, checks, err := runOurs(ctx, store.Sessions())
	if err != nil {
		return err
	}
	return report(out, ours, nil, checks)
}
