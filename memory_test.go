package agentstore

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// All who open one name at once share one store; each closes its own; after the
// last close the next one starts empty.
func TestMemorySharedByName(t *testing.T) {
	first, err := Open(t.Context(), "memory://shared")
	if err != nil {
		t.Fatal(err)
	}
	session, err := first.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			store, err := Open(context.Background(), "memory://shared")
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := store.Sessions().Append(t.Context(), session.ID, repo.NewMessage{Role: repo.RoleUser, Content: "x"}); err != nil {
				t.Error(err)
			}
			for range 2 {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			}
			if _, err := store.Sessions().Get(t.Context(), session.ID); !errors.Is(err, repo.ErrClosed) {
				t.Errorf("a closed store gave %v", err)
			}
		})
	}
	all.Wait()
	got, err := first.Sessions().Get(t.Context(), session.ID)
	if err != nil || got.MessageCount != 200 {
		t.Errorf("%d messages, %v", got.MessageCount, err)
	}
	other, err := Open(t.Context(), "memory://other")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := other.Sessions().Get(t.Context(), session.ID); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("another name gave %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if len(memories.entries) != 1 {
		t.Errorf("%d stores are open", len(memories.entries))
	}
	again, err := Open(t.Context(), "memory://shared")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = again.Close() }()
	if _, err := again.Sessions().Get(t.Context(), session.ID); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("after the last close: %v", err)
	}
}

func TestMemoryRefuses(t *testing.T) {
	for _, url := range []string{"memory://", "memory:///x", "memory://a b", "memory://a?b=c"} {
		if _, err := Open(t.Context(), url); !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%s gave %v", url, err)
		}
	}
	if _, err := Open(t.Context(), "memory://x", Options{MaxConns: 1}); !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("an option of the pool gave %v", err)
	}
}
