package audit

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A schema may have any name: functions that run as the owner still find their
// tables.
func TestSchemaOfAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"MixedCase", `with "quotes", and spaces`, "$user", "select", "a\nBEGIN\nb"} {
		quoted := pgx.Identifier{name}.Sanitize()
		searchPath := quoted
		pool := pgtest.NewPool(t, pgtest.NewEmptyDatabase(t), func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["search_path"] = searchPath
		})
		if name == "$user" { // stands for the role's own schema
			quoted = "postgres"
		}
		pgtest.Exec(t, pool, "CREATE SCHEMA "+quoted)
		store, err := agentstore.OpenPool(t.Context(), pool, agentstore.Options{Migrate: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := store.Audit().Record(t.Context(), repo.AuditEntry{Type: repo.EventAuthFailure}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if waiting, err := store.AuditStore().Waiting(t.Context(), 0); err != nil || waiting.Entries != 1 {
			t.Errorf("%s: %+v, %v", name, waiting, err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}
