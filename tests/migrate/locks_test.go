package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A version takes the strongest lock of a table first. Otherwise a writer that has read
// the table waits for the lock that the version holds, and the version for the writer:
// PostgreSQL ends either, at once, however short the version's lock timeout is.
func TestLocksAreNotStrengthened(t *testing.T) {
	t.Parallel()
	databaseURL := empty(t)
	conn := pgtest.Connect(t, databaseURL)
	migrations := later(t)
	migrator := open(t, databaseURL, schema.Options{Migrations: migrations})
	for _, name := range slices.Sorted(maps.Keys(migrations)) {
		for _, fault := range strengthened(t, conn, statements(string(migrations[name].Data))) {
			t.Errorf("%s: %s", name, fault)
		}
		step(t, migrator, schema.TargetUpSteps(1))
	}
	naive := []string{
		"CREATE TABLE naive (id uuid REFERENCES sessions (id))",
		"ALTER TABLE sessions ADD COLUMN naive text",
	}
	if faults := strengthened(t, conn, naive); len(faults) != 1 {
		t.Errorf("of the naive order it finds %q", faults)
	}
}

// statements are those of a file's Up.
func statements(file string) (all []string) {
	_, file, _ = strings.Cut(file, "-- +goose Up")
	file, _, _ = strings.Cut(file, "-- +goose Down")
	var statement strings.Builder
	quoted := false // between $$ and $$
	for line := range strings.Lines(file) {
		if strings.HasPrefix(strings.TrimSpace(line), "--") {
			continue
		}
		statement.WriteString(line)
		quoted = quoted != (strings.Count(line, "$$")%2 == 1)
		if !quoted && strings.HasSuffix(strings.TrimSpace(line), ";") {
			all = append(all, statement.String())
			statement.Reset()
		}
	}
	return all
}

// strengthened runs statements in a transaction, which it rolls back. It returns where one
// strengthens a lock that keeps writers out, on a table that was there before.
func strengthened(t *testing.T, conn *pgx.Conn, statements []string) (faults []string) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	const tables = `SELECT oid FROM pg_class WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind IN ('r', 'p')`
	pgtest.Exec(t, tx, "CREATE TEMPORARY TABLE old ON COMMIT DROP AS "+tables)
	held := map[string]int{}
	for _, statement := range statements {
		pgtest.Exec(t, tx, statement)
		now := map[string]int{}
		// Only locks that keep writers out are listed.
		rows, err := tx.Query(t.Context(), `
			SELECT l.relation::regclass::text, max(array_position(ARRAY['ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock'], l.mode))
			FROM pg_locks l JOIN old ON old.oid = l.relation
			WHERE l.pid = pg_backend_pid() AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
			GROUP BY l.relation`)
		if err != nil {
			t.Fatal(err)
		}
		var table string
		var mode int
		if _, err := pgx.ForEachRow(rows, []any{&table, &mode}, func() error {
			now[table] = mode
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for table, mode := range now {
			if before, found := held[table]; found && mode > before {
				faults = append(faults, fmt.Sprintf("the lock of %s is strengthened by %s", table, strings.TrimSpace(statement)))
			}
		}
		held = now
	}
	return faults
}
