package migrate

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"

	storeapi "github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/schema"
)

// alter gives the database settings (name = value, as SQL), which new sessions
// have.
func alter(t *testing.T, databaseURL string, settings ...string) {
	t.Helper()
	conn := connect(t, databaseURL)
	for _, setting := range settings {
		execSQL(t, conn, "ALTER DATABASE "+query[string](t, conn, "SELECT current_database()")+" SET "+setting)
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
		{settings: []string{"client_encoding = 'LATIN1'", "DateStyle = 'SQL, DMY'", "TimeZone = 'Asia/Kolkata'", "standard_conforming_strings = off", "IntervalStyle = 'sql_standard'", "quote_all_identifiers = on"}},
		{settings: []string{"default_transaction_isolation = 'serializable'"}},
		{settings: []string{"default_transaction_read_only = on"}, refused: "default_transaction_read_only", says: "every write would be refused"},
		{settings: []string{"session_replication_role = 'replica'"}, refused: "session_replication_role", says: "foreign keys"},
		{settings: []string{"search_path = Agents, public"}, refused: "search_path", says: `its first schema, "agents", is not there`},
		{settings: []string{`search_path = "Agents", public`}, refused: "search_path", says: `its first schema, "Agents", is not there`},
		{settings: []string{`search_path = "Agents", public`}, before: `CREATE SCHEMA "Agents"`},
		{settings: []string{`search_path = "A ""b"", c"`}, before: `CREATE SCHEMA "A ""b"", c"`},
		{settings: []string{`search_path = "a%I' \ {schema} ☃"`}, before: `CREATE SCHEMA "a%I' \ {schema} ☃"`},
		{settings: []string{`search_path = "a$body$b"`}, before: `CREATE SCHEMA "a$body$b"`, refused: "search_path", says: "may not hold"},
		{settings: []string{`search_path = "a{literal}b"`}, before: `CREATE SCHEMA "a{literal}b"`, refused: "search_path", says: "may not hold"},
		{settings: []string{"search_path = ''"}, refused: "search_path", says: "none of its schemas is there"},
		{settings: []string{"search_path = missing"}, refused: "search_path", says: "none of its schemas is there"},
		{settings: []string{"search_path = pg_temp, public"}, refused: "search_path", says: "pg_temp"},
		{settings: []string{`search_path = "$user", public`}},
		{settings: []string{"search_path = other, public"}, before: "CREATE SCHEMA other; CREATE TABLE public.agentstore_migrations (version bigint PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())",
			refused: "search_path", says: `the schema's tables are in "public", and new ones would be made in "other"`},
	} {
		t.Run(strings.Join(test.settings, ", "), func(t *testing.T) {
			t.Parallel()
			databaseURL := empty(t)
			if test.before != "" {
				execSQL(t, connect(t, databaseURL), test.before)
			}
			alter(t, databaseURL, test.settings...)
			err := schema.Up(t.Context(), databaseURL)
			if test.refused == "" {
				if err != nil {
					t.Fatal(err)
				}
				store, err := storeapi.Open(t.Context(), databaseURL)
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
			if query[int](t, connect(t, withOptions(t, databaseURL)), "SELECT count(*) FROM pg_class WHERE relname = 'sessions'") != 0 {
				t.Error("something was made all the same")
			}
		})
	}
}

// withOptions is the database with the search_path as it is by default.
func withOptions(t *testing.T, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal("the URL does not parse")
	}
	parameters := u.Query()
	parameters.Set("search_path", "public")
	u.RawQuery = parameters.Encode()
	return u.String()
}

// A database whose schema is elsewhere than the search_path says is not taken for
// one that was never migrated.
func TestOpenWithASearchPathThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	databaseURL := empty(t)
	execSQL(t, connect(t, databaseURL), `CREATE SCHEMA "Agents"`)
	alter(t, databaseURL, `search_path = "Agents"`)
	if err := schema.Up(t.Context(), databaseURL); err != nil {
		t.Fatal(err)
	}
	alter(t, databaseURL, `search_path = Agents`) // in lower case, without the quotes
	_, err := storeapi.Open(t.Context(), databaseURL)
	var refused *schema.SettingError
	if !errors.As(err, &refused) || refused.Name != "search_path" || refused.Value != "agents" {
		t.Errorf("got %v", err)
	}
}

// What a role may have for its service's short statements does not end a long
// migration, and each version sees what was committed before it got its locks.
func TestMigratorsOwnSettings(t *testing.T) {
	t.Parallel()
	databaseURL := empty(t)
	alter(t, databaseURL, "statement_timeout = '500ms'", "idle_in_transaction_session_timeout = '500ms'", "default_transaction_isolation = 'serializable'")
	migrations := fstest.MapFS{"0001_slow.sql": file(`CREATE TABLE slow AS SELECT current_setting('transaction_isolation') AS isolation; SELECT pg_sleep(1);`, "DROP TABLE slow;")}
	if _, err := open(t, databaseURL, schema.Options{Migrations: migrations}).Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query[string](t, connect(t, databaseURL), "SELECT isolation FROM slow"); got != "read committed" {
		t.Errorf("the version ran under %s", got)
	}
	// Who asks for a timeout in the URL gets it.
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal("the URL does not parse")
	}
	parameters := u.Query()
	parameters.Set("statement_timeout", "300")
	u.RawQuery = parameters.Encode()
	migrations["0002_slow.sql"] = file("SELECT pg_sleep(1);", "SELECT 1;")
	if _, err := open(t, u.String(), schema.Options{Migrations: migrations}).Up(t.Context()); err == nil || !strings.Contains(err.Error(), "57014") {
		t.Errorf("with a timeout in the URL: %v", err)
	}
}
