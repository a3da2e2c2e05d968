package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/erase"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	together "github.com/seed-df90f812/agentstore/repo/removal"
	"github.com/seed-df90f812/agentstore/retention"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// Of sessions that are deleted together one is written to by a transaction that stays open: the others go at once, and the
// caller's search_path stays what it was. Retention counts the one that stays. An erasure waits for it.
// Guarantee: Deletion: Retention skips sessions that are being written.
func TestDeletionTogetherWaitsForNobody(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	var ids []repo.ID
	for range 4 {
		session, err := store.Sessions().Create(t.Context(), repo.NewSession{Owner: "person"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, session.ID)
		setBack(t, store.Pool(), session.ID, 2*time.Hour)
	}
	writer, err := store.Pool().BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = writer.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := postgres.Bind(writer).Sessions().Append(t.Context(), ids[1], user("x")); err != nil {
		t.Fatal(err)
	}
	all := []together.Deletion{{ID: ids[0]}, {ID: ids[1]}, {ID: ids[2]}}
	together.Delete(t.Context(), store, all)
	if all[0].Err != nil || !errors.Is(all[1].Err, repo.ErrContention) || all[2].Err != nil {
		t.Errorf("%+v", all)
	}
	policy := retention.Policy{Sessions: map[string]time.Duration{repo.DefaultNamespace: time.Hour}}
	if report, err := retention.Run(t.Context(), store, policy); err != nil || report.Sessions != 1 || report.InUse != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	erased := make(chan error, 1)
	go func() {
		receipt, err := erase.Subject(t.Context(), store, erase.Request{Owner: "person", Key: []byte("sixteen bytes or")})
		if err == nil && (receipt.Sessions != 1 || receipt.Messages != 1) {
			err = errors.New("the receipt is wrong")
		}
		erased <- err
	}()
	awaitLockWait(t, store.Pool())
	if err := writer.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-erased; err != nil {
		t.Error(err)
	}
}

// A deletion's triggers look for tables in their own schema, and leave the caller's search_path as it is.
func TestDeletionKeepsTheSearchPath(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	id := pgtest.NewSession(t, store)
	if err := pgx.BeginFunc(t.Context(), store.Pool(), func(tx pgx.Tx) error {
		pgtest.Exec(t, tx, "CREATE TEMP TABLE messages (session_id uuid)")
		before := pgtest.Value[string](t, tx, "SHOW search_path")
		pgtest.Exec(t, tx, "DELETE FROM sessions WHERE id = $1", [16]byte(id))
		if after := pgtest.Value[string](t, tx, "SHOW search_path"); after != before {
			t.Errorf("the search_path was %s, and is %s", before, after)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A person is erased while they go on: they append to their sessions, fork them and begin others. The erasure ends, and one
// afterwards leaves nothing.
func TestErasureBesideItsOwner(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 12})
	ctx, stop := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	for range 4 {
		writing.Go(func() {
			for ctx.Err() == nil {
				session, err := store.Sessions().Create(ctx, repo.NewSession{Owner: "person"})
				for range 20 {
					if err == nil {
						_, err = store.Sessions().AppendTurn(ctx, repo.Turn{SessionID: session.ID, ID: repo.NewID().String(), Messages: []repo.NewMessage{user("person")}})
					}
				}
				if err == nil {
					_, err = store.Sessions().Fork(ctx, session.ID, 3, repo.NewSession{Owner: "person"})
				}
				if err != nil && ctx.Err() == nil && !errors.Is(err, repo.ErrNotFound) {
					t.Error(err)
				}
			}
		})
	}
	request := erase.Request{Owner: "person", Key: []byte("sixteen bytes or")}
	for sessions := int64(0); sessions < 50; {
		receipt, err := erase.Subject(t.Context(), store, request)
		if sessions += receipt.Sessions; err != nil {
			t.Fatal(err)
		}
	}
	stop()
	writing.Wait()
	if _, err := erase.Subject(t.Context(), store, request); err != nil {
		t.Fatal(err)
	}
	const left = "SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM messages) + (SELECT count(*) FROM session_branches) + (SELECT count(*) FROM session_turns)"
	if rows := pgtest.Value[int](t, store.Pool(), left); rows > 0 {
		t.Errorf("%d rows are left", rows)
	}
}
