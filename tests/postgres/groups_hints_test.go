package postgres

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A hint that leads to another session's row, as after VACUUM FULL, or to none: nothing is
// appended to the other session, and what the store appends arrives nevertheless.
func TestHintOfAnotherRow(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.ReadCommitted(pgtest.NewDatabase(t)) // at other levels the statements do nothing
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{MaxConns: 4})
	pool := pgtest.NewPool(t, databaseURL)
	own, other := pgtest.NewSession(t, store), pgtest.NewSession(t, store)
	var hint pgtype.TID
	if err := pool.QueryRow(t.Context(), "SELECT ctid FROM session_counters WHERE session_id = $1", [16]byte(other)).Scan(&hint); err != nil {
		t.Fatal(err)
	}
	id := func(id repo.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
	one, err := db.New().MessageAppendOne(t.Context(), pool, db.MessageAppendOneParams{
		Hint: hint, SessionID: id(own), ID: id(repo.NewID()), Role: "user", Content: "x", Metadata: "{}",
	})
	if err != nil || one.Sequence != 0 {
		t.Errorf("one message: %+v, %v", one, err)
	}
	locked, err := db.New().TurnLockCounters(t.Context(), pool, db.TurnLockCountersParams{
		SessionIds: []pgtype.UUID{id(own)}, Hints: []pgtype.TID{hint},
	})
	if err != nil || len(locked) != 1 || locked[0].SessionID != id(own) || locked[0].Locked || locked[0].Hint == hint {
		t.Errorf("a group locks %+v, %v", locked, err)
	}
	// The row has no next sequence in the arrays.
	if advanced, err := db.New().MessageAdvance(t.Context(), pool, db.MessageAdvanceParams{
		Hints: []pgtype.TID{hint}, SessionIds: []pgtype.UUID{id(own)}, NextSequences: []int64{9},
	}); err == nil {
		t.Errorf("a group advances another session's counter: %+v, %v", advanced, err)
	}
	wantMessages(t, store, own, 1)
	wantMessages(t, store, other, 0)

	// The store has hints of these, which are made wrong.
	for range 3 {
		for _, messages := range [][]repo.NewMessage{{user("one")}, {user("one"), user("two")}} {
			for range 2 {
				if _, err := store.Sessions().Append(await.Context(t), other, messages...); err != nil {
					t.Fatal(err)
				}
			}
			pgtest.Exec(t, pool, "UPDATE session_counters SET updated_at = updated_at")
		}
		pgtest.Exec(t, pool, "VACUUM FULL session_counters")
	}
	wantMessages(t, store, other, 3*6)
}

// Groups of appends at sequences that are expected: those that expect another one are refused,
// and nothing of theirs is written.
func TestGroupOfExpectedSequences(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	const sessions, writers = 4, 6
	ids := make([]repo.ID, sessions)
	for i := range ids {
		ids[i] = pgtest.NewSession(t, store)
	}
	tx := beginTx(t, store)
	pgtest.Exec(t, tx, "SELECT FROM session_counters ORDER BY session_id FOR UPDATE")
	var running sync.WaitGroup
	won := make([]atomic.Int64, sessions)
	for i, id := range ids {
		for range writers {
			running.Go(func() {
				_, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: []repo.NewMessage{user("x")}, Expected: new(int64)})
				switch conflict, is := errors.AsType[*repo.SequenceConflictError](err); {
				case err == nil:
					won[i].Add(1)
				case !is || conflict.Next != 1:
					t.Error(err)
				}
			})
		}
	}
	awaitQueued(t, store, sessions*writers/2)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	running.Wait()
	for i, id := range ids {
		if won[i].Load() != 1 {
			t.Errorf("%d appends were made at sequence 0", won[i].Load())
		}
		wantMessages(t, store, id, 1)
	}
}

func wantMessages(t *testing.T, store repo.Repositories, id repo.ID, want int64) {
	t.Helper()
	if session, err := store.Sessions().Get(t.Context(), id); err != nil || session.MessageCount != want {
		t.Errorf("%d messages, want %d: %v", session.MessageCount, want, err)
	}
}
