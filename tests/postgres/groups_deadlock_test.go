package postgres

import (
	"bytes"
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A transaction that locks in another order than an operation of several statements,
// such as a migration or a user's SQL, can deadlock with it. If the server aborts the
// operation's transaction, it is retried.
// Guarantee: Faults: An operation that a deadlock ended is retried.
func TestOperationsAfterADeadlock(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	if _, err := store.Actions().Create(t.Context(), repo.NewAction{
		Name: "local/deadlock", ActionDefinition: repo.ActionDefinition{Description: "x", DefinitionOfDone: "y", Reusable: true},
	}); err != nil {
		t.Fatal(err)
	}
	link := func(t *testing.T) (repo.ID, repo.ID) {
		t.Helper()
		id := pgtest.NewSession(t, store)
		plan, err := store.Plans().Use(t.Context(), "local/deadlock", repo.UseAction{SessionID: id})
		if err != nil {
			t.Fatal(err)
		}
		return id, plan.ID
	}
	t.Run("delete", func(t *testing.T) {
		t.Parallel()
		id, _ := link(t)
		deadlock(t, databaseURL, "SELECT FROM sessions WHERE id = $1 FOR UPDATE", id,
			"SELECT FROM session_counters WHERE session_id = $1 FOR UPDATE", id,
			func() error { return second(store.Sessions().Delete(t.Context(), id)) })
		if _, err := store.Sessions().Get(t.Context(), id); !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("after the deletion: %v", err)
		}
	})
	t.Run("import", func(t *testing.T) {
		t.Parallel()
		id, plan := link(t)
		if _, err := store.Sessions().Append(t.Context(), id, user("x"), user("y")); err != nil {
			t.Fatal(err)
		}
		var document bytes.Buffer
		if err := store.Sessions().Export(t.Context(), id, &document); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Sessions().Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		deadlock(t, databaseURL, "SELECT FROM plans WHERE id = $1 FOR UPDATE", plan,
			"INSERT INTO sessions (id) VALUES ($1)", id,
			func() error {
				got, err := store.Sessions().Import(t.Context(), bytes.NewReader(document.Bytes()), true)
				if err == nil && (got.MessageCount != 2 || len(got.Plans) != 1) {
					t.Errorf("imported %+v", got)
				}
				return err
			})
		messages, err := store.Sessions().LastMessages(t.Context(), id, 10)
		if err != nil || len(messages) != 2 {
			t.Errorf("%d messages, %v", len(messages), err)
		}
	})
}

// deadlock makes a transaction run the first statement, waits until the operation
// waits for it, and makes it wait for the operation. The server aborts the operation.
func deadlock(t *testing.T, databaseURL, first string, firstID repo.ID, second string, secondID repo.ID, operation func() error) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, tx, "SET LOCAL deadlock_timeout = '1h'")
	pgtest.Exec(t, tx, first, [16]byte(firstID))
	done := make(chan error, 1)
	go func() { done <- operation() }()
	// In a transaction, pg_stat_activity keeps what it had when it was first read.
	const waiting = `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))`
	await.For(t, "the operation waits for the transaction", func() bool {
		if len(done) > 0 {
			t.Fatalf("the operation did not wait for the transaction: %v", <-done)
		}
		return pgtest.Value[bool](t, tx, waiting)
	})
	if _, err := tx.Exec(t.Context(), second, [16]byte(secondID)); err != nil {
		t.Errorf("the transaction was aborted: %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the operation: %v", err)
	}
}
