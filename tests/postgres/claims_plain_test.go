package postgres

import (
	"errors"
	"maps"
	"regexp"
	"slices"
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

// PlanClaimPick looks and locks as PlanClaim does: its text is that of PlanClaim without the parts that change rows.
func TestPicksAlike(t *testing.T) {
	t.Parallel()
	all := statements(t)
	text := func(name string) string {
		return all[slices.IndexFunc(all, func(s statement) bool { return s.name == name })].sql
	}
	part := regexp.MustCompile(`(?m)^(WITH|\),) (\w+) AS( MATERIALIZED)? \(\n`) // of a statement
	parts := func(sql string) map[string]string {
		found := map[string]string{}
		at := part.FindAllStringSubmatchIndex(sql, -1)
		for i, one := range at {
			end := len(sql)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			found[sql[one[4]:one[5]]] = sql[one[1]:end]
		}
		return found
	}
	claim, pick := parts(text("PlanClaim")), parts(text("PlanClaimPick"))
	delete(pick, "term") // and the answer
	for name, want := range claim {
		if changes := regexp.MustCompile(`(?m)^    (INSERT INTO|UPDATE|DELETE FROM) `).MatchString(want); changes {
			delete(claim, name)
		}
	}
	delete(claim, "steps") // what was changed
	if len(claim) < 12 || !maps.Equal(claim, pick) {
		for name := range claim {
			if claim[name] != pick[name] {
				t.Errorf("%s:\n%s\n%s", name, claim[name], pick[name])
			}
		}
		t.Errorf("the parts of PlanClaim are %v, those of PlanClaimPick %v", slices.Sorted(maps.Keys(claim)), slices.Sorted(maps.Keys(pick)))
	}
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
