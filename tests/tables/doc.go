// Package tables fills each table of a migrated schema, for tests that need a row in all
// of them, and breaks each rule of the schema with raw SQL.
package tables

import (
	"slices"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Names returns the tables of the session's schema, with the version table and without
// partitions.
func Names(t testing.TB, database pgtest.Database) []string {
	t.Helper()
	return pgtest.Value[[]string](t, database, `
		SELECT array_agg(relname::text ORDER BY relname) FROM pg_class
		WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`)
}

// Contents returns what identifies the rows of each table of the session's schema: two
// tables with equal rows have equal texts.
func Contents(t testing.TB, database pgtest.Database) map[string]string {
	t.Helper()
	contents := map[string]string{}
	for _, name := range Names(t, database) {
		contents[name] = pgtest.Value[string](t, database, `SELECT count(*) || ' ' || md5(coalesce(string_agg(r::text, E'\n' ORDER BY r::text COLLATE "C"), '')) FROM `+name+` r`)
	}
	return contents
}

// Different returns the tables whose contents differ.
func Different(some, others map[string]string) (names []string) {
	for name := range some {
		if some[name] != others[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
