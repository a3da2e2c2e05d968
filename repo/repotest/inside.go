package repotest

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/repo"
)

// The store at once refuses operations with the context of its own transaction,
// which continues and is committed.
// Guarantee: Transactions: Every repository refuses the context of its own `InTx`.
func testTxInside(t *testing.T, store repo.Store) {
	all := newRefusable(t, store)
	before, id := whole(t, store, all.f.session()), create(t, store.Sessions())
	err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Sessions().Append(ctx, id, user("in the transaction")); err != nil {
			return err
		}
		derived, cancel := context.WithCancel(context.WithValue(ctx, contextKey{}, "derived"))
		defer cancel()
		for _, ctx := range []context.Context{ctx, derived} {
			all.wantRefused(ctx, repositories(store), isInside)
			_, holding := repo.HoldLease(ctx, store, newLease())
			_, held := auditLog(store).Holds(ctx)
			_, sealed := auditLog(store).Seal(ctx, 1, func(auditlog.Unsealed, auditlog.HashReader) (auditlog.Seal, error) {
				return auditlog.Seal{}, errors.New("not reached")
			})
			inTx := store.InTx(ctx, func(context.Context, repo.Repositories) error { return errors.New("not reached") })
			for i, err := range []error{holding, held, sealed, inTx} {
				if !isInside(err) {
					t.Errorf("call %d of the store gave %v, want that its context is a transaction's", i, err)
				}
			}
		}
		_, err := tx.Sessions().Append(ctx, id, user("goes on"))
		return err
	})
	if err != nil {
		t.Errorf("InTx: %v", err)
	}
	wantCount(t, store.Sessions(), id, 2)
	wantSame(t, "session of the calls", whole(t, store, all.f.session()), before)
}

// The context of a transaction that has ended, in whatever way, is like any other.
func testTxInsideEnded(t *testing.T, store repo.Store) {
	s := store.Sessions()
	id := create(t, s)
	failure := errors.New("failure")
	var kept []context.Context
	for _, want := range []error{nil, failure} {
		if err := store.InTx(t.Context(), func(ctx context.Context, _ repo.Repositories) error {
			kept = append(kept, ctx)
			return want
		}); !errors.Is(err, want) {
			t.Errorf("InTx gave %v, want %v", err, want)
		}
	}
	for _, ctx := range kept {
		if _, err := s.Append(ctx, id, user("afterwards")); err != nil {
			t.Errorf("with the context of a transaction that has ended: %v", err)
		}
		if err := store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
			_, err := tx.Sessions().Append(ctx, id, user("in the next one"))
			return err
		}); err != nil {
			t.Errorf("InTx with the context of a transaction that has ended: %v", err)
		}
	}
	wantCount(t, s, id, 4)
}

// A goroutine that fn started can use its context after InTx has returned.
func testTxInsideOutlived(t *testing.T, store repo.Store) {
	s := store.Sessions()
	id := create(t, s)
	ended, result := make(chan struct{}), make(chan error, 1)
	if err := store.InTx(t.Context(), func(ctx context.Context, _ repo.Repositories) error {
		go func() {
			<-ended
			_, err := s.Append(ctx, id, user("from a goroutine"))
			result <- err
		}()
		return nil
	}); err != nil {
		t.Error(err)
	}
	close(ended)
	if err := <-result; err != nil {
		t.Errorf("a goroutine that outlived its transaction: %v", err)
	}
}
