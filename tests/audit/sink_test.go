package audit

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func entryAt(at time.Time) repo.AuditEntry {
	return repo.AuditEntry{ID: repo.NewID(), OccurredAt: at.UTC().Truncate(time.Microsecond), Type: events.ToolInvoked, Actor: "agent"}
}

// A sink works while the pool is exhausted, survives the loss of its connection, and
// connects as the pool does.
func TestSinkConnection(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 1})
	held, err := store.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	ctx := await.Context(t)
	sink, err := store.AuditLog().Sink(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sink.Close() }()
	if _, err := sink.Record(ctx, []repo.AuditEntry{entryAt(time.Now())}); err != nil {
		t.Fatalf("with an exhausted pool: %v", err)
	}
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid <> $1`, int32(held.Conn().PgConn().PID()))
	e := entryAt(time.Now())
	if _, err := sink.Record(ctx, []repo.AuditEntry{e}); err != nil && !errors.Is(err, repo.ErrUnknownOutcome) && !errors.Is(err, repo.ErrUnavailable) {
		t.Errorf("on a connection that was ended: %v", err)
	}
	if got, err := sink.Record(ctx, []repo.AuditEntry{e}); err != nil || got.Written+got.Known != 1 {
		t.Errorf("afterwards: %+v, %v", got, err)
	}

	// A sink leaves a server that has become read-only.
	pgtest.Exec(t, conn, "ALTER DATABASE "+conn.Config().Database+" SET default_transaction_read_only = on")
	pgtest.Exec(t, conn, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid <> $1`, int32(held.Conn().PgConn().PID()))
	for range 2 {
		if _, err := sink.Record(ctx, []repo.AuditEntry{entryAt(time.Now())}); err == nil {
			t.Error("recorded on a read-only server")
		}
	}
	pgtest.Exec(t, conn, "ALTER DATABASE "+conn.Config().Database+" RESET default_transaction_read_only")
	if _, err := sink.Record(ctx, []repo.AuditEntry{entryAt(time.Now())}); err != nil {
		t.Errorf("on the server that takes writes: %v", err)
	}

	// The pool's hook provides the password.
	hooked := pgtest.NewPool(t, databaseURL, func(config *pgxpool.Config) {
		password := config.ConnConfig.Password
		config.ConnConfig.Password = "expired"
		config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			c.Password = password
			return nil
		}
	})
	other, err := postgres.New(pgsettings.Checked{Pool: hooked}, postgres.Options{}).AuditLog().Sink(ctx)
	if err != nil {
		t.Fatalf("with a password that the pool's hook gives: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}
