package command

import (
	"context"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Each command that takes a database works in the schema of --schema or of the
// environment, even if a foreign table has the same name in another one.
func TestSchema(t *testing.T) {
	t.Parallel()
	const name = `My "agents"`
	d := database{T: t, url: pgtest.NewEmptyDatabase(t)}
	pgtest.Exec(t, pgtest.NewPool(t, d.url), "CREATE TABLE public.sessions (theirs int)")
	if code, _, stderr := Run(t.Context(), t, d.url, "migrate", "up"); code != 1 || !strings.Contains(stderr, `the name "sessions" is taken`) {
		t.Errorf("in public: code %d, %s", code, stderr)
	}
	d.refuses(2, "begins with pg_", "migrate", "up", "--schema", "pg_agents")
	d.refuses(2, "begins with pg_", "session", "list", "--schema", "pg_agents")

	if code, stdout, stderr := Run(t.Context(), t, d.url, "migrate", "up", "--schema", name); code != 0 || !strings.Contains(stdout, "the database is at version") {
		t.Fatalf("code %d, %s%s", code, stdout, stderr)
	}
	d.store = pgtest.OpenStore(t, d.url, agentstore.Options{Schema: name})
	id := pgtest.NewSession(t, d.store).String()
	for _, verb := range []string{"status", "validate", "version"} {
		d.run("migrate", verb, "--schema", name)
	}
	d.wants(id, "id", "session", "list", "--schema", name)
	d.wants(id, "id", "session", "show", id, "--schema", name)
	for _, args := range [][]string{{"plan", "list"}, {"action", "list"}, {"audit", "list"}, {"audit", "doctor"}} {
		d.run(append(args, "--schema", name)...)
	}
	if grants := d.run("migrate", "grants", "--schema", name); !strings.Contains(grants, `SET LOCAL search_path TO "My ""agents""";`) {
		t.Errorf("grants:\n%s", grants)
	}
	d.refuses(3, "database is behind", "session", "list")
	command := New(context.WithoutCancel(t.Context()), t, d.url, "session", "list", "--json")
	command.Env = append(command.Env, "AGENTSTORE_SCHEMA="+name)
	if output, err := command.Output(); err != nil || !strings.Contains(string(output), id) {
		t.Errorf("by the environment: %v: %s", err, output)
	}
	d.run("session", "delete", id, "--yes", "--schema", name)
}
