package postgres

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A store is closed during all kinds of operations. Close waits for them; each call
// succeeds or gets ErrClosed; what was acknowledged is stored, and what was refused
// is not.
// Guarantee: Faults: `Close` waits for operations under way; later ones write nothing.
func TestCloseUnderLoad(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	other := pgtest.OpenPool(t, pgtest.NewPool(t, databaseURL), agentstore.Options{})
	for name, open := range map[string]func() *agentstore.Store{
		"a pool of its own": func() *agentstore.Store {
			store, err := agentstore.Open(t.Context(), databaseURL, agentstore.Options{MaxConns: 3})
			if err != nil {
				t.Fatal(err)
			}
			return store
		},
		"the caller's pool": func() *agentstore.Store {
			pool := pgtest.NewPool(t, databaseURL, func(c *pgxpool.Config) { c.MaxConns = 3 })
			return pgtest.OpenPool(t, pool, agentstore.Options{})
		},
	} {
		for range 3 {
			closeUnderLoad(t, name, open(), other)
		}
	}
}

// A transaction is under way when Close is called, on a pool that stays open: Close returns when the transaction has ended.
func TestCloseWaitsForATransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.NewPool(t, pgtest.NewDatabase(t))
	store, err := agentstore.OpenPool(t.Context(), pool, agentstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ended atomic.Bool
	within, closed := make(chan struct{}), make(chan error, 1)
	go func() {
		<-within
		err := store.Close()
		if !ended.Load() {
			t.Error("Close has returned before the transaction has ended")
		}
		closed <- err
	}()
	if err := store.InTx(t.Context(), func(context.Context, repo.Repositories) error {
		close(within)
		await.For(t, "Close has begun", func() bool {
			_, err := store.Sessions().Get(t.Context(), repo.NewID()) // not of the transaction, which goes on
			return errors.Is(err, repo.ErrClosed)
		})
		time.Sleep(200 * time.Millisecond) // pace: on a slow machine Close has not returned too early yet
		ended.Store(true)
		return nil
	}); err != nil && !errors.Is(err, repo.ErrClosed) {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

func closeUnderLoad(t *testing.T, name string, store, other *agentstore.Store) {
	t.Helper()
	id := pgtest.NewSession(t, store)
	var closed atomic.Bool
	within := func(what string) {
		if closed.Load() {
			t.Errorf("%s: %s after Close", name, what)
		}
	}
	var mu sync.Mutex
	acknowledged := map[repo.ID]bool{} // or refused
	note := func(message repo.ID, err error) {
		mu.Lock()
		defer mu.Unlock()
		acknowledged[message] = err == nil
	}
	var all sync.WaitGroup
	for _, call := range []func(ctx context.Context) error{
		func(ctx context.Context) error {
			message := repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "x"}
			_, err := store.Sessions().Append(ctx, id, message)
			note(message.ID, err)
			return err
		},
		func(ctx context.Context) error {
			message := repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "x"}
			err := store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
				_, err := tx.Sessions().Append(ctx, id, message)
				within("a transaction")
				return err
			})
			note(message.ID, err)
			return err
		},
		func(ctx context.Context) error {
			for _, err := range store.Sessions().Messages(ctx, id, 0) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		func(ctx context.Context) error {
			return store.Sessions().Export(ctx, id, pgtest.WriterFunc(func(p []byte) (int, error) {
				within("an export")
				return len(p), nil
			}))
		},
		func(ctx context.Context) error {
			session, err := store.Sessions().Create(ctx, repo.NewSession{})
			if err != nil {
				return err
			}
			var document bytes.Buffer
			if err := store.Sessions().Export(ctx, session.ID, &document); err != nil {
				return err
			}
			if _, err := store.Sessions().Delete(ctx, session.ID); err != nil {
				return err
			}
			_, err = store.Sessions().Import(ctx, &document, true)
			return err
		},
		func(ctx context.Context) error {
			_, err := store.Sessions().AddUsage(ctx, id, repo.NewUsage{InputTokens: 1})
			return err
		},
		func(ctx context.Context) error {
			return store.Audit().Record(ctx, repo.AuditEntry{Type: events.ToolInvoked})
		},
	} {
		for range 3 {
			all.Go(func() {
				for {
					if err := call(t.Context()); err != nil {
						if !errors.Is(err, repo.ErrClosed) {
							t.Errorf("%s: %v", name, err)
						}
						return
					}
				}
			})
		}
	}
	time.Sleep(rand.N(50 * time.Millisecond)) // pace: somewhere in the load
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	closed.Store(true)
	all.Wait()
	for message, written := range acknowledged {
		if _, err := other.Sessions().Message(t.Context(), id, message); written != (err == nil) {
			t.Errorf("%s: acknowledged %t, but: %v", name, written, err)
		}
	}
}
