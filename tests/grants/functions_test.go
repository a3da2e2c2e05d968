package grants

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	filled "github.com/seed-df90f812/agentstore/tests/tables"
)

// unusable are the rules' functions that a role may not execute, although it may insert into
// their tables.
const unusable = `
SELECT p.proname FROM pg_constraint c JOIN pg_depend d ON d.classid = 'pg_constraint'::regclass AND d.objid = c.oid AND d.refclassid = 'pg_proc'::regclass
JOIN pg_proc p ON p.oid = d.refobjid
WHERE (has_table_privilege($1, c.conrelid, 'UPDATE') OR has_any_column_privilege($1, c.conrelid, 'INSERT, UPDATE'))
    AND NOT has_function_privilege($1, p.oid, 'EXECUTE')`

// The roles may execute the functions that they need, also where default privileges keep new ones
// from all roles.
func TestRolesWithoutFunctionsOfEverybody(t *testing.T) {
	t.Parallel()
	owner := pgtest.NewEmptyDatabase(t)
	conn := pgtest.Connect(t, owner)
	pgtest.Exec(t, conn, "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC")
	if err := schema.Up(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	g := newGrantedOn(t, owner)
	for _, role := range []string{g.roles.Application, g.roles.Audit} {
		rows, _ := conn.Query(t.Context(), unusable, role)
		if names, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(names) > 0 {
			t.Errorf("%s may not execute %q, %v", role, names, err)
		}
	}
	application, audit := pgtest.OpenStore(t, g.application, agentstore.Options{}), pgtest.OpenStore(t, g.auditWrite, agentstore.Options{})
	id := pgtest.NewSession(t, application)
	if _, err := application.Sessions().Append(t.Context(), id, repo.NewMessage{Role: repo.RoleUser, Content: "x"}); err != nil {
		t.Error(err)
	}
	if _, err := application.Sessions().Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	if err := audit.Audit().Record(t.Context(), entry()); err != nil {
		t.Error(err)
	}
	filled.Seal(t, audit)
}
