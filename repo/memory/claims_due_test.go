package memory

import (
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// What becomes due after a claim has looked, and before it has found out for how long to wait, is due at once.
func TestDueMeanwhile(t *testing.T) {
	clock := NewClock(time.Now())
	store, ctx := NewWith(Options{Clock: clock}), t.Context()
	if _, err := store.Actions().Create(ctx, repo.NewAction{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Plans().Use(ctx, "a", repo.UseAction{NotBefore: clock.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	claim, err := rules.NormalizeClaim("", repo.Claim{Owner: "o", AllNamespaces: true})
	if err != nil {
		t.Fatal(err)
	}
	if found := store.tables.claimPlans(claim); len(found) > 0 {
		t.Fatalf("found %v", found)
	}
	clock.Advance(time.Hour)
	if due := store.tables.nextDue(claim); due.After(clock.Now()) {
		t.Errorf("it waits until %v, at %v", due, clock.Now())
	}
}

// A claim that waits tries again when a sweep would end what keeps plans from it, and not at once and again: that is what is past
// its deadline, and a claim that it does not ask for, whose worker has died.
func TestDueWithTheNextSweep(t *testing.T) {
	clock := NewClock(time.Now())
	store, ctx := NewWith(Options{Clock: clock}), t.Context()
	for name, age := range map[string]time.Duration{"a": time.Minute, "b": 0} {
		if _, err := store.Actions().Create(ctx, repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Reusable: true, MaxAge: age}}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Plans().Use(ctx, name, repo.UseAction{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Plans().SetLimit(ctx, repo.PlanLimit{AtOnce: 1}); err != nil {
		t.Fatal(err)
	}
	claim := repo.Claim{Owner: "dead", Actions: []string{"b"}, TTL: time.Minute}
	if claimed, err := store.Plans().Claim(ctx, claim); err != nil || len(claimed) != 1 {
		t.Fatalf("claimed %v, %v", claimed, err)
	}
	begun := clock.Now()
	claim, err := rules.NormalizeClaim("", repo.Claim{Owner: "o", Actions: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	if due := store.tables.nextDue(claim).Sub(begun).Round(time.Millisecond); due != time.Minute {
		t.Errorf("it waits for %v", due)
	}
	if clock.Advance(time.Minute); len(store.tables.claimPlans(claim)) > 0 {
		t.Error("it found a plan that is too old, beside a limit")
	}
	store.tables.sweptPlans = clock.Now()
	if due := store.tables.nextDue(claim).Sub(clock.Now()); due != limits.ExpiredGrace {
		t.Errorf("it waits for %v after a sweep", due)
	}
}
