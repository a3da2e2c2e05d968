package postgres

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A claim locks no plans that do not fit into its answer, and reads nothing of their texts.
func TestClaimLeavesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	queue := func(namespace string, count int) {
		queueMany(t, store.Pool(), namespace, count)
		// 9 MB, which cannot be compressed.
		pgtest.Exec(t, store.Pool(), `UPDATE plans SET state = 'processing', version = version + 1, invariants = (
				SELECT array_agg(left(t.text, 60000)) FROM (SELECT string_agg(md5(n::text || m::text), '') AS text FROM generate_series(1, 2000) n, generate_series(1, 150) m GROUP BY m) AS t
			), invariant_sources = array_fill('plan'::text, ARRAY[150]) WHERE namespace = $1`, namespace)
		pgtest.Exec(t, store.Pool(), "UPDATE plans SET state = 'queued', version = version + 1 WHERE namespace = $1", namespace)
	}
	queue("one", 1)
	queue("many", 5)
	ask := repo.Claim{Owner: "worker", Limit: 3}
	// read returns how many blocks of the texts a claim of one plan reads.
	read := func(tx pgx.Tx, namespace string) int64 {
		ask.Namespaces = []string{namespace}
		count := func() int64 {
			return pgtest.Value[int64](t, tx, "SELECT pg_stat_get_xact_blocks_fetched(reltoastrelid) FROM pg_class WHERE oid = 'plans'::regclass")
		}
		before := count()
		if claimed := claim(t, postgres.Bind(tx), ask); len(claimed) != 1 {
			t.Errorf("of %s %d plans were claimed", namespace, len(claimed))
		}
		return count() - before
	}
	tx := beginOn(t, store.Pool())
	one, many := read(tx, "one"), read(tx, "many")
	if one == 0 || many > one+one/4 {
		t.Errorf("a claim reads %d blocks of the texts of one plan, and %d if there are others", one, many)
	}
	// While it is open, the next ones are free.
	for range 4 {
		claimOne(t, store, "many")
	}
}

// A claim of all namespaces whose last look had only what does not fit leaves its turn to that.
func TestClaimAnywhereGoesOnWithWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	pool := store.Pool()
	for n := range 40 {
		queueMany(t, pool, fmt.Sprintf("ns%02d", n), 1)
	}
	// 9 MB, of the first namespace and of the first one of the second look.
	pgtest.Exec(t, pool, `UPDATE plans SET state = 'processing', version = version + 1, invariants = array_fill(repeat('x', 60000), ARRAY[150]),
		invariant_sources = array_fill('plan'::text, ARRAY[150]) WHERE namespace IN ('ns00', 'ns18')`)
	pgtest.Exec(t, pool, "UPDATE plans SET state = 'queued', version = version + 1 WHERE state = 'processing'")
	holder := beginOn(t, pool)
	pgtest.Exec(t, holder, "SELECT FROM plans WHERE namespace BETWEEN 'ns01' AND 'ns17' FOR UPDATE")
	for _, want := range [][]string{{"ns00"}, {"ns18", "ns19"}} {
		var got []string
		for _, c := range claim(t, store, repo.Claim{Owner: "worker", AllNamespaces: true, Limit: 2}) {
			got = append(got, c.Plan.Namespace)
		}
		if !slices.Equal(got, want) {
			t.Errorf("claimed plans of %v, want %v", got, want)
		}
	}
}
