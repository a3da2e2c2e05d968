package postgres

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A claim does not wait for an expired lease that a transaction under way releases. Nor for one that is renewed meanwhile, and that plan is not errored either,
// although it had its last attempt.
func TestClaimSkipsALeaseThatIsLocked(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	ids := queuePlans(t, store, "queue", 3)
	byHand := acquireFor(t, store, repo.PlanLease(ids[0]))
	pgtest.Exec(t, store.Pool(), "UPDATE plans SET max_attempts = 1")
	last := claim(t, store, repo.Claim{Owner: "slow", Namespaces: []string{"queue"}})
	expire(t, store)
	pgtest.Exec(t, store.Pool(), "UPDATE plan_claims SET check_at = now()")
	tx := beginTx(t, store)
	if _, err := postgres.Bind(tx).Leases().ReleaseAll(t.Context(), byHand.Owner); err != nil {
		t.Fatal(err)
	}
	// As a renewal in time, which the claim's snapshot does not show.
	pgtest.Exec(t, tx, "UPDATE leases SET expires_at = now() + interval '1 hour' WHERE owner = 'slow'")
	got, err := store.Plans().Claim(await.Context(t), repo.Claim{Owner: "worker", Namespaces: []string{"queue"}, Limit: 9})
	if err != nil || len(got) != 1 || got[0].Plan.ID != ids[2] {
		t.Errorf("claimed %+v, want the third; %v", got, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := claimOne(t, store, "queue"); got.Plan.ID != ids[0] {
		t.Errorf("claimed %v, want the first", got.Plan.ID)
	}
	if plan, err := store.Plans().Get(t.Context(), last[0].Plan.ID); err != nil || plan.State != repo.PlanProcessing {
		t.Errorf("the plan whose lease was renewed is at %v, %v", plan.Stage, err)
	}
}
