package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// boundTo returns the sessions of a caller's transaction, and that transaction.
func boundTo(tx pgx.Tx) (repo.Sessions, pgx.Tx) {
	bound := postgres.Bind(tx)
	same, _ := postgres.Tx(bound)
	return bound.Sessions(), same
}

var errUndone = errors.New("undone")

// The caller's own rows are committed, or rolled back, together with what the
// repositories write.
// Guarantee: Transactions: The caller's own rows are committed together with those of `InTx`.
func TestTx(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	pgtest.Exec(t, store.Pool(), "CREATE TABLE orders (session_id uuid)")
	for _, outcome := range []error{errUndone, nil} {
		var id repo.ID
		err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			id = pgtest.NewSession(t, tx)
			own, ok := postgres.Tx(tx)
			if !ok {
				t.Fatal("InTx has no transaction")
			}
			// The transaction is open after it: a savepoint was committed.
			err := pgx.BeginFunc(ctx, own, func(savepoint pgx.Tx) error {
				_, err := savepoint.Exec(ctx, "INSERT INTO orders VALUES ($1)", id.String())
				return err
			})
			if err != nil {
				return err
			}
			for _, end := range []func(context.Context) error{own.Commit, own.Rollback} {
				if err := end(ctx); !errors.Is(err, repo.ErrInvalid) {
					t.Errorf("the caller ended the transaction: %v", err)
				}
			}
			if _, err := tx.Sessions().Append(ctx, id, user("goes on")); err != nil {
				return err
			}
			err = agentstore.WithTx(tx, func(given pgx.Tx) error {
				if given != own {
					t.Error("WithTx has another transaction")
				}
				return outcome
			}, func() error { t.Error("WithTx took PostgreSQL for memory"); return nil })
			return err
		})
		if !errors.Is(err, outcome) {
			t.Fatal(err)
		}
		orders := pgtest.Value[int64](t, store.Pool(), "SELECT count(*) FROM orders")
		_, err = store.Sessions().Get(t.Context(), id)
		if kept := outcome == nil; (orders == 1) != kept || (err == nil) != kept {
			t.Errorf("after %v there are %d orders, and the session: %v", outcome, orders, err)
		}
	}
}

func TestTxOfOthers(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	tx, err := store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, same := boundTo(tx); same != tx {
		t.Error("Bind's transaction is not the caller's")
	}
	inMemory := memory.New()
	defer func() { _ = inMemory.Close() }()
	for name, r := range map[string]repo.Repositories{"a store": store, "its own": store.Store, "memory": inMemory, "nothing": nil} {
		if tx, ok := postgres.Tx(r); ok || tx != nil {
			t.Errorf("%s has a transaction", name)
		}
	}
	err = inMemory.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
		if _, ok := postgres.Tx(tx); ok {
			t.Error("a transaction in memory is one of PostgreSQL's")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A statement of the caller's that ends the transaction is noticed: nothing is written
// outside of a transaction, and InTx does not report success.
// Guarantee: Transactions: If the caller's statement ends `InTx`, nothing more is written.
func TestTxEndedByAStatement(t *testing.T) {
	t.Parallel()
	for _, statement := range []string{"COMMIT", "ROLLBACK"} {
		store := pgtest.NewStore(t, agentstore.Options{MaxConns: 1})
		id := pgtest.NewSession(t, store)
		err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			own, _ := postgres.Tx(tx)
			if _, err := tx.Sessions().Append(ctx, id, user("before")); err != nil {
				return err
			}
			if _, err := own.Exec(ctx, statement); err != nil {
				return err
			}
			if _, err := tx.Sessions().Append(ctx, id, user("after")); !errors.Is(err, repo.ErrClosed) {
				t.Errorf("after %s an append gave %v", statement, err)
			}
			if _, err := tx.Sessions().Create(ctx, repo.NewSession{}); !errors.Is(err, repo.ErrClosed) {
				t.Errorf("after %s a creation gave %v", statement, err)
			}
			return nil
		})
		if !errors.Is(err, repo.ErrUnknownOutcome) {
			t.Errorf("after %s InTx returned %v", statement, err)
		}
		want := map[string]int64{"COMMIT": 1}[statement]
		if got := readSession(t, store, id).MessageCount; got != want {
			t.Errorf("after %s there are %d messages, want %d", statement, got, want)
		}
	}
}
