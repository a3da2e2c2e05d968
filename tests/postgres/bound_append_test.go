package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Two transactions of the caller's append a message with the same id. The second
// waits for the first, gets the stored message, and can continue: a failed statement
// would have aborted its transaction.
func TestBoundAppendOfOneID(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	id := pgtest.NewSession(t, store)
	message := repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "once"}
	begin := func() pgx.Tx {
		tx, err := store.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	first, second := begin(), begin()
	if _, err := postgres.Bind(first).Sessions().Append(t.Context(), id, message); err != nil {
		t.Fatal(err)
	}
	appended := make(chan error, 1)
	go func() {
		stored, err := postgres.Bind(second).Sessions().Append(t.Context(), id, message)
		if err == nil && stored[0].Sequence != 0 {
			t.Errorf("sequence %d, want that of the stored message", stored[0].Sequence)
		}
		appended <- err
	}()
	awaitLockWait(t, store.Pool())
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-appended; err != nil {
		t.Errorf("the second: %v", err)
	}
	if _, err := postgres.Bind(second).Sessions().Append(t.Context(), id, user("another")); err != nil {
		t.Errorf("the second's next append: %v", err)
	}
	if err := second.Commit(t.Context()); err != nil {
		t.Error(err)
	}
	if session, err := store.Sessions().Get(t.Context(), id); err != nil || session.MessageCount != 2 {
		t.Errorf("%d messages, %v", session.MessageCount, err)
	}
}

// An append that waits for a transaction sees what that has committed: it returns a
// message with its id, and goes after one with another id.
func TestWaitingAppendSeesTheTransaction(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 4})
	id := pgtest.NewSession(t, store)
	named := repo.NewMessage{ID: repo.NewID(), Role: repo.RoleUser, Content: "once"}
	for _, test := range []struct {
		first, second repo.NewMessage
		sequence      int64
	}{{named, named, 0}, {user("first"), user("second"), 2}} {
		var stored []repo.Message
		duringItsWait(t, store, func(tx repo.Repositories) error {
			_, err := tx.Sessions().Append(t.Context(), id, test.first)
			return err
		}, func() (err error) {
			stored, err = store.Sessions().Append(t.Context(), id, test.second)
			return err
		})
		if len(stored) != 1 || stored[0].Sequence != test.sequence {
			t.Errorf("%s: %d messages, want one of the sequence %d", test.second.Content, len(stored), test.sequence)
		}
	}
}
