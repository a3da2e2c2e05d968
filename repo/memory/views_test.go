package memory_test

import (
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/repotest"
)

func TestConformanceOfViews(t *testing.T) {
	repotest.RunViews(t, func(t *testing.T) *memory.Store {
		store := memory.New()
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		return store
	}, func(store *memory.Store, namespace string) repo.Store { return store.In(namespace) }, repotest.Bubbles())
}

func TestViewsApart(t *testing.T) {
	repotest.RunApart(t, func(*testing.T) (one, other repo.Store, namespace string) {
		store := memory.New()
		return store.In("one"), store.In("other"), "other"
	})
}

func TestStreamsOfViews(t *testing.T) {
	store := memory.New()
	repotest.StreamsOfViews(t, store, store.In("one"), store.In("other"))
}

func TestViewsApartFromWhole(t *testing.T) {
	store := memory.New()
	repotest.ApartFromWhole(t, store, store.In("one"))
}
