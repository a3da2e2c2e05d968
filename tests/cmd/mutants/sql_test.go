package main

import "testing"

const queries = `-- name: First :one
-- A comment: WHERE other.id = 1 FOR UPDATE.
SELECT 1;

-- name: Take :many
WITH seen AS MATERIALIZED (
    SELECT i.id FROM items i
    WHERE i.id = @id AND i.size BETWEEN 1 AND @most AND (i.owner IS DISTINCT FROM 'nobody' OR i.free)
    FOR NO KEY UPDATE OF i SKIP LOCKED
), waited AS (
    SELECT s.id, greatest(s.at, clock_timestamp()) AS at FROM seen s, LATERAL (
        SELECT parts.id FROM parts
        WHERE parts.id = s.id
        FOR UPDATE
    ) AS p
    WHERE NOT EXISTS (SELECT FROM stops) AND CASE WHEN s.late THEN true ELSE s.at < @until END
), put AS (
    INSERT INTO taken (id, at)
    SELECT w.id, w.at FROM waited w
    ON CONFLICT (id) DO UPDATE SET at = excluded.at, times = taken.times + 1 WHERE taken.at < excluded.at
    RETURNING id
)
SELECT p.id FROM put p
ORDER BY lower(p.id), p.at DESC
LIMIT @max_rows;
`

func TestSQLKinds(t *testing.T) {
	t.Parallel()
	tree := treeOf(t, "queries/q.sql", queries)
	for _, c := range []struct {
		query string
		kind  kind
		want  string
	}{
		{"Take", always("@id"), "WHERE (true OR (i.id = @id)) AND i.size BETWEEN 1 AND @most AND (i.owner IS DISTINCT FROM 'nobody' OR i.free)"},
		{"Take", never("@most"), "WHERE i.id = @id AND (false AND (i.size BETWEEN 1 AND @most)) AND (i.owner IS DISTINCT FROM 'nobody' OR i.free)"},
		{"Take", never("i.owner"), "WHERE i.id = @id AND i.size BETWEEN 1 AND @most AND ((false AND (i.owner IS DISTINCT FROM 'nobody')) OR i.free)"},
		{"Take", always("i.owner", "i.free"), "WHERE i.id = @id AND i.size BETWEEN 1 AND @most AND (true OR ((i.owner IS DISTINCT FROM 'nobody' OR i.free)))"},
		{"Take", always("stops"), "WHERE (true OR (NOT EXISTS (SELECT FROM stops))) AND CASE WHEN s.late THEN true ELSE s.at < @until END"},
		{"Take", never("s.late"), "WHERE NOT EXISTS (SELECT FROM stops) AND CASE WHEN (false AND (s.late)) THEN true ELSE s.at < @until END"},
		{"Take", always("@until"), "WHERE NOT EXISTS (SELECT FROM stops) AND (true OR (CASE WHEN s.late THEN true ELSE s.at < @until END))"},
		{"Take.waited", always("parts.id"), "WHERE (true OR (parts.id = s.id))"},
		{"Take", shift("@until"), "WHERE NOT EXISTS (SELECT FROM stops) AND CASE WHEN s.late THEN true ELSE s.at <= @until END"},
		{"Take", negate("@id"), "WHERE i.id <> @id AND i.size BETWEEN 1 AND @most AND (i.owner IS DISTINCT FROM 'nobody' OR i.free)"},
		{"Take", dropLock("items"), ""},
		{"Take", dropLock("SKIP"), ""},
		{"Take", dropSkip(), "FOR NO KEY UPDATE OF i"},
		{"Take.put", dropConflict(), ""},
		{"Take", doNothing(), "ON CONFLICT DO NOTHING"},
		{"Take.put", dropSet("at"), "ON CONFLICT (id) DO UPDATE SET  times = taken.times + 1 WHERE taken.at < excluded.at"},
		{"Take.put", dropSet("times"), "ON CONFLICT (id) DO UPDATE SET at = excluded.at WHERE taken.at < excluded.at"},
		{"Take", last("greatest"), "SELECT s.id, ( clock_timestamp()) AS at FROM seen s, LATERAL ("},
		{"Take", swap("clock_timestamp", "now"), "SELECT s.id, greatest(s.at, now()) AS at FROM seen s, LATERAL ("},
		{"Take", dropOrder("put"), ""},
		{"Take", reverse(), "ORDER BY lower(p.id) DESC, p.at ASC"},
		{"Take", dropLimit(), "LIMIT nullif(@max_rows, @max_rows);"},
	} {
		if got := changed(t, tree, query(c.query, c.kind)); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.kind, c.query, got, c.want)
		}
	}
}

