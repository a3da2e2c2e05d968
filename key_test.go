package agentstore

import (
	"strings"
	"testing"
)

func keyOf(t *testing.T, databaseURL string) string {
	t.Helper()
	config, err := parse(databaseURL)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return databaseKey(config.ConnConfig)
}

func TestSpellingsOfOneDatabaseShareAKey(t *testing.T) {
	want := keyOf(t, "postgres://app:s3cret@db.example:5432/agents?sslmode=disable&application_name=x")
	for _, spelling := range []string{
		"postgresql://app:s3cret@db.example:5432/agents?sslmode=disable&application_name=x",
		"postgres://app:s3cret@db.example/agents?application_name=x&sslmode=disable",
		"postgres://app:s3cret@DB.Example:5432/agents?sslmode=disable&application_name=x",
		"postgres://app:%733cret@db.example:5432/agents?sslmode=disable&application_name=x",
		"host=db.example user=app password=s3cret dbname=agents sslmode=disable application_name=x",
		"dbname=agents application_name=x sslmode=disable password=s3cret user=app port=5432 host=db.example",
		"postgres://app:s3cret@db.example/agents?sslmode=disable&application_name=x&pool_max_conns=7",
	} {
		if keyOf(t, spelling) != want {
			t.Errorf("another key: %s", strings.ReplaceAll(spelling, "s3cret", "…"))
		}
	}
}

func TestSpellingsOfSeveralHostsShareAKey(t *testing.T) {
	want := keyOf(t, "postgres://app:a@db1:5432,db2:5433/agents?sslmode=disable&target_session_attrs=read-write")
	for _, spelling := range []string{
		"postgresql://app:a@DB1,db2:5433/agents?target_session_attrs=read-write&sslmode=disable",
		"postgres:///agents?user=app&password=a&host=db1,db2&port=5432,5433&sslmode=disable&target_session_attrs=read-write",
		"host=db1,db2 port=5432,5433 user=app password=a dbname=agents sslmode=disable target_session_attrs=read-write",
	} {
		if keyOf(t, spelling) != want {
			t.Errorf("another key: %s", spelling)
		}
	}
}

func TestDifferentDatabasesHaveDifferentKeys(t *testing.T) {
	seen := map[string]string{}
	for _, databaseURL := range []string{
		"postgres://app:a@db/agents?sslmode=disable",
		"postgres://app:b@db/agents?sslmode=disable",
		"postgres://other:a@db/agents?sslmode=disable",
		"postgres://app:a@db/other?sslmode=disable",
		"postgres://app:a@db:5433/agents?sslmode=disable",
		"postgres://app:a@db2/agents?sslmode=disable",
		"postgres://app:a@db,db2/agents?sslmode=disable",
		"postgres://app:a@db/agents?sslmode=require",
		"postgres://app:a@db/agents?sslmode=verify-full",
		"postgres://app:a@db/agents?sslmode=disable&search_path=tenant",
		"postgres://app:a@db/agents?sslmode=disable&target_session_attrs=read-write",
		"postgres://app:a@db/agents?sslmode=disable&target_session_attrs=read-only",
		"postgres://app:a@db2,db/agents?sslmode=disable",
		"postgres://app:a@db/agents?sslmode=require&channel_binding=require",
		"postgres://app:a@db/agents?sslmode=disable&default_query_exec_mode=exec",
	} {
		key := keyOf(t, databaseURL)
		if other, taken := seen[key]; taken {
			t.Errorf("one key for %s and %s", other, databaseURL)
		}
		seen[key] = databaseURL
	}
}

func TestURLErrorsNeverQuoteTheURL(t *testing.T) {
	for _, databaseURL := range []string{
		"", "   ", "mysql://app:s3cret@db/agents", "postgres://app:s3cret@db:port/agents",
		"postgres://app:s3cret@db/agents?sslmode=s3cret", "postgres://app:s3%zzcret@db/agents",
		"postgres://app:s3cret@x@db/agents", "host=db password=s3cret with spaces",
		"postgres://app:s3cret@db/agents?pool_max_conns=s3cret", "s3cret",
	} {
		_, err := parse(databaseURL)
		if err == nil {
			t.Errorf("accepted: %q", databaseURL)
			continue
		}
		if strings.Contains(err.Error(), "s3") {
			t.Errorf("%q is quoted: %v", databaseURL, err)
		}
	}
}
