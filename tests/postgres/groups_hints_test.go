package postgres

import (
	"testing"
	"time"

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
	many, err := db.New().MessageAppend(t.Context(), pool, db.MessageAppendParams{
		Hints: []pgtype.TID{hint}, SessionIds: []pgtype.UUID{id(own)}, Sizes: []int64{1}, Owners: []pgtype.UUID{id(own)}, Places: []int64{1},
		Ids: []pgtype.UUID{id(repo.NewID())}, Roles: []string{"user"}, Contents: []string{"x"}, Metadatas: []string{"{}"},
		Payloads: [][]byte{nil}, OccurredAts: []time.Time{{}},
	})
	if err != nil || len(many) > 0 {
		t.Errorf("a group: %+v, %v", many, err)
	}
	wantMessages(t, store, own, 1)
	wantMessages(t, store, other, 0)

	// The store has hints of these, which somebody makes wrong.
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
	databaseURL := pgtest.ReadCommitted(pgtest.NewDatabase(t))
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	pool := pgtest.NewPool(t, databaseURL)
	ids := []pgtype.UUID{{Bytes: pgtest.NewSession(t, store), Valid: true}, {Bytes: pgtest.NewSession(t, store), Valid: true}}
	rows, err := db.New().MessageAppend(t.Context(), pool, db.MessageAppendParams{
		Unplaced: ids, SessionIds: ids, Sizes: []int64{1, 1}, Expecteds: []int64{1, 0}, Owners: ids, Places: []int64{1, 1},
		Ids: []pgtype.UUID{{Bytes: repo.NewID(), Valid: true}, {Bytes: repo.NewID(), Valid: true}}, Roles: []string{"user", "user"},
		Contents: []string{"x", "y"}, Metadatas: []string{"{}", "{}"}, Payloads: [][]byte{nil, nil}, OccurredAts: []time.Time{{}, {}},
	})
	if err != nil || len(rows) != 1 || rows[0].SessionID != ids[1] {
		t.Errorf("%+v, %v", rows, err)
	}
	wantMessages(t, store, ids[0].Bytes, 0)
	wantMessages(t, store, ids[1].Bytes, 1)
}

func wantMessages(t *testing.T, store repo.Repositories, id repo.ID, want int64) {
	t.Helper()
	if session, err := store.Sessions().Get(t.Context(), id); err != nil || session.MessageCount != want {
		t.Errorf("%d messages, want %d: %v", session.MessageCount, want, err)
	}
}
