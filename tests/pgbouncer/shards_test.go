package pgbouncer

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Shards are two schemas of one database, behind PgBouncer: each has a role whose search_path it is.
func TestShards(t *testing.T) {
	t.Parallel()
	direct := pgtest.NewEmptyDatabase(t)
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal("the URL does not parse")
	}
	database := strings.TrimPrefix(u.Path, "/")
	admin := pgtest.Connect(t, direct)
	var stores, bounced []*agentstore.Store
	for i := range 2 {
		options := agentstore.Options{Schema: fmt.Sprint("shard_", i), Migrate: true}
		stores = append(stores, pgtest.OpenStore(t, direct, options))
		role := fmt.Sprintf("%s_%d", database, i)
		pgtest.Exec(t, admin, fmt.Sprintf("CREATE ROLE %q SUPERUSER LOGIN PASSWORD 'shard'", role))
		t.Cleanup(func() { _, _ = admin.Exec(context.WithoutCancel(t.Context()), fmt.Sprintf("DROP ROLE %q", role)) })
		pgtest.Exec(t, admin, fmt.Sprintf("ALTER ROLE %q IN DATABASE %q SET search_path = %q", role, database, options.Schema))
		behind := pgtest.NewBouncer(t, pgtest.WithUser(direct, role, "shard"), "transaction", 2, "ignore_startup_parameters = search_path")
		bounced = append(bounced, pgtest.OpenStore(t, withMode(behind, documentedMode), agentstore.Options{Schema: options.Schema, MaxConns: 2}))
	}
	spread, err := agentstore.NewSpread(t.Context(), bounced...)
	if err != nil {
		t.Fatal(err)
	}
	for i, store := range stores {
		namespace := fmt.Sprint("tenant ", i)
		if err := spread.Place(t.Context(), namespace, i); err != nil {
			t.Fatal(err)
		}
		view, err := spread.In(t.Context(), namespace)
		if err != nil {
			t.Fatal(err)
		}
		id := pgtest.NewSession(t, view)
		appendFromMany(t, bounced[i], id)
		if session, err := store.Sessions().Get(t.Context(), id); err != nil || session.Namespace != namespace {
			t.Errorf("shard %d has %+v: %v", i, session, err)
		}
	}
}
