package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A long session that has a fork is deleted: the store removes what is left in its own time, but for what the fork reads,
// and that when the fork is deleted.
func TestRemovalOfALongSession(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	id := pgtest.NewSession(t, store)
	for range 3 {
		messages := make([]repo.NewMessage, 1000)
		for i := range messages {
			messages[i] = user("x")
		}
		if _, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, ID: repo.NewID().String(), Messages: messages}); err != nil {
			t.Fatal(err)
		}
	}
	fork, err := store.Sessions().Fork(t.Context(), id, 1499, repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	rows := func(in pgtest.Database) int64 {
		return pgtest.Value[int64](t, in, "SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM session_turns) + (SELECT count(*) FROM session_remains)")
	}
	if err := pgx.BeginFunc(t.Context(), store.Pool(), func(tx pgx.Tx) error {
		if err := second(postgres.Bind(tx).Sessions().Delete(t.Context(), id)); err != nil {
			return err
		}
		if rows(tx) == 1500 {
			t.Error("one transaction removes all")
		}
		return errUndone
	}); !errors.Is(err, errUndone) {
		t.Fatal(err)
	}
	deleted, err := store.Sessions().Delete(t.Context(), id)
	if err != nil || deleted.Messages != 1500 || deleted.Kept != 1500 {
		t.Fatalf("%+v, %v", deleted, err)
	}
	await.For(t, "the rest to go", func() bool { return rows(store.Pool()) == 1500 })
	page, err := store.Sessions().MessagesFrom(t.Context(), fork.ID, 1400, 1000)
	if err != nil || len(page) != 100 {
		t.Errorf("the fork has %d of 100 messages, %v", len(page), err)
	}
	if _, err := store.Sessions().Delete(t.Context(), fork.ID); err != nil {
		t.Fatal(err)
	}
	await.For(t, "all to go", func() bool { return rows(store.Pool()) == 0 })
}

// A session is restored while rows of its deletion are left: these go first, and nothing of the restored one.
func TestRestoreBesideRemoval(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	id := pgtest.NewSession(t, store)
	if _, err := store.Sessions().Append(t.Context(), id, user("x")); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, store.Pool(), "INSERT INTO session_remains (session_id) VALUES ($1)", [16]byte(id))
	if removed, _, err := store.Sessions().RemoveDeleted(t.Context(), 0); err != nil || removed != 0 {
		t.Errorf("removed %d rows of a session that exists, %v", removed, err)
	}
	if _, err := store.Sessions().LastMessages(t.Context(), id, 1); err != nil {
		t.Error(err)
	}
}
