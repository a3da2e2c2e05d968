package repotest

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
)

// everything returns valid operations of every repository of a store.
func everything(ctx context.Context, o *operations, store repo.Store) map[string]func() error {
	all := o.all(ctx, store.Sessions())
	entry := repo.AuditEntry{Type: events.ToolInvoked}
	maps.Copy(all, map[string]func() error{
		"Actions.Create": func() error {
			_, err := store.Actions().Create(ctx, repo.NewAction{Name: actionName(store), ActionDefinition: fullDefinition()})
			return err
		},
		"Actions.Get":    func() error { _, err := store.Actions().Get(ctx, "x"); return err },
		"Plans.Use":      func() error { _, err := store.Plans().Use(ctx, "x", repo.UseAction{}); return err },
		"Plans.Get":      func() error { _, err := store.Plans().Get(ctx, repo.NewID()); return err },
		"Leases.Acquire": func() error { _, err := store.Leases().Acquire(ctx, newLease()); return err },
		"Leases.List":    func() error { _, err := store.Leases().List(ctx, repo.LeaseFilter{}, repo.Page{}); return err },
		"Hold":           func() error { _, err := repo.Hold(ctx, store, newLease()); return err },
		"Audit.Record":   func() error { return store.Audit().Record(ctx, entry) },
		"Audit.Count":    func() error { _, _, err := store.Audit().Count(ctx, repo.AuditFilter{}, 0); return err },
		"AuditLog.Holds": func() error { _, err := auditLog(store).Holds(ctx); return err },
		"AuditLog.Seal": func() error {
			_, err := auditLog(store).Seal(ctx, 1, func(auditlog.Unsealed, auditlog.HashReader) (auditlog.Seal, error) {
				return auditlog.Seal{}, errors.New("not reached")
			})
			return err
		},
		"InTx": func() error {
			return store.InTx(ctx, func(context.Context, repo.Repositories) error { return errors.New("not reached") })
		},
	})
	maps.Copy(all, streamOperations(ctx, store, repo.Stream{Key: randomName(), ID: repo.NewID(), Fence: 1}))
	return all
}

// The store at once refuses operations with the context of its own transaction,
// which continues and is committed.
// Guarantee: Transactions: Every repository refuses the context of its own `InTx`.
func testTxInside(t *testing.T, store repo.Store) {
	o := newOperations(t, store.Sessions())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		if _, err := tx.Sessions().Append(ctx, o.id, user("in the transaction")); err != nil {
			return err
		}
		derived, cancel := context.WithCancel(context.WithValue(ctx, contextKey{}, "derived"))
		defer cancel()
		for _, ctx := range []context.Context{ctx, derived} {
			for name, run := range everything(ctx, o, store) {
				begin := time.Now()
				err := run()
				if !isInside(err) {
					t.Errorf("%s inside of InTx gave %v, want that its context is a transaction's", name, err)
				}
				if took := time.Since(begin); took > 5*time.Second {
					t.Errorf("%s inside of InTx was refused after %v", name, took)
				}
			}
		}
		_, err := tx.Sessions().Append(ctx, o.id, user("goes on"))
		return err
	})
	if err != nil {
		t.Errorf("InTx: %v", err)
	}
	wantCount(t, store.Sessions(), o.id, 3)
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
