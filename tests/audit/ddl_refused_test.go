package audit

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// If the partition of a month is missing and cannot be created, the error says why. It is
// no conflict with another transaction, after which the caller would try again.
func TestPartitionCannotBeCreated(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	database := pgtest.Connect(t, databaseURL)
	partitions := pgtest.Value[string](t, database, `SELECT string_agg(inhrelid::regclass::text, ', ') FROM pg_inherits WHERE inhparent = 'audit_entries'::regclass`)
	pgtest.Exec(t, database, "DROP TABLE "+partitions)
	pgtest.Exec(t, database, `CREATE FUNCTION refuse_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'tables are frozen'; END$$`)
	pgtest.Exec(t, database, `CREATE EVENT TRIGGER refuse_ddl ON ddl_command_end EXECUTE FUNCTION refuse_ddl()`)
	create := func(ctx context.Context, r repo.Repositories) error {
		_, err := r.Sessions().Create(ctx, repo.NewSession{})
		return err
	}
	if err := create(t.Context(), store); !errors.Is(err, repo.ErrUnavailable) || !strings.Contains(err.Error(), "tables are frozen") {
		t.Errorf("Create: %v", err)
	}
	pgtest.Exec(t, database, "DROP EVENT TRIGGER refuse_ddl")
	if err := create(t.Context(), store); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := store.InTx(t.Context(), create); err != nil {
		t.Errorf("in InTx afterwards: %v", err)
	}
}
