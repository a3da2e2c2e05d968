package postgres

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A transaction above read committed whose snapshot lacks a session cannot tell it of the
// token. The session learns of it with the first write that has it, as docs/leases.md says.
func TestFenceOfASessionThatASnapshotLacks(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 6})
	id := repo.NewID()
	first := acquireFor(t, store, repo.SessionLease(id))
	expire(t, store)
	tx, err := store.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	pgtest.Exec(t, tx, "SELECT count(*) FROM sessions")
	createWith(t, store, id)
	if err := appendUnder(t.Context(), store, id, first.Fence); err != nil {
		t.Fatal(err)
	}
	second, err := postgres.Bind(tx).Leases().Acquire(t.Context(), repo.NewLease{Key: first.Key, Owner: "second"})
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := appendUnder(t.Context(), store, id, second.Fence); err != nil {
		t.Error(err)
	}
	wantFencedBy(t, appendUnder(t.Context(), store, id, first.Fence), second)
}
