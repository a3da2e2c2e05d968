package migrate

import (
	"fmt"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A later release has two more versions. The first expands the schema by what CONTRIBUTING.md
// allows, so that this library works on it. The second removes what this library needs, and
// declares the first as the oldest library.
var (
	expanding   = schema.Latest() + 1
	contracting = schema.Latest() + 2
)

const expand = `-- oldest library: %d

-- +goose Up
ALTER TABLE sessions ADD COLUMN extra text, ADD COLUMN counted bigint NOT NULL DEFAULT 0;
ALTER TABLE messages ADD COLUMN extra json NOT NULL DEFAULT '{}';
ALTER TABLE state_values ADD COLUMN extra text;
ALTER TABLE leases ADD COLUMN extra text;
ALTER TABLE plans ADD COLUMN extra text;
ALTER TABLE streams ADD COLUMN extra text;
ALTER TABLE audit_entries ADD COLUMN extra text;
CREATE TABLE extras (
    session_id uuid NOT NULL,
    CONSTRAINT extras_pkey PRIMARY KEY (session_id),
    CONSTRAINT extras_session_id_fkey FOREIGN KEY (session_id) REFERENCES sessions (id) ON DELETE CASCADE
);
CREATE FUNCTION extra_of(id uuid) RETURNS text LANGUAGE sql STABLE AS 'SELECT extra FROM sessions s WHERE s.id = $1';

-- +goose Down
LOCK TABLE sessions, extras IN ACCESS EXCLUSIVE MODE;
-- +goose StatementBegin
DO $$
BEGIN
    IF coalesce(current_setting('agentstore.allow_data_loss', true), '') <> 'on' AND EXISTS (SELECT FROM extras) THEN
        RAISE EXCEPTION 'table extras still holds rows' USING ERRCODE = 'ZAS01';
    END IF;
END
$$;
-- +goose StatementEnd
DROP FUNCTION extra_of;
DROP TABLE extras;
ALTER TABLE sessions DROP COLUMN extra, DROP COLUMN counted;
ALTER TABLE messages DROP COLUMN extra;
ALTER TABLE state_values DROP COLUMN extra;
ALTER TABLE leases DROP COLUMN extra;
ALTER TABLE plans DROP COLUMN extra;
ALTER TABLE streams DROP COLUMN extra;
ALTER TABLE audit_entries DROP COLUMN extra;
`

const contract = `-- oldest library: %d

-- +goose Up
ALTER TABLE sessions RENAME COLUMN actor TO agent;

-- +goose Down
ALTER TABLE sessions RENAME COLUMN agent TO actor;
`

// later returns the migrations of the later release.
func later(t *testing.T) fstest.MapFS {
	t.Helper()
	migrations := fstest.MapFS{
		fmt.Sprintf("%04d_expand.sql", expanding):     {Data: fmt.Appendf(nil, expand, schema.Latest())},
		fmt.Sprintf("%04d_contract.sql", contracting): {Data: fmt.Appendf(nil, contract, expanding)},
	}
	directory := os.DirFS("../../schema/migrations")
	for _, migration := range schema.List() {
		content, err := fs.ReadFile(directory, migration.Name+".sql")
		if err != nil {
			t.Fatal(err)
		}
		migrations[migration.Name+".sql"] = &fstest.MapFile{Data: content}
	}
	return migrations
}

// upgraded returns a database of the later release, and its migrator.
func upgraded(t *testing.T, version int64) (databaseURL string, migrator *schema.Migrator) {
	t.Helper()
	databaseURL = pgtest.NewDatabase(t)
	migrator = open(t, databaseURL, schema.Options{Migrations: later(t)})
	if _, err := migrator.Run(t.Context(), schema.TargetUp(version)); err != nil {
		t.Fatal(err)
	}
	return databaseURL, migrator
}

// step runs to a target that is exactly one version away.
func step(t *testing.T, migrator *schema.Migrator, target schema.Target) {
	t.Helper()
	steps, err := migrator.Run(t.Context(), target)
	if err != nil || len(steps) != 1 {
		t.Fatalf("steps %v, error %v", steps, err)
	}
}
