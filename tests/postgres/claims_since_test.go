package postgres

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Claims look from where they found something before. A plan that has waited for longer, because
// its transaction was committed late, is found within about a second, although others are queued
// and claimed all the time.
func TestPlanCommittedLateIsClaimed(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	ctx := t.Context()
	name := "act"
	if _, err := store.Actions().Create(ctx, repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
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
	for begin := time.Now(); ; {
		claimed := turn()
		if claimed.Plan.ID == waiting {
			return
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatal("it was not claimed in 20 seconds")
		}
	}
}
