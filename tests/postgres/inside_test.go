package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// So it is with opening the same database there, which asks the server.
func TestOpenInsideOwnTransaction(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := openURL(t, databaseURL, agentstore.Options{MaxConns: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := store.InTx(ctx, func(ctx context.Context, _ repo.Repositories) error {
		_, err := agentstore.Open(ctx, databaseURL)
		if _, ok := errors.AsType[*repo.InsideTxError](err); !ok {
			t.Errorf("Open inside of InTx gave %v, want an InsideTxError", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// The store used inside its own InTx, on a pool of one connection, would wait
// for the connection that the unit of work has.
func TestInsideOwnTransaction(t *testing.T) {
	t.Parallel()
	store := openStore(t, agentstore.Options{MaxConns: 1})
	id := newSession(t, store)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	begin := time.Now()
	err := store.InTx(ctx, func(ctx context.Context, _ repo.Repositories) error {
		_, err := store.Sessions().Append(ctx, id, user("inside"))
		return err
	})
	if !errors.Is(err, repo.ErrInvalid) || time.Since(begin) > time.Second {
		t.Errorf("after %v: %v", time.Since(begin).Round(time.Millisecond), err)
	}
}
