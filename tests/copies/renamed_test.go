package copies

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/tests/tables"
)

// A schema is dumped and renamed, and the dump is restored under its old name. Both work, and
// nothing that is done in one reaches the other.
func (s server) testRenamed(t *testing.T) {
	database := s.newDatabase(t, "renamed")
	tables.Fill(t, pgtest.OpenStore(t, database, agentstore.Options{Schema: "tenant", Migrate: true}))
	// Nothing has the schema's name as text.
	const named = `SELECT array_agg(proname::text) FROM pg_proc WHERE pronamespace = 'tenant'::regnamespace AND (prosrc || coalesce(proconfig::text, '')) LIKE '%tenant%'`
	if functions := pgtest.Value[[]string](t, pgtest.Connect(t, database), named); len(functions) != 0 {
		t.Errorf("the functions %v name their schema", functions)
	}
	dump := s.dump(t, database, "--schema=tenant", "--no-owner")
	pgtest.Exec(t, pgtest.Connect(t, database), "ALTER SCHEMA tenant RENAME TO tenant_old")
	s.restore(t, database, dump)

	stores, seen := map[string]*agentstore.Store{}, map[string]map[string]string{}
	for _, name := range []string{"tenant", "tenant_old"} {
		stores[name] = pgtest.OpenStore(t, database, agentstore.Options{Schema: name})
		_, err := stores[name].Plans().Use(t.Context(), tables.Action, repo.UseAction{})
		check(t, err)
	}
	for name, other := range map[string]string{"tenant": "tenant_old", "tenant_old": "tenant"} {
		seen[other] = contents(t, database, other)
		use(t, stores[name])
		if different := tables.Different(seen[other], contents(t, database, other)); len(different) != 0 {
			t.Errorf("what was done in %s has changed %v of %s", name, different, other)
		}
		intact(t, stores[other])
	}
	// Plans that are cancelled in one copy are cancelled there.
	for _, name := range []string{"tenant", "tenant_old"} {
		_, err := stores[name].Plans().Use(t.Context(), tables.Action, repo.UseAction{})
		check(t, err)
	}
	cancelWaiting(t, stores["tenant_old"])
	if claimed, err := stores["tenant"].Plans().Claim(t.Context(), repo.Claim{Owner: "user"}); err != nil || len(claimed) != 1 {
		t.Errorf("after plans were cancelled in the old copy, %d are claimed in the new one: %v", len(claimed), err)
	}
}
