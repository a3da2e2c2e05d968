package migrate

import (
	"testing"

	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// An empty schema is small, so that a database can have one for each of many tenants: the
// server keeps a file and rows of its catalogs for each relation.
func TestWeightOfAnEmptySchema(t *testing.T) {
	t.Parallel()
	const maxRelations, maxBytes = 113, 1 << 20
	conn := pgtest.Connect(t, pgtest.NewDatabase(t))
	const ours = ` FROM pg_class c WHERE c.relnamespace = quote_ident(current_schema())::regnamespace`
	relations := pgtest.Value[int](t, conn, "SELECT count(*)"+ours)
	bytes := pgtest.Value[int](t, conn, "SELECT sum(pg_total_relation_size(c.oid))"+ours+" AND c.relkind IN ('r', 'S', 'm')")
	t.Logf("%d relations, %d bytes", relations, bytes)
	if relations > maxRelations || bytes > maxBytes {
		t.Errorf("an empty schema has %d relations and %d bytes, more than %d and %d", relations, bytes, maxRelations, maxBytes)
	}
}

// Up of all versions, in an empty database.
func BenchmarkMigrate(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		databaseURL := pgtest.NewEmptyDatabase(b)
		b.StartTimer()
		if err := schema.Up(b.Context(), databaseURL); err != nil {
			b.Fatal(err)
		}
	}
}
