package migrate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/command"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// execute runs the command and returns its exit code and output.
func execute(ctx context.Context, t *testing.T, databaseURL string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return command.Run(ctx, t, databaseURL, args...)
}

func TestReadingChangesNothing(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(*testing.T) string{"empty": empty, "migrated": migrated} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := database(t)
			conn := pgtest.Connect(t, databaseURL)
			before := catalog(t, conn)
			newest := pgtest.Value[int64](t, conn, newestTransaction)
			read(t, databaseURL)
			equalCatalogs(t, "after reading", catalog(t, conn), before)
			if got := pgtest.Value[int64](t, conn, newestTransaction); got != newest {
				t.Errorf("transaction %d wrote to the catalog, the newest before was %d", got, newest)
			}
		})
	}
}

// newestTransaction returns the newest transaction that wrote to a catalog.
const newestTransaction = `
SELECT max(xmin::text::bigint) FROM (
    SELECT xmin FROM pg_class UNION ALL SELECT xmin FROM pg_attribute UNION ALL
    SELECT xmin FROM pg_type UNION ALL SELECT xmin FROM pg_depend UNION ALL SELECT xmin FROM pg_proc
) AS catalogs`

// read makes all reading calls.
func read(t *testing.T, databaseURL string) {
	t.Helper()
	migrator := open(t, databaseURL, schema.Options{})
	version, err := migrator.Version(t.Context())
	if err != nil {
		t.Error(err)
	}
	if _, err := migrator.Status(t.Context()); err != nil {
		t.Error(err)
	}
	for _, target := range []schema.Target{schema.TargetLatest(), schema.TargetDown(0)} {
		if _, err := migrator.Plan(t.Context(), target); err != nil {
			t.Error(err)
		}
	}
	err = migrator.Validate(t.Context())
	var behind *schema.BehindError
	if version == schema.Latest() && err != nil || version == 0 && (!errors.Is(err, schema.ErrBehind) || !errors.As(err, &behind) || behind.Want != schema.Latest()) {
		t.Errorf("version %d: Validate: %v", version, err)
	}
	for _, args := range [][]string{
		{"status"}, {"status", "--json"}, {"validate"}, {"version"}, {"up", "--dry-run"}, {"down", "--dry-run", "--json"},
	} {
		want := 0
		if args[0] == "validate" && version == 0 {
			want = 3
		}
		if code, _, stderr := execute(t.Context(), t, databaseURL, append([]string{"migrate"}, args...)...); code != want {
			t.Errorf("%v: exit code %d, want %d: %s", args, code, want, stderr)
		}
	}
}

func TestReadingDoesNotWaitForAMigrator(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	holdLock(t, databaseURL)
	read(t, databaseURL)
}

// Check accepts anything that can query, and leaves a transaction usable.
func TestCheckOfAnyQuerier(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		database func(*testing.T) string
		want     error
	}{{empty, schema.ErrBehind}, {migrated, nil}} {
		databaseURL := test.database(t)
		pool := pgtest.NewPool(t, databaseURL)
		tx, err := pgtest.Connect(t, databaseURL).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, querier := range []schema.Querier{pool, tx, pgtest.Connect(t, databaseURL)} {
			if err := schema.Check(t.Context(), querier); !errors.Is(err, test.want) {
				t.Errorf("%T: %v, want %v", querier, err, test.want)
			}
		}
		if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Errorf("the transaction is broken: %v", err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// holdLock takes the migration lock, as another migrator would.
func holdLock(t *testing.T, databaseURL string) *pgx.Conn {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "SELECT pg_advisory_lock($1)", lockID)
	return conn
}

// Reading calls use a transaction in which the server refuses writes: a view that
// writes, in place of the version table, fails.
func TestReadingIsReadOnly(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "CREATE TABLE witnesses (at timestamptz)")
	pgtest.Exec(t, conn, `CREATE FUNCTION witness() RETURNS bigint LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO witnesses VALUES (now()); RETURN 1; END $$`)
	pgtest.Exec(t, conn, "CREATE VIEW agentstore_migrations AS SELECT witness() AS version, 1::bigint AS oldest_library, now() AS applied_at")
	migrator := open(t, databaseURL, schema.Options{})
	if _, err := migrator.Status(t.Context()); err == nil || !strings.Contains(err.Error(), "25006") {
		t.Errorf("Status: %v", err)
	}
	if err := migrator.Validate(t.Context()); err == nil || !strings.Contains(err.Error(), "25006") {
		t.Errorf("Validate: %v", err)
	}
}
