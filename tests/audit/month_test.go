package audit

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// dropMonths drops every partition: the state of a service that made none for a
// year, or whose server's clock leaps.
func dropMonths(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	exec(t, conn, `DO $$ DECLARE name text; BEGIN
		FOR name IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'audit_entries'::regclass LOOP
			EXECUTE 'DROP TABLE ' || name;
		END LOOP; END $$`)
}

// Whoever comes first into a month that has no partition, it is made.
func TestMissingMonth(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := open(t, databaseURL)
	conn := connect(t, databaseURL)
	for name, operation := range map[string]func(ctx context.Context, r repo.Repositories, id repo.ID) error{
		"record": func(ctx context.Context, r repo.Repositories, _ repo.ID) error {
			return r.Audit().Record(ctx, entryAt(time.Now()))
		},
		"create": func(ctx context.Context, r repo.Repositories, _ repo.ID) error {
			_, err := r.Sessions().Create(ctx, repo.NewSession{})
			return err
		},
		"delete": func(ctx context.Context, r repo.Repositories, id repo.ID) error {
			_, err := r.Sessions().Delete(ctx, id)
			return err
		},
	} {
		for level, options := range map[string]pgx.TxOptions{
			"read committed": {IsoLevel: pgx.ReadCommitted}, "serializable": {IsoLevel: pgx.Serializable},
		} {
			session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
			if err != nil {
				t.Fatal(err)
			}
			dropMonths(t, conn)
			tx, err := store.Pool().BeginTx(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			if err := operation(t.Context(), postgres.Bind(tx), session.ID); err != nil {
				t.Errorf("%s, bound, %s: %v", name, level, err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Errorf("%s, bound, %s: commit: %v", name, level, err)
			}
		}
		session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
		if err != nil {
			t.Fatal(err)
		}
		dropMonths(t, conn)
		if err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error { return operation(ctx, tx, session.ID) }); err != nil {
			t.Errorf("%s, InTx: %v", name, err)
		}
		session, err = store.Sessions().Create(t.Context(), repo.NewSession{})
		if err != nil {
			t.Fatal(err)
		}
		dropMonths(t, conn)
		if err := operation(t.Context(), store, session.ID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
