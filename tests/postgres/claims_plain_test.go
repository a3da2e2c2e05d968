package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// plainStore returns a store that sends one server what it would send a distributed engine.
func plainStore(t *testing.T, pool *pgxpool.Pool) *postgres.Store {
	t.Helper()
	store := postgres.New(pgsettings.Checked{Pool: pool}, postgres.Options{})
	store.Distribute()
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// A claim by plain statements whose look is canceled is tried again, and at last says that the database is unavailable: nothing can be
// written then.
func TestPlainClaimThatIsCanceled(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	pool := pgtest.NewPool(t, databaseURL)
	queueMany(t, pool, "queue", 1)
	// short: the look finds the table locked, so it is canceled however late.
	canceled := plainStore(t, pgtest.NewPool(t, pgtest.WithParameter(databaseURL, "statement_timeout", "100")))
	ask := repo.Claim{Owner: "worker", Namespaces: []string{"queue"}}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		pgtest.Exec(t, tx, "LOCK TABLE plan_limits")
		if _, err := canceled.Plans().Claim(t.Context(), ask); !errors.Is(err, repo.ErrUnavailable) || errors.Is(err, repo.ErrUnknownOutcome) {
			t.Errorf("a claim whose look is canceled: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if claimed := claim(t, plainStore(t, pool), ask); len(claimed) != 1 {
		t.Errorf("claimed %d", len(claimed))
	}
}
