package copies

import (
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
	"github.com/seed-df90f812/agentstore/tests/tables"
)

// A dump is restored in a database whose search_path leads to other tables of the same names,
// and, as text in which the schema's name was replaced, under another name. Each copy is equal,
// has every rule, and works.
func (s server) testDumped(t *testing.T) {
	source := s.newDatabase(t, "dumped")
	tables.Fill(t, pgtest.OpenStore(t, source, agentstore.Options{Schema: "agents", Migrate: true}))
	want := contents(t, source, "agents")
	dump := s.dump(t, source, "--schema=agents", "--no-owner")

	target := s.newDatabase(t, "restored")
	tables.Fill(t, pgtest.OpenStore(t, target, agentstore.Options{Schema: "elsewhere", Migrate: true}))
	elsewhere := contents(t, target, "elsewhere")
	pgtest.Exec(t, pgtest.Connect(t, target), "ALTER DATABASE restored SET search_path = elsewhere")
	for name, sql := range map[string]string{
		"agents":  dump,
		"tenants": strings.NewReplacer("agents.", "tenants.", "SCHEMA agents", "SCHEMA tenants").Replace(dump),
	} {
		s.restore(t, target, sql)
		if different := tables.Different(want, contents(t, target, name)); len(different) != 0 {
			t.Errorf("%s: %v differ", name, different)
		}
		tables.CheckRules(t, pgtest.Connect(t, in(target, name)), "")
		store := pgtest.OpenStore(t, target, agentstore.Options{Schema: name})
		intact(t, store)
		use(t, store)
	}
	if different := tables.Different(elsewhere, contents(t, target, "elsewhere")); len(different) != 0 {
		t.Errorf("%v of another schema have changed", different)
	}
}
