package postgres

import (
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Claims look from where they found something before. A plan that has waited for longer, because
// its transaction was committed late, is found all the same, although others are queued and
// claimed all the time.
func TestPlanCommittedLateIsClaimed(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	ctx := t.Context()
	name := "act"
	if _, err := store.Actions().Create(ctx, repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Reusable: true, MaxAttempts: 5}}); err != nil {
		t.Fatal(err)
	}
	late, err := store.Plans().Use(ctx, name, repo.UseAction{})
	if err != nil {
		t.Fatal(err)
	}
	turn := func() repo.ClaimedPlan {
		if _, err := store.Plans().Use(ctx, name, repo.UseAction{}); err != nil {
			t.Fatal(err)
		}
		claimed, err := store.Plans().Claim(ctx, repo.Claim{Owner: "worker"})
		if err != nil || len(claimed) != 1 {
			t.Fatalf("claimed %d, %v", len(claimed), err)
		}
		return claimed[0]
	}
	if claimed := turn(); claimed.Plan.ID != late.ID {
		t.Fatal("the plan that has waited longest was not claimed first")
	}
	// As if what is queued now had been committed an hour after it was queued.
	waiting := repo.ID(pgtest.Value[[16]byte](t, store.Pool(), "SELECT plan_id FROM plan_queue"))
	pgtest.Exec(t, store.Pool(), "UPDATE plan_queue SET since = since - interval '1 hour'")
	await.For(t, "it is claimed", func() bool { return turn().Plan.ID == waiting })
}

// A claim of what is at its limit, which finds only a claim that has expired, does not take the next ones past what waits there.
func TestClaimAtALimitKeepsItsPlace(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	queueMany(t, store.Pool(), "queue", 4)
	pgtest.Exec(t, store.Pool(), "UPDATE plan_queue SET since = since - interval '1 minute'")
	limit := func(atOnce int) {
		if err := store.Plans().SetLimit(t.Context(), repo.PlanLimit{Namespace: "queue", AtOnce: atOnce}); err != nil {
			t.Fatal(err)
		}
	}
	take := func(want int) []repo.ClaimedPlan {
		claimed, err := store.Plans().Claim(t.Context(), repo.Claim{Owner: "worker", Namespaces: []string{"queue"}, Limit: 9})
		if err != nil || len(claimed) != want {
			t.Fatalf("claimed %d, want %d, %v", len(claimed), want, err)
		}
		return claimed
	}
	limit(1)
	if err := store.Leases().Release(t.Context(), take(1)[0].Lease); err != nil {
		t.Fatal(err)
	}
	take(1) // the same
	limit(-1)
	take(3)
}
