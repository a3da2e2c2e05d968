package memory_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// Err is the cause of the end of the context that Hold was given.
func TestHeldLeaseHasCauseOfContext(t *testing.T) {
	store := memory.New()
	defer store.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	held, err := repo.Hold(ctx, store, repo.NewLease{Key: repo.LeaseKey{Kind: "k", Name: "n"}, Owner: "o"})
	if err != nil {
		t.Fatal(err)
	}
	cancel(errors.New("why"))
	if err := held.Err(); !errors.Is(err, context.Cause(ctx)) {
		t.Errorf("got %v, want %v", err, context.Cause(ctx))
	}
}

// Erase refuses a scope that all other methods refuse.
func TestValuesOfInvalidScopeEraseNothing(t *testing.T) {
	store := memory.New()
	defer store.Close()
	shared := repo.ValuesIn[int](store.State(), repo.Scope{Name: "n"})
	if err := shared.Set(t.Context(), "k", 1); err != nil {
		t.Fatal(err)
	}
	both := repo.ValuesIn[int](store.State(), repo.Scope{Name: "n", SessionID: repo.NewID()})
	if err := both.Set(t.Context(), "k", 2); !errors.Is(err, repo.ErrInvalid) {
		t.Error(err)
	}
	if err := both.Erase(t.Context()); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("Erase of a scope that is invalid: %v", err)
	}
	if _, err := shared.Get(t.Context(), "k"); err != nil {
		t.Errorf("the shared state is lost: %v", err)
	}
}
