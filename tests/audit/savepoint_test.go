package audit

import (
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A partition that was created in a savepoint is gone if the transaction is rolled back. What
// comes on the connection afterwards creates it again.
func TestMonthInASavepoint(t *testing.T) {
	t.Parallel()
	conn := pgtest.Connect(t, pgtest.NewDatabase(t))
	partitions := pgtest.Value[string](t, conn, `SELECT string_agg(inhrelid::regclass::text, ', ') FROM pg_inherits WHERE inhparent = 'audit_entries'::regclass`)
	pgtest.Exec(t, conn, "DROP TABLE "+partitions)
	create := func(r repo.Repositories) {
		t.Helper()
		if _, err := r.Sessions().Create(t.Context(), repo.NewSession{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		savepoint, err := tx.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		create(postgres.Bind(savepoint))
		if err := savepoint.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		create(postgres.Bind(tx))
		create(postgres.Bind(tx))
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
