package memory

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// A plan has at most limits.MaxChildPlans children.
func TestChildLimit(t *testing.T) {
	t.Parallel()
	store, ctx := New(), t.Context()
	if _, err := store.Actions().Create(ctx, repo.NewAction{Name: "a", ActionDefinition: repo.ActionDefinition{Reusable: true}}); err != nil {
		t.Fatal(err)
	}
	root, err := store.Plans().Use(ctx, "a", repo.UseAction{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range limits.MaxChildPlans {
		if _, err := store.Plans().Use(ctx, "a", repo.UseAction{ParentID: root.ID}); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err := store.Plans().Use(ctx, "a", repo.UseAction{ParentID: root.ID}); !errors.Is(err, repo.ErrLimit) {
		t.Errorf("one child too many: %v", err)
	}
}
