package pgbouncer

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Migrations are refused before the lock is taken, whatever the pooler's size and the
// URL's query mode: the lock would stay in the pooler's session.
// Guarantee: Migrations: Migrations through a transaction pooler are refused before anything is changed.
func TestMigrationsAreRefused(t *testing.T) {
	t.Parallel()
	for _, connections := range []int{1, 2, 10} {
		for _, mode := range []string{"cache_statement", documentedMode, "simple_protocol"} {
			direct := pgtest.NewEmptyDatabase(t)
			bounced := withMode(pgtest.NewBouncer(t, direct, "transaction", connections), mode)
			// The pooler has several idle sessions when the migrator connects.
			warm(t, bounced, connections)
			ctx := await.Context(t)
			_, err := agentstore.Open(ctx, bounced, agentstore.Options{Migrate: true})
			if upErr := schema.Up(ctx, bounced); !errors.Is(err, schema.ErrPooled) || !errors.Is(upErr, schema.ErrPooled) {
				t.Errorf("%d connections, %s: Open gave %v, Up gave %v, want ErrPooled", connections, mode, err, upErr)
			}
			conn, err := pgx.Connect(t.Context(), direct)
			if err != nil {
				t.Fatal(err)
			}
			var locks int
			var tables bool
			err = conn.QueryRow(t.Context(), `
SELECT (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
          AND database = (SELECT oid FROM pg_database WHERE datname = current_database())),
       to_regclass('agentstore_migrations') IS NOT NULL`).Scan(&locks, &tables)
			if err != nil || locks != 0 || tables {
				t.Errorf("%d connections, %s: %d locks, tables %t, %v", connections, mode, locks, tables, err)
			}
			if err := conn.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// warm makes the pooler open its connections to the server.
func warm(t *testing.T, bounced string, connections int) {
	t.Helper()
	var open []pgx.Tx
	for range connections {
		conn := pgtest.Connect(t, withMode(bounced, "simple_protocol"))
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, tx)
	}
	for _, tx := range open {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Reading calls work, and so does a migrated database with Options.Migrate, because
// nothing needs the lock.
func TestReadingTheVersionWorks(t *testing.T) {
	t.Parallel()
	bounced := pgtest.NewBouncer(t, pgtest.NewDatabase(t), "transaction", 2)
	migrator, err := schema.Open(t.Context(), bounced, schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := migrator.Validate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pgtest.OpenStore(t, withMode(bounced, documentedMode), agentstore.Options{Migrate: true})
}

// In session mode the lock holds, and migrations run.
func TestMigrationsRunInSessionMode(t *testing.T) {
	t.Parallel()
	bounced := pgtest.NewBouncer(t, pgtest.NewEmptyDatabase(t), "session", 4)
	if err := schema.Up(t.Context(), bounced); err != nil {
		t.Error(err)
	}
}
