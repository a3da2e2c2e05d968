package migrate

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// catalogSQL describes everything that a migration can create, one object per line,
// in an order that does not depend on when it was created.
const catalogSQL = `
WITH ours AS (
    SELECT oid, nspname FROM pg_namespace
    WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'
), lines AS (
    SELECT format('schema %s %s', nspname, obj_description(oid, 'pg_namespace')) AS line FROM ours
    UNION ALL
    SELECT format('relation %s kind %s persistence %s options %s acl %s row security %s comment %s',
                  c.oid::regclass, c.relkind, c.relpersistence, c.reloptions, c.relacl, c.relrowsecurity, obj_description(c.oid, 'pg_class'))
    FROM pg_class c JOIN ours ON ours.oid = c.relnamespace
    UNION ALL
    SELECT format('column %s place %s %s %s not null %s default %s identity %s generated %s collation %s storage %s comment %s',
                  a.attrelid::regclass, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum), a.attname,
                  format_type(a.atttypid, a.atttypmod), a.attnotnull, pg_get_expr(d.adbin, d.adrelid), a.attidentity,
                  a.attgenerated, a.attcollation::regcollation, a.attstorage, col_description(a.attrelid, a.attnum))
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN ours ON ours.oid = c.relnamespace
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT format('constraint %s on %s: %s validated %s', conname, conrelid::regclass, pg_get_constraintdef(p.oid), convalidated)
    FROM pg_constraint p JOIN ours ON ours.oid = p.connamespace
    UNION ALL
    SELECT format('index %s valid %s', pg_get_indexdef(i.indexrelid), i.indisvalid)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN ours ON ours.oid = c.relnamespace
    UNION ALL
    SELECT format('trigger %s', pg_get_triggerdef(g.oid))
    FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid JOIN ours ON ours.oid = c.relnamespace WHERE NOT g.tgisinternal
    UNION ALL
    SELECT format('function %s', pg_get_functiondef(f.oid))
    FROM pg_proc f JOIN ours ON ours.oid = f.pronamespace WHERE f.prokind IN ('f', 'p')
    UNION ALL
    SELECT format('view %s: %s', c.oid::regclass, pg_get_viewdef(c.oid))
    FROM pg_class c JOIN ours ON ours.oid = c.relnamespace WHERE c.relkind IN ('v', 'm')
    UNION ALL
    SELECT format('type %s kind %s labels %s', t.oid::regtype, t.typtype,
                  (SELECT array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid))
    FROM pg_type t JOIN ours ON ours.oid = t.typnamespace
    UNION ALL
    SELECT format('policy %s on %s', polname, polrelid::regclass) FROM pg_policy
    UNION ALL
    SELECT format('extension %s %s', extname, extversion) FROM pg_extension
    UNION ALL
    SELECT format('setting %s of role %s', setconfig, setrole) FROM pg_db_role_setting
    WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT line FROM lines ORDER BY line COLLATE "C"`

func catalog(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	rows, _ := conn.Query(t.Context(), catalogSQL)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// schemaOf returns the catalog without the migrator's own table, which stays when
// everything is reverted.
func schemaOf(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	return slices.DeleteFunc(catalog(t, conn), func(line string) bool {
		return strings.Contains(line, "agentstore_migrations")
	})
}

func equalCatalogs(t *testing.T, what string, got, want []string) {
	t.Helper()
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("%s: added: %s", what, line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s: gone: %s", what, line)
		}
	}
}
