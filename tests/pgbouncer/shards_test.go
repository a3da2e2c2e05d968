package pgbouncer

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/schema"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Shards are refused, and the sessions of PgBouncer stay as they were: others would find the shard's tables, or none.
func TestShardsAreRefused(t *testing.T) {
	t.Parallel()
	direct := pgtest.NewDatabase(t)
	shards := pgtest.OpenStore(t, direct, agentstore.Options{Shards: 2, Migrate: true})
	for _, mode := range []string{"transaction", "session"} {
		bounced := withMode(pgtest.NewBouncer(t, direct, mode, 1), documentedMode)
		_, err := agentstore.Open(t.Context(), bounced, agentstore.Options{Shards: 2})
		if refused, is := errors.AsType[*schema.SettingError](err); !errors.Is(err, repo.ErrSchema) || !is || refused.Name != "search_path" {
			t.Errorf("in mode %s: Open gave %v", mode, err)
		}
		store := pgtest.OpenStore(t, bounced, agentstore.Options{MaxConns: 1})
		id := pgtest.NewSession(t, store)
		for _, shard := range shards.Shards() {
			if _, err := shard.Sessions().Get(t.Context(), id); !errors.Is(err, repo.ErrNotFound) {
				t.Errorf("in mode %s: what a store without shards made is in a shard: %v", mode, err)
			}
		}
	}
}
