//go:build !race

package directory

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/directory"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A million conversations of one user, of one of ten thousand tenants, made by statements. It logs what a page of 50
// takes.
func TestAmountPages(t *testing.T) {
	t.Parallel()
	url := pgtest.NewDatabase(t)
	pool, store := pgtest.NewPool(t, url), pgtest.OpenStore(t, url, agentstore.Options{}).In("acme")
	d, err := directory.New(store, "ann")
	if err != nil {
		t.Fatal(err)
	}
	names, err := d.Scopes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	count, tenants := pgtest.Choose(1_000_000, 20_000), pgtest.Choose(10_000, 100)
	began := time.Now()
	made := func(sql string, arguments ...any) {
		t.Helper()
		pgtest.Exec(t, pool, sql, arguments...)
	}
	made(`INSERT INTO sessions (id, namespace, owner, created_at, updated_at)
		SELECT gen_random_uuid(), 'acme', 'ann', now() - n * interval '20 seconds', now() - n * interval '20 seconds' FROM generate_series(1, $1::int) n`, count)
	made(`INSERT INTO sessions (id, namespace, owner, created_at, updated_at)
		SELECT gen_random_uuid(), 'tenant ' || n % $1::int, 'ann', now() - n * interval '1 minute', now() - n * interval '1 minute' FROM generate_series(1, $1::int * 10) n`, tenants)
	made(`INSERT INTO session_counters (session_id, updated_at, next_sequence) SELECT id, updated_at, 7 FROM sessions`)
	made(`INSERT INTO session_activity (session_id, namespace, owner, active_at) SELECT id, namespace, owner, updated_at FROM sessions`)
	made(`CREATE TABLE numbered AS SELECT id, id::text AS text, row_number() OVER (ORDER BY updated_at DESC) AS n FROM sessions WHERE namespace = 'acme'`)
	made(`INSERT INTO state_scopes (id, namespace, name, version) SELECT id, 'acme', $1 || '/' || text, 1 FROM numbered`, names[0])
	made(`INSERT INTO state_values (scope_id, key, value, version)
		SELECT id, 'entry', json_build_object('title', 'About topic' || n % 2000, 'starred', n % 50000 = 9, 'archived', n % 100 = 0,
			'tags', CASE WHEN n % 2000 = 1 THEN '["common","rare"]' WHEN n % 10 = 0 THEN '["common"]' ELSE '[]' END::json), 1 FROM numbered`)
	made(`INSERT INTO state_scopes (id, namespace, name, version) VALUES ('00000000-0000-7000-8000-000000000000', 'acme', $1, 1)`, names[0])
	made(`INSERT INTO state_values (scope_id, key, value, version)
		SELECT '00000000-0000-7000-8000-000000000000', k, 'true', 1 FROM numbered, LATERAL (VALUES ('c/' || text), ('w/about/' || text), ('w/topic' || n % 2000 || '/' || text),
			(CASE WHEN n % 2000 = 1 THEN 't/rare/' || text END), (CASE WHEN n % 2000 = 1 OR n % 10 = 0 THEN 't/common/' || text END),
			(CASE WHEN n % 50000 = 9 THEN 's/' || text END), (CASE WHEN n % 100 = 0 THEN 'a/' || text END)) AS v (k) WHERE k IS NOT NULL`)
	made(`DROP TABLE numbered`)
	made(`VACUUM (ANALYZE, PARALLEL 0)`)
	t.Logf("%d conversations, %d tenants, made in %v", count, tenants, time.Since(began))
	for _, of := range []struct {
		name      string
		selection directory.Selection
	}{
		{"by activity", directory.Selection{}},
		{"starred first", directory.Selection{StarredFirst: true}},
		{"a tag of 500", directory.Selection{Tags: []string{"rare"}}},
		{"a word of 500", directory.Selection{Words: "topic1777"}},
		{"a tag of 100,000", directory.Selection{Tags: []string{"common"}}},
		{"archived, 10,000", directory.Selection{Archived: true}},
	} {
		first := pages(t, d, of.selection, repo.Page{Limit: 50}, of.name)
		pages(t, d, of.selection, repo.Page{Limit: 50, After: first.Next}, of.name+", second page")
	}
}

// pages logs what a page takes, and returns it.
func pages(t *testing.T, d *directory.Directory, selection directory.Selection, page repo.Page, name string) (list directory.Listing) {
	t.Helper()
	var took []time.Duration
	for range pgtest.Choose(300, 20) {
		began := time.Now()
		var err error
		list, err = d.List(t.Context(), selection, page)
		if took = append(took, time.Since(began)); err != nil || len(list.Items) == 0 {
			t.Fatalf("%s: %d items: %v", name, len(list.Items), err)
		}
	}
	slices.Sort(took)
	t.Logf("%s: %d conversations: %v (median of %d), %v (p99), %v at most", name, len(list.Items), took[len(took)/2], len(took), took[len(took)*99/100], took[len(took)-1])
	return list
}
