package postgres

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/tests/tables"
)

// The database refuses what the domain forbids, from every writer.
// Guarantee: Servers and roles: The database refuses what the domain forbids, from every writer.
func TestConstraints(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	tables.Fill(t, pgtest.OpenStore(t, databaseURL, agentstore.Options{}))
	tables.CheckRules(t, pgtest.Connect(t, databaseURL), "")
}

// hostileSchema makes operators and functions that say yes to everything, a type text of which
// a cast makes null whatever is broken, and rules of naive functions, which find them if they are
// before PostgreSQL's.
const hostileSchema = `
CREATE SCHEMA hostile;
CREATE FUNCTION naive_valid(value text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN value <> '' AND octet_length(value) <= 10; END $$;
CREATE TABLE naive (value text CONSTRAINT naive_check CHECK (naive_valid(value)));
INSERT INTO naive VALUES ('x');
DO $do$
DECLARE
    left_type text;
    right_type text;
    operator text;
    function text;
BEGIN
    FOR left_type, right_type IN VALUES ('text', 'text'), ('bigint', 'integer'), ('bigint', 'bigint'), ('integer', 'integer'), ('smallint', 'integer'),
        ('uuid', 'uuid'), ('boolean', 'boolean'), ('double precision', 'double precision')
    LOOP
        EXECUTE format('CREATE FUNCTION hostile.yes(%s, %s) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT true $$', left_type, right_type);
        FOREACH operator IN ARRAY ARRAY['=', '<>', '<', '>', '<=', '>='] LOOP
            EXECUTE format('CREATE OPERATOR hostile.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = hostile.yes)', operator, left_type, right_type);
        END LOOP;
    END LOOP;
    CREATE OPERATOR hostile.~ (LEFTARG = text, RIGHTARG = text, FUNCTION = hostile.yes);
    FOREACH function IN ARRAY ARRAY['octet_length(text)', 'octet_length(bytea)', 'cardinality(anyarray)', 'array_position(anyarray, anyelement)'] LOOP
        EXECUTE format('CREATE FUNCTION hostile.%s RETURNS integer LANGUAGE sql IMMUTABLE AS $$ SELECT 1 $$', function);
    END LOOP;
    CREATE FUNCTION hostile.json_typeof(json) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'object'::text $$;
END
$do$;
CREATE TYPE hostile.text AS ENUM ();
CREATE FUNCTION hostile.nothing(pg_catalog.text) RETURNS hostile.text LANGUAGE sql AS $$ SELECT NULL::hostile.text $$;
CREATE CAST (pg_catalog.text AS hostile.text) WITH FUNCTION hostile.nothing AS ASSIGNMENT;
CREATE FUNCTION naive_typed_valid(value text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    broken CONSTANT text := CASE WHEN value OPERATOR(pg_catalog.=) '' THEN 'naive_typed_check' END;
BEGIN RETURN broken IS NULL; END $$;
CREATE TABLE naive_typed AS SELECT 'x' AS value;
ALTER TABLE naive_typed ADD CONSTRAINT naive_typed_check CHECK (naive_typed_valid(value)) NOT VALID`

// No rule depends on what the caller's search_path finds. The harness notices one that does.
func TestConstraintsUnderAHostileSearchPath(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	tables.Fill(t, pgtest.OpenStore(t, databaseURL, agentstore.Options{}))
	pgtest.Exec(t, conn, hostileSchema)
	for path, refuses := range map[string]bool{"hostile, pg_catalog": false, "": true} {
		if refused := tables.Break(t, conn, "naive", "value = ''", path); (refused != nil) != refuses {
			t.Errorf("a naive rule under the search_path %q: %v", path, refused)
		}
	}
	// A function keeps the types that it found first.
	if refused := tables.Break(t, conn, "naive_typed", "value = ''", "hostile, pg_catalog"); refused != nil {
		t.Errorf("a rule of a naive variable: %v", refused)
	}
	pgtest.Exec(t, conn, "DROP TABLE naive, naive_typed")
	tables.CheckRules(t, conn, "hostile, pg_catalog")
}
