package migrate

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	storeapi "github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// alter sets settings of the database (name = value, as SQL), for new sessions.
func alter(t *testing.T, databaseURL string, settings ...string) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	for _, setting := range settings {
		pgtest.Exec(t, conn, "ALTER DATABASE "+pgtest.Value[string](t, conn, "SELECT current_database()")+" SET "+setting)
	}
}

func TestMigratorsSettings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		settings []string
		before   string // SQL
		refused  string // the setting's name; empty: the run succeeds
		says     string
	}{
		{settings: []string{"client_encoding = 'LATIN1'", "DateStyle = 'SQL, DMY'", "TimeZone = 'Asia/Kolkata'", "standard_conforming_strings = off", "IntervalStyle = 'sql_standard'", "quote_all_identifiers = on", "default_transaction_isolation = 'serializable'"}},
		{settings: []string{"default_transaction_read_only = on"}, refused: "default_transaction_read_only", says: "every write would be refused"},
		{settings: []string{"session_replication_role = 'replica'"}, refused: "session_replication_role", says: "foreign keys"},
		{settings: []string{"search_path = Agents, public"}, refused: "search_path", says: `its first schema, "agents", does not exist`},
		{settings: []string{`search_path = "Agents", public`}, refused: "search_path", says: `its first schema, "Agents", does not exist`},
		{settings: []string{`search_path = "Agents", public`}, before: `CREATE SCHEMA "Agents"`},
		{settings: []string{`search_path = "A ""b"", $body${literal} %I' \ {schema} ☃"`}, before: `CREATE SCHEMA "A ""b"", $body${literal} %I' \ {schema} ☃"`},
		{settings: []string{"search_path = ''"}, refused: "search_path", says: "none of its schemas exists"},
		{settings: []string{"search_path = missing"}, refused: "search_path", says: "none of its schemas exists"},
		{settings: []string{"search_path = pg_temp, public"}, refused: "search_path", says: "pg_temp"},
		{settings: []string{`search_path = "$user", public`}},
		{
			settings: []string{"search_path = other, public"}, before: "CREATE SCHEMA other; CREATE TABLE public.agentstore_migrations (version bigint PRIMARY KEY, oldest_library bigint NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())",
			refused: "search_path", says: `agentstore's tables are in "public", and new ones would be created in "other"`,
		},
	} {
		t.Run(strings.Join(test.settings, ", "), func(t *testing.T) {
			t.Parallel()
			databaseURL := empty(t)
			if test.before != "" {
				pgtest.Exec(t, pgtest.Connect(t, databaseURL), test.before)
			}
			alter(t, databaseURL, test.settings...)
			err := schema.Up(t.Context(), databaseURL)
			if test.refused == "" {
				if err != nil {
					t.Fatal(err)
				}
				store, err := storeapi.Open(t.Context(), databaseURL, storeapi.Options{})
				if err != nil {
					t.Fatal(err)
				}
				_ = store.Close()
				return
			}
			var refused *schema.SettingError
			if !errors.Is(err, schema.ErrSetting) || !errors.As(err, &refused) || refused.Name != test.refused || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %s, %q", err, test.refused, test.says)
			}
			if pgtest.Value[int](t, pgtest.Connect(t, pgtest.WithParameter(databaseURL, "search_path", "public")), "SELECT count(*) FROM pg_class WHERE relname = 'sessions'") != 0 {
				t.Error("something was created")
			}
		})
	}
}

// If the schema is not on the search_path, the database is not taken for one that was
// never migrated.
func TestOpenWithASearchPathThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	databaseURL := empty(t)
	pgtest.Exec(t, pgtest.Connect(t, databaseURL), `CREATE SCHEMA "Agents"`)
	alter(t, databaseURL, `search_path = "Agents"`)
	if err := schema.Up(t.Context(), databaseURL); err != nil {
		t.Fatal(err)
	}
	alter(t, databaseURL, `search_path = Agents`) // agents, because it is not quoted
	_, err := storeapi.Open(t.Context(), databaseURL, storeapi.Options{})
	var refused *schema.SettingError
	if !errors.As(err, &refused) || refused.Name != "search_path" || refused.Value != "agents" {
		t.Errorf("got %v", err)
	}
}

// Timeouts that a role has for its service's short statements do not end a long
// migration, and each version sees what was committed before it got its locks.
func TestMigratorsOwnSettings(t *testing.T) {
	t.Parallel()
	databaseURL := empty(t)
	alter(t, databaseURL, "statement_timeout = '1h'", "idle_in_transaction_session_timeout = '1h'", "default_transaction_isolation = 'serializable'")
	conn := pgtest.Connect(t, databaseURL)
	under := func(databaseURL string) string {
		t.Helper()
		migrations := fstest.MapFS{"0001_settings.sql": file(`CREATE TABLE settings AS SELECT concat_ws(', ', current_setting('transaction_isolation'),
			current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout')) AS seen;`, "DROP TABLE settings;")}
		migrator := open(t, databaseURL, schema.Options{Migrations: migrations, AllowDataLoss: true})
		step(t, migrator, schema.TargetUp(1))
		defer step(t, migrator, schema.TargetDown(0))
		return pgtest.Value[string](t, conn, "SELECT seen FROM settings")
	}
	if got := under(databaseURL); got != "read committed, 0, 0" {
		t.Errorf("the version ran under %s", got)
	}
	// A timeout in the URL applies.
	if got := under(pgtest.WithParameter(databaseURL, "statement_timeout", "2h")); got != "read committed, 2h, 0" {
		t.Errorf("with a timeout in the URL the version ran under %s", got)
	}
}

// A session that ends between two versions is replaced by one that has the lock and the
// settings, too.
func TestLostSessionIsReplaced(t *testing.T) {
	t.Parallel()
	databaseURL := empty(t)
	alter(t, databaseURL, "default_transaction_isolation = 'serializable'")
	conn := pgtest.Connect(t, databaseURL)
	migrations := fstest.MapFS{
		"0001_one.sql": file("CREATE TABLE one ();", "DROP TABLE one;"),
		"0002_two.sql": file("CREATE TABLE two AS SELECT current_setting('transaction_isolation') AS isolation;", "DROP TABLE two;"),
	}
	_, err := open(t, databaseURL, schema.Options{Migrations: migrations, Progress: func(event schema.Event) {
		if event.Kind == schema.EventFinished && event.Step.Version == 1 {
			await.For(t, "the session has ended", func() bool {
				return pgtest.Value[int](t, conn, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()") == 0
			})
			// pace: more than a second, after which the driver looks whether the session is still there
			time.Sleep(1100 * time.Millisecond)
		}
	}}).Run(t.Context(), schema.TargetLatest())
	if err != nil {
		t.Fatal(err)
	}
	if got := pgtest.Value[string](t, conn, "SELECT isolation FROM two"); got != "read committed" {
		t.Errorf("the second version ran under %s", got)
	}
}
