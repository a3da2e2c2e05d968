package grants

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/command"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// granted is a migrated database with its roles, as users that can log in.
type granted struct {
	roles              schema.Roles
	owner              string // their URLs
	application        string
	reader, auditWrite string
}

// newGranted creates the roles as documented: the owner runs what the command prints.
// All names need quoting.
func newGranted(t *testing.T) granted {
	t.Helper()
	return newGrantedOn(t, pgtest.NewDatabase(t))
}

// newGrantedOn is like newGranted, on a given database and with more flags of the
// command.
func newGrantedOn(t *testing.T, owner string, flags ...string) granted {
	t.Helper()
	g := granted{owner: owner}
	suffix := ` "x'\ ` + rand.Text()[:12]
	g.roles = schema.Roles{Application: "App" + suffix, Reader: "reader;--" + suffix, Audit: "audit" + suffix}
	names := []string{g.roles.Application, g.roles.Reader, g.roles.Audit}
	conn := pgtest.Connect(t, g.owner)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, name := range names {
			quoted := pgx.Identifier{name}.Sanitize()
			if _, err := conn.Exec(ctx, "DROP OWNED BY "+quoted+"; DROP ROLE "+quoted); err != nil {
				t.Error(err)
			}
		}
		_ = conn.Close(ctx)
	})
	sql := printed(t, append(flags, "--application-role", g.roles.Application, "--reader-role", g.roles.Reader, "--audit-role", g.roles.Audit)...)
	// As documented for PostgreSQL 14 and older.
	pgtest.Exec(t, conn, "DO $$ BEGIN EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', current_schema()); END $$")
	for range 2 { // it can be run again
		pgtest.Exec(t, conn, sql)
	}
	urls := []*string{&g.application, &g.reader, &g.auditWrite}
	for i, name := range names {
		password := rand.Text()
		pgtest.Exec(t, conn, "ALTER ROLE "+pgx.Identifier{name}.Sanitize()+" LOGIN PASSWORD '"+password+"'")
		*urls[i] = pgtest.WithUser(g.owner, name, password)
	}
	return g
}

// printed returns the output of "agentstore migrate grants".
func printed(t *testing.T, flags ...string) string {
	t.Helper()
	code, stdout, stderr := command.Run(t.Context(), t, "", append([]string{"migrate", "grants"}, flags...)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	return stdout
}

// denied runs each statement, which the server must refuse for lack of a privilege.
func denied(t *testing.T, databaseURL string, statements ...string) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	defer func() { _ = conn.Close(t.Context()) }()
	for _, statement := range statements {
		_, err := conn.Exec(t.Context(), statement)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "42501" { // insufficient_privilege
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// tables returns the tables of the migrated database, including the version table,
// and the views on request.
func tables(t *testing.T, databaseURL string, kinds ...string) []string {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), `
SELECT relname::text FROM pg_class
WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind = ANY ($1::"char"[]) AND NOT relispartition
ORDER BY relname`, append(kinds, "r", "p"))
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A new table needs lines in schema/grants.sql: at least one, and one for the reader
// (or for the audit role, which has tables of its own).
func (g granted) testEveryTableIsGranted(t *testing.T) {
	names := tables(t, g.owner, "v")
	if len(names) < 4 {
		t.Fatalf("only %v", names)
	}
	sql := printed(t)
	for _, name := range names {
		reads := false
		for line := range strings.Lines(sql) {
			reads = reads || strings.HasPrefix(line, "GRANT SELECT ON "+name+" TO ") && strings.Contains(line, `"agentstore_reader"`)
		}
		if !reads {
			t.Errorf("the reader may not read %s: schema/grants.sql has no line for that table", name)
		}
	}
	for line := range strings.Lines(sql) {
		_, after, isGrant := strings.Cut(line, " ON ")
		name, _, _ := strings.Cut(after, " ")
		if strings.HasPrefix(line, "GRANT ") && isGrant && name != "FUNCTION" && name != "SEQUENCE" && !slices.Contains(names, name) {
			t.Errorf("schema/grants.sql grants privileges on %s, which is not a table", name)
		}
	}
}
