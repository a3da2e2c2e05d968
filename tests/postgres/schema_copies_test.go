package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// newStoreInASchema opens a store in a schema of its own, beside foreign tables with the
// same names. What it does is compared by TestStoresAnswerAlike; the matrix runs the
// conformance suite in a schema.
func newStoreInASchema(t *testing.T) *agentstore.Store {
	t.Helper()
	const name = `Agent's "Store", $1 \`
	databaseURL := pgtest.NewEmptyDatabase(t)
	pgtest.Exec(t, pgtest.NewPool(t, databaseURL), "CREATE TABLE public.sessions (theirs int); CREATE TABLE public.messages (theirs int)")
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{Schema: name, Migrate: true, MaxConns: 8})
	findings, err := store.AuditLog().Doctor(t.Context())
	if err != nil || len(findings) > 0 {
		t.Errorf("the doctor: %v, %v", findings, err)
	}
	return store
}

// Guarantee: Servers and roles: Two schemas share no pool and no data.
func TestStoresInSchemasAreApart(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	open := func(databaseURL, name string) *agentstore.Store {
		return pgtest.OpenStore(t, databaseURL, agentstore.Options{Schema: name, Migrate: true})
	}
	first, second := open(databaseURL, "first"), open(databaseURL, "Second")
	if first.Pool() == second.Pool() {
		t.Error("two schemas share one pool")
	}
	id := pgtest.NewSession(t, first)
	if _, err := second.Sessions().Get(t.Context(), id); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("the other schema's session: %v", err)
	}

	// One schema has one pool, whichever way it is requested.
	for _, path := range []string{"first", `"first"`, " FIRST "} {
		in := pgtest.WithParameter(databaseURL, "search_path", path)
		if open(in, "").Pool() != first.Pool() || open(in, "first").Pool() != first.Pool() {
			t.Errorf("another pool for the search_path %s", path)
		}
	}
	in := pgtest.WithParameter(databaseURL, "options", "-c search_path=first")
	if _, err := open(in, "Second").Sessions().Get(t.Context(), id); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("the schema of the URL's options: %v", err)
	}
	_, err := agentstore.Open(t.Context(), pgtest.WithParameter(databaseURL, "search_path", "first"), agentstore.Options{Schema: "Second"})
	var invalid *repo.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "options.Schema" {
		t.Errorf("two different schemas requested: %v", err)
	}

	// A caller's pool must use the requested schema.
	pool := pgtest.NewPool(t, pgtest.WithParameter(databaseURL, "search_path", "first"))
	pgtest.OpenPool(t, pool, agentstore.Options{Schema: "first", Migrate: true})
	_, err = agentstore.OpenPool(t.Context(), pool, agentstore.Options{Schema: "Second"})
	var refused *schema.SettingError
	if !errors.Is(err, repo.ErrSchema) || !errors.As(err, &refused) || refused.Name != "search_path" || refused.Value != "first" {
		t.Errorf("a schema that differs from the pool's: %v", err)
	}
	// This also holds if its search_path continues with the schema of foreign tables.
	pgtest.Exec(t, first.Pool(), "CREATE SCHEMA third")
	leads := pgtest.NewPool(t, pgtest.WithParameter(databaseURL, "search_path", "third, first"))
	if _, err = agentstore.OpenPool(t.Context(), leads, agentstore.Options{Schema: "third"}); !errors.As(err, &refused) {
		t.Errorf("a search_path that leads on: %v", err)
	}
}

func TestOpenRefusesSchemas(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	for _, name := range []string{"pg_agents", strings.Repeat("x", 64), "a\x00b", "a\xffb", "$user"} {
		_, err := agentstore.Open(t.Context(), databaseURL, agentstore.Options{Schema: name})
		var invalid *repo.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "options.Schema" {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"missing", strings.Repeat("é", 31)} {
		var refused *schema.SettingError
		if _, err := agentstore.Open(t.Context(), databaseURL, agentstore.Options{Schema: name}); !errors.Is(err, repo.ErrSchema) || !errors.As(err, &refused) || refused.Name != "search_path" {
			t.Errorf("%q, which does not exist: %v", name, err)
		}
	}
	// Nothing is created in a schema that the pool would not search.
	pool := pgtest.NewPool(t, databaseURL)
	var refused *schema.SettingError
	if _, err := agentstore.OpenPool(t.Context(), pool, agentstore.Options{Schema: "agents", Migrate: true}); !errors.As(err, &refused) || refused.Name != "search_path" {
		t.Errorf("on a pool without it: %v", err)
	}
	if pgtest.Value[bool](t, pool, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'agents')") {
		t.Error("the schema was created")
	}
}