// A clause that is dropped leaves an empty line, so the tests of those compare the place.
func TestSQLClauses(t *testing.T) {
	t.Parallel()
	tree := treeOf(t, "queries/q.sql", queries)
	for want, c := range map[string]change{
		"FOR NO KEY UPDATE OF i SKIP LOCKED": query("Take", dropLock("items")),
		"FOR UPDATE":                         query("Take", dropWait()),
		"ON CONFLICT (id) DO UPDATE SET at = excluded.at, times = taken.times + 1 WHERE taken.at < excluded.at": query("Take", dropConflict()),
		"ORDER BY lower(p.id), p.at DESC": query("Take", dropOrder()),
	} {
		found, err := c.resolve(tree)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := found.text[found.edits[0].from:found.edits[0].to]; got != want || len(found.edits) != 1 {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSQLCandidates(t *testing.T) {
	t.Parallel()
	tree := treeOf(t, "queries/q.sql", queries)
	fails(t, tree, query("Nothing", dropLock()), "no such query")
	fails(t, tree, query("Take.nothing", dropLock()), "seen", "waited", "put")
	fails(t, tree, query("Take", dropLock()), "2 places fit", "line 9: FOR NO KEY UPDATE OF i SKIP LOCKED", "line 14: FOR UPDATE")
	fails(t, tree, query("Take", always("i.missing")), "nothing fits", "i.id = @id")
	fails(t, tree, query("First", dropLock()), "none") // the comment is none
	fails(t, tree, query("Take", dropDefer("x")), errNotHere.Error())
}

const migration = `-- +goose Up

CREATE TABLE items (
    id   bigint NOT NULL,
    size bigint NOT NULL,
    CONSTRAINT items_pkey PRIMARY KEY (id),
    CONSTRAINT items_size_check CHECK (size >= 0 AND (id > 0 OR size < 10))
);

DO $do$
BEGIN
    EXECUTE replace($definition$
CREATE FUNCTION {schema}.items_keep(before timestamptz) RETURNS trigger LANGUAGE plpgsql
AS $body$
DECLARE
    kept bigint := 0;
BEGIN
    IF OLD.size > 0 AND current_user = 'owner' THEN
        DELETE FROM {schema}.parts WHERE id = OLD.id;
        RETURN OLD;
    END IF;
    UPDATE {schema}.items SET size = 0;
    RETURN NULL;
END
$body$
$definition$, '{schema}', quote_ident(current_schema()));
END
$do$;

CREATE TRIGGER items_keep BEFORE DELETE ON items
    FOR EACH ROW WHEN (OLD.size > 0) EXECUTE FUNCTION items_keep();
ALTER TABLE items ENABLE ALWAYS TRIGGER items_keep;

-- +goose Down

CREATE FUNCTION items_keep() RETURNS trigger LANGUAGE sql AS $$ SELECT 1 $$;
`

func TestObjectsOfTheSchema(t *testing.T) {
	t.Parallel()
	tree := treeOf(t, "schema/migrations/0001.sql", migration, "schema/migrations/0002.sql", "-- +goose Up\nSELECT 1;\n")
	for _, c := range []struct {
		change change
		want   string
	}{
		{function("items_keep", always("current_user")), "IF OLD.size > 0 AND (true OR (current_user = 'owner')) THEN"},
		{function("items_keep", dropStatement("parts")), "NULL;"},
		{function("items_keep", dropStatement("items")), "NULL;"},
		{trigger("items_keep", always("OLD.size")), "FOR EACH ROW WHEN (true OR ((OLD.size > 0))) EXECUTE FUNCTION items_keep();"},
		{constraint("items_size_check", always("size", "id")), ""},
		{constraint("items_size_check", never("id")), "CONSTRAINT items_size_check CHECK (size >= 0 AND ((false AND (id > 0)) OR size < 10))"},
		{dropTrigger("items_keep"), "DROP TRIGGER items_keep ON items;"},
		{dropConstraint("items_size_check"), "ALTER TABLE items DROP CONSTRAINT items_size_check CASCADE;"},
	} {
		if c.want == "" {
			c.want = "CONSTRAINT items_size_check CHECK (size >= 0 AND (true OR ((id > 0 OR size < 10))))"
		}
		if got := changed(t, tree, c.change); got != c.want {
			t.Errorf("%s: %s, want %s", c.change, got, c.want)
		}
	}
	found, err := notAlways("items_keep").resolve(tree)
	if err != nil {
		t.Fatal(err)
	}
	if got := found.text[found.edits[0].from:found.edits[0].to]; got != "ALTER TABLE items ENABLE ALWAYS TRIGGER items_keep;" {
		t.Error(got)
	}
	fails(t, tree, dropTrigger("other"), "do not define")
	fails(t, tree, constraint("items_pkey", always("id")), "none")
}

// A later migration's definition is the one that is changed.
func TestLastDefinition(t *testing.T) {
	t.Parallel()
	define := func(condition string) string {
		return "-- +goose Up\nCREATE OR REPLACE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$\nBEGIN\n    IF " + condition + " THEN\n        RETURN;\n    END IF;\nEND\n$$;\n"
	}
	tree := treeOf(t, "schema/migrations/0001.sql", define("first"), "schema/migrations/0002.sql", define("second"))
	if got := changed(t, tree, function("f", never("second"))); got != "IF (false AND (second)) THEN" {
		t.Error(got)
	}
	fails(t, tree, function("f", never("first")), "second")
}
