package migrate

import (
	"errors"
	"strings"
	"testing"

	library "github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// All functions that open a database refuse a server that is too old, before they
// create anything, with an error that names its version. No package has such an old
// server: this one claims to be 12.22, by a function that is found before its own.
func TestOldServer(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, `
		CREATE FUNCTION current_setting(text) RETURNS text LANGUAGE sql AS $$
			SELECT CASE $1 WHEN 'server_version_num' THEN '120022' ELSE pg_catalog.current_setting($1) END $$;
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = %I, pg_catalog', current_database(), current_schema()); END $$`)
	refused := func(what string, err error) {
		t.Helper()
		old, found := errors.AsType[*schema.SettingError](err)
		if !found || old.Name != "server_version" || !errors.Is(err, schema.ErrSetting) || !strings.Contains(err.Error(), "PostgreSQL 13 or later is needed") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := library.Open(t.Context(), databaseURL, library.Options{Migrate: true})
	refused("Open", err)
	if !errors.Is(err, repo.ErrSchema) || errors.Is(err, repo.ErrUnavailable) {
		t.Errorf("Open: %v", err)
	}
	_, err = library.OpenPool(t.Context(), pgtest.NewPool(t, databaseURL), library.Options{})
	refused("OpenPool", err)
	refused("Up", schema.Up(t.Context(), databaseURL))
	made := pgtest.Value[bool](t, conn, "SELECT to_regclass('agentstore_migrations') IS NOT NULL")
	if made {
		t.Error("something was created")
	}
}
