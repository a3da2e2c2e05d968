package grants

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/command"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// granted is a migrated database with its roles, who can log in.
type granted struct {
	roles              schema.Roles
	owner              string // the URLs of each
	application        string
	reader, auditWrite string
}

// newGranted makes them as the documentation says: what the command prints, run
// by the owner. Names have all that needs quoting.
func newGranted(t *testing.T) granted {
	t.Helper()
	g := granted{owner: pgtest.NewDatabase(t)}
	suffix := ` "x'\ ` + rand.Text()[:12]
	g.roles = schema.Roles{Application: "App" + suffix, Reader: "reader;--" + suffix, Audit: "audit" + suffix}
	names := []string{g.roles.Application, g.roles.Reader, g.roles.Audit}
	conn := connect(t, g.owner)
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
	sql := printed(t, "--application-role", g.roles.Application, "--reader-role", g.roles.Reader, "--audit-role", g.roles.Audit)
	// As the documentation says for PostgreSQL 14 and older.
	execSQL(t, conn, "DO $$ BEGIN EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', current_schema()); END $$")
	for range 2 { // it may be run again
		execSQL(t, conn, sql)
	}
	urls := []*string{&g.application, &g.reader, &g.auditWrite}
	for i, name := range names {
		password := rand.Text()
		execSQL(t, conn, "ALTER ROLE "+pgx.Identifier{name}.Sanitize()+" LOGIN PASSWORD '"+password+"'")
		u, err := url.Parse(g.owner)
		if err != nil {
			t.Fatal("the URL does not parse")
		}
		u.User = url.UserPassword(name, password)
		*urls[i] = u.String()
	}
	return g
}

// printed is the output of "agentstore migrate grants".
func printed(t *testing.T, flags ...string) string {
	t.Helper()
	code, stdout, stderr := command.Run(t.Context(), t, "", append([]string{"migrate", "grants"}, flags...)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	return stdout
}

func connect(t *testing.T, databaseURL string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func execSQL(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// denied runs each statement, which the server must refuse for want of a right.
func denied(t *testing.T, databaseURL string, statements ...string) {
	t.Helper()
	conn := connect(t, databaseURL)
	defer func() { _ = conn.Close(t.Context()) }()
	for _, statement := range statements {
		_, err := conn.Exec(t.Context(), statement)
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "42501" { // insufficient_privilege
			t.Errorf("%s: %v", statement, err)
		}
	}
}

// tables are those of the migrated database, our version table with them, and
// views where they are asked for.
func tables(t *testing.T, databaseURL string, kinds ...string) []string {
	t.Helper()
	conn := connect(t, databaseURL)
	defer func() { _ = conn.Close(t.Context()) }()
	rows, err := conn.Query(t.Context(), `
SELECT relname::text FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind = ANY ($1::"char"[]) AND NOT relispartition
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

// A new table needs its lines in schema/grants.sql: at least one, and one for
// the reader (or the audit role, which has its own tables).
func TestEveryTableIsGranted(t *testing.T) {
	t.Parallel()
	names := tables(t, pgtest.NewDatabase(t), "v")
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
			t.Errorf("the reader may not read %s: schema/grants.sql has no line for it", name)
		}
	}
	for line := range strings.Lines(sql) {
		_, after, isGrant := strings.Cut(line, " ON ")
		name, _, _ := strings.Cut(after, " ")
		if strings.HasPrefix(line, "GRANT ") && isGrant && name != "FUNCTION" && !slices.Contains(names, name) {
			t.Errorf("schema/grants.sql grants rights on %s, which is no table", name)
		}
	}
}
