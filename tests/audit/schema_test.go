package audit

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A schema may have any name: the functions that run as the owner find their
// tables in it all the same.
func TestSchemaOfAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"MixedCase", `with "quotes", and spaces`, "$user", "select"} {
		config, err := pgxpool.ParseConfig(pgtest.NewEmptyDatabase(t))
		if err != nil {
			t.Fatal(err)
		}
		quoted := pgx.Identifier{name}.Sanitize()
		config.ConnConfig.RuntimeParams["search_path"] = quoted
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		if name == "$user" { // which stands for the role's own
			quoted = "postgres"
		}
		if _, err := pool.Exec(t.Context(), "CREATE SCHEMA "+quoted); err != nil {
			t.Fatal(err)
		}
		store, err := agentstore.OpenPool(t.Context(), pool, agentstore.Options{Migrate: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := store.Audit().Record(t.Context(), repo.AuditEntry{Type: repo.EventAuthFailure}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if waiting, err := store.Trail().Waiting(t.Context(), 0); err != nil || waiting.Entries != 1 {
			t.Errorf("%s: %+v, %v", name, waiting, err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}
