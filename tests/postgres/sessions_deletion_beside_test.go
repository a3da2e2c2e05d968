package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// leftBehind counts the rows of sessions that do not exist, by their tables.
func leftBehind(t *testing.T, conn *pgx.Conn) map[string]int64 {
	t.Helper()
	left := map[string]int64{}
	for _, table := range []string{"session_counters", "messages", "session_turns", "session_usages", "session_activity", "session_plans", "state_scopes"} {
		sql := "SELECT count(*) FROM " + table + " r WHERE r.session_id IS NOT NULL AND NOT EXISTS (SELECT FROM sessions s WHERE s.id = r.session_id)"
		if count := pgtest.Value[int64](t, conn, sql); count > 0 {
			left[table] = count
		}
	}
	return left
}

// besideDeletion are the writes that are under way when a session is deleted.
var besideDeletion = map[string]repo.Turn{
	"message": {Messages: []repo.NewMessage{user("x")}},
	"turn":    {ID: "turn", Messages: []repo.NewMessage{user("x")}},
	"state":   {ID: "turn", State: []repo.StateChange{{Key: "k", Value: []byte("1")}}},
	"shared":  {ID: "turn", State: []repo.StateChange{{Scope: repo.Scope{Name: "shared"}, Key: "k", Value: []byte("1")}}},
	"usage":   {ID: "turn", Usage: &repo.NewUsage{InputTokens: 1}},
}

// deletedDuring deletes a session beside a write to it, which commits when the deletion
// waits. It returns the remains of the session. remove is called again if the server had to
// refuse it because of the other transaction.
func deletedDuring(t *testing.T, store *agentstore.Store, conn *pgx.Conn, write repo.Turn, remove func(repo.ID) error) map[string]int64 {
	t.Helper()
	id := pgtest.NewSession(t, store)
	full := repo.Turn{ID: "full", Messages: []repo.NewMessage{user("x")}, Usage: &repo.NewUsage{InputTokens: 1}}
	if _, err := store.Sessions().AppendTurn(t.Context(), inSession(id, full)); err != nil {
		t.Fatal(err)
	}
	writer, err := store.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := postgres.Bind(writer).Sessions().AppendTurn(t.Context(), inSession(id, write)); err != nil {
		t.Fatal(err)
	}
	removed := make(chan error, 1)
	go func() {
		err := remove(id)
		if pgErr, is := errors.AsType[*pgconn.PgError](err); is && pgErr.Code == "40001" || errors.Is(err, repo.ErrContention) {
			err = remove(id)
		}
		removed <- err
	}()
	awaitLockWait(t, store.Pool())
	if err := writer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-removed; err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Get(t.Context(), id); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("the deleted session: %v", err)
	}
	// At a level at which a deletion may not see a turn, it leaves it to the removal of the rest.
	for more := true; more; {
		var err error
		if _, more, err = store.Sessions().RemoveDeleted(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	return leftBehind(t, conn)
}

// A write to a session, of each kind, is committed while the session's deletion waits for it:
// nothing of it is left, by each way to delete, at each level. The naive way, which deletes
// the messages before it has the lock of the session, leaves some.
func TestDeletionBesideEachWrite(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(strings.ReplaceAll(string(level), " ", "-"), func(t *testing.T) {
			t.Parallel()
			databaseURL := databaseAt(t, "database", level)
			store, conn := process(t, databaseURL), pgtest.Connect(t, databaseURL)
			inTx := func(remove func(pgx.Tx) error) error {
				return pgx.BeginTxFunc(t.Context(), store.Pool(), pgx.TxOptions{IsoLevel: level}, remove)
			}
			ways := map[string]func(id repo.ID) error{
				"store": func(id repo.ID) error { return second(store.Sessions().Delete(t.Context(), id)) },
				"bound": func(id repo.ID) error {
					return inTx(func(tx pgx.Tx) error { return second(postgres.Bind(tx).Sessions().Delete(t.Context(), id)) })
				},
				"statement": func(id repo.ID) error {
					return inTx(func(tx pgx.Tx) error {
						return second(tx.Exec(t.Context(), "DELETE FROM sessions WHERE id = $1", id.String()))
					})
				},
			}
			for name, write := range besideDeletion {
				for way, remove := range ways {
					if left := deletedDuring(t, store, conn, write, remove); len(left) > 0 {
						t.Errorf("%s, beside %s: %v", way, name, left)
						pgtest.Exec(t, conn, "DELETE FROM messages; DELETE FROM session_turns", pgx.QueryExecModeSimpleProtocol)
					}
				}
			}
			if level != pgx.ReadCommitted {
				return // the server refuses the naive way beside a message
			}
			pgtest.Exec(t, conn, "DROP TRIGGER session_counters_delete ON session_counters")
			left := deletedDuring(t, store, conn, besideDeletion["message"], func(id repo.ID) error {
				return inTx(func(tx pgx.Tx) error {
					if _, err := tx.Exec(t.Context(), "DELETE FROM messages WHERE session_id = $1", id.String()); err != nil {
						return err
					}
					return second(tx.Exec(t.Context(), "DELETE FROM sessions WHERE id = $1", id.String()))
				})
			})
			if left["messages"] != 1 {
				t.Errorf("the naive way leaves %v, so this test checks nothing", left)
			}
		})
	}
}
