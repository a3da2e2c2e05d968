package repotest

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func closingTests() []test {
	return []test{
		{"Closed", testClosed},
		{"Twice", testClosedTwice},
		{"AtOnce", testClosedAtOnce},
		{"WhileInUse", testClosedWhileInUse},
	}
}

func closeStore(t *testing.T, store repo.Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func testClosed(t *testing.T, store repo.Store) {
	all, before := newRefusable(t, store), repositories(store)
	closeStore(t, store)
	for _, of := range []map[string]reflect.Value{before, repositories(store)} {
		all.wantRefused(t.Context(), of, func(err error) bool { return errors.Is(err, repo.ErrClosed) })
	}
	err := store.InTx(t.Context(), func(context.Context, repo.Repositories) error {
		t.Error("fn runs on a closed store")
		return nil
	})
	if !errors.Is(err, repo.ErrClosed) {
		t.Errorf("InTx after Close gave %v, want ErrClosed", err)
	}
}

func testClosedTwice(t *testing.T, store repo.Store) {
	create(t, store.Sessions())
	closeStore(t, store)
	closeStore(t, store)
}

func testClosedAtOnce(t *testing.T, store repo.Store) {
	together(8, func(int) {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// Operations in progress end as usual; later ones return ErrClosed.
func testClosedWhileInUse(t *testing.T, store repo.Store) {
	const workers = 8
	s := store.Sessions()
	id := create(t, s)
	begun := make(chan struct{}, workers)
	together(workers+1, func(worker int) {
		if worker == workers {
			for range workers {
				<-begun
			}
			if err := store.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			return
		}
		for first := true; ; first = false {
			_, err := s.Append(t.Context(), id, user("x"))
			if first {
				begun <- struct{}{}
			}
			if errors.Is(err, repo.ErrClosed) {
				return
			}
			if err != nil {
				t.Errorf("Append while the store closes gave %v, want ErrClosed", err)
				return
			}
		}
	})
}
