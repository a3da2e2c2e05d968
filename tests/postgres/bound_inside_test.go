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

// Opening the same database inside of InTx, which would query the server, is refused,
// too.
func TestOpenInsideOwnTransaction(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := store.InTx(ctx, func(ctx context.Context, _ repo.Repositories) error {
		_, err := agentstore.Open(ctx, databaseURL, agentstore.Options{})
		if invalid, is := errors.AsType[*repo.InvalidError](err); !is || invalid.Field != "context" {
			t.Errorf("Open inside of InTx gave %v, want an InvalidError of the context", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// If the store were used inside of its own InTx, on a pool of one connection, it
// would wait for the connection of the transaction.
func TestInsideOwnTransaction(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 1})
	id := pgtest.NewSession(t, store)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := store.InTx(ctx, func(ctx context.Context, _ repo.Repositories) error {
		_, err := store.Sessions().Append(ctx, id, user("inside"))
		return err
	})
	if !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("it gave %v", err)
	}
}
