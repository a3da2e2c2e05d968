package migrate

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	library "github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A server that is too old is refused by all who open it, before anything is
// made, with an error that names its version. No package has a server that old:
// this one says that it is 12.22, by a function that stands before its own.
func TestOldServer(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	conn, err := pgx.Connect(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), `
		CREATE FUNCTION current_setting(text) RETURNS text LANGUAGE sql AS $$
			SELECT CASE $1 WHEN 'server_version_num' THEN '120022' ELSE pg_catalog.current_setting($1) END $$;
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = %I, pg_catalog', current_database(), current_schema()); END $$`); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, err error) {
		t.Helper()
		old, found := errors.AsType[*schema.SettingError](err)
		if !found || old.Name != "server_version" || !errors.Is(err, schema.ErrSetting) || !strings.Contains(err.Error(), "PostgreSQL 13 or later is needed") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = library.Open(t.Context(), databaseURL, library.Options{Migrate: true})
	refused("Open", err)
	if !errors.Is(err, repo.ErrSchema) || errors.Is(err, repo.ErrUnavailable) {
		t.Errorf("Open: %v", err)
	}
	_, err = library.OpenPool(t.Context(), pgtest.NewPool(t, databaseURL))
	refused("OpenPool", err)
	refused("Up", schema.Up(t.Context(), databaseURL))
	var made bool
	if err := conn.QueryRow(t.Context(), "SELECT to_regclass('agentstore_migrations') IS NOT NULL").Scan(&made); err != nil {
		t.Fatal(err)
	}
	if made {
		t.Error("something was made there")
	}
}
