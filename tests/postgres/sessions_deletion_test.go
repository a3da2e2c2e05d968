package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A session is deleted while others append to it and add turns: nothing of it is left, in
// callers' transactions of any level. No foreign key sees to that. The naive way, which deletes
// the messages before it has the lock of the session, leaves some.
// Guarantee: Sessions: A deleted session leaves no row behind.
func TestDeletionLeavesNothing(t *testing.T) {
	t.Parallel()
	left := func(t *testing.T, store *agentstore.Store, remove func(ctx context.Context, id repo.ID) error) (left int) {
		t.Helper()
		for range pgtest.Choose(100, 6) {
			id := pgtest.NewSession(t, store)
			ctx, cancel := context.WithCancel(t.Context())
			var writing sync.WaitGroup
			for writer := range 4 {
				writing.Go(func() {
					for err := error(nil); err == nil && ctx.Err() == nil; {
						if writer%2 == 0 {
							_, err = store.Sessions().Append(ctx, id, user("x"))
						} else {
							_, err = store.Sessions().AppendTurn(ctx, repo.Turn{SessionID: id, ID: repo.NewID().String(), Messages: []repo.NewMessage{user("x")}})
						}
					}
				})
			}
			await.For(t, "some messages", func() bool {
				session, err := store.Sessions().Get(t.Context(), id)
				return err == nil && session.MessageCount > 2
			})
			err := remove(t.Context(), id)
			for errors.Is(err, repo.ErrContention) {
				err = remove(t.Context(), id)
			}
			cancel()
			writing.Wait()
			for more := true; err == nil && more; { // what one transaction would take too long for
				_, more, err = store.Sessions().RemoveDeleted(t.Context(), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
			var rows int
			if err := store.Pool().QueryRow(t.Context(), `SELECT (SELECT count(*) FROM messages WHERE session_id = $1)
				+ (SELECT count(*) FROM session_turns WHERE session_id = $1)`, [16]byte(id)).Scan(&rows); err != nil {
				t.Fatal(err)
			}
			left += rows
		}
		return left
	}
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 12})
	if rows := left(t, store, func(ctx context.Context, id repo.ID) error {
		_, err := store.Sessions().Delete(ctx, id)
		return err
	}); rows > 0 {
		t.Errorf("%d rows are left", rows)
	}
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		if rows := left(t, store, func(ctx context.Context, id repo.ID) error {
			return postgres.Translate(ctx, pgx.BeginTxFunc(ctx, store.Pool(), pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
				_, err := postgres.Bind(tx).Sessions().Delete(ctx, id)
				return err
			}))
		}); rows > 0 {
			t.Errorf("%s: %d rows are left", level, rows)
		}
	}
	naive := pgtest.NewStore(t, agentstore.Options{MaxConns: 12})
	pgtest.Exec(t, naive.Pool(), "DROP TRIGGER session_counters_delete ON session_counters")
	await.For(t, "the naive way leaves some", func() bool {
		return left(t, naive, func(ctx context.Context, id repo.ID) error {
			return pgx.BeginTxFunc(ctx, naive.Pool(), pgx.TxOptions{}, func(tx pgx.Tx) error {
				for _, statement := range []string{
					"DELETE FROM messages WHERE session_id = $1", "DELETE FROM session_turns WHERE session_id = $1", "DELETE FROM sessions WHERE id = $1",
				} {
					if _, err := tx.Exec(ctx, statement, [16]byte(id)); err != nil {
						return err
					}
				}
				return nil
			})
		}) > 0
	})
}
