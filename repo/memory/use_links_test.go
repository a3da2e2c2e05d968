package memory_test

import (
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// A use with ExistingAny that returns the plan of another use links it to the session.
func TestExistingAnyLinks(t *testing.T) {
	store := memory.New()
	defer store.Close()
	for _, name := range []string{"n/one", "n/two"} {
		if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: name, ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
			t.Fatal(err)
		}
	}
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := store.Plans().Use(t.Context(), "n/one", repo.UseAction{})
	if err != nil {
		t.Fatal(err)
	}
	use := repo.UseAction{ID: plan.ID, Existing: repo.ExistingAny, SessionID: session.ID}
	if _, err := store.Plans().Use(t.Context(), "n/two", use); err != nil {
		t.Fatal(err)
	}
	if found, err := store.Sessions().Get(t.Context(), session.ID); err != nil || len(found.Plans) != 1 {
		t.Errorf("the other use's plan is not linked to the session: %v, %v", found.Plans, err)
	}
}
