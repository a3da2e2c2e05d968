package effect

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/effect"
	"github.com/seed-df90f812/agentstore/effect/effecttest"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The server's default isolation changes nothing.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"serializable", "repeatable read"}[:pgtest.Choose(2, 1)] {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			effecttest.Run(t, func(t *testing.T) (repo.Store, func(*testing.T, time.Duration)) {
				url := pgtest.NewDatabase(t)
				pool := pgtest.NewPool(t, url)
				store := pgtest.OpenStore(t, pgtest.WithParameter(url, "default_transaction_isolation", level), agentstore.Options{})
				return store, func(t *testing.T, d time.Duration) { t.Helper(); age(t, pool, d) }
			})
		})
	}
}

// A person's answer in a transaction of the caller's, whose snapshot is older than what it is about, is refused, at any isolation.
func TestResolveInOldSnapshot(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			url := pgtest.NewDatabase(t)
			pool, store := pgtest.NewPool(t, url), pgtest.OpenStore(t, url, agentstore.Options{})
			key := effect.Key{Session: pgtest.NewSession(t, store), Call: "a"}
			fails := func() {
				_, err := effect.Once(ctx, store, key, nil, effect.Policy{HonoursKey: time.Hour}, func(context.Context, effect.Effect) (json.RawMessage, error) {
					return nil, context.DeadlineExceeded
				})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}
			fails()
			tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: level})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(ctx) }()
			bound := postgres.Bind(tx)
			if _, err := bound.State().Get(ctx, repo.Scope{SessionID: key.Session}, "effect/a"); err != nil {
				t.Fatal(err)
			}
			fails()
			_, err = effect.Resolve(ctx, bound, key, effect.DidNotHappen().OfAttempt(1))
			t.Log(err)
			if !errors.Is(err, repo.ErrConflict) && !errors.Is(err, repo.ErrContention) {
				t.Error(err)
			}
		})
	}
}
