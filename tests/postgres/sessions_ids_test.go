package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// creation creates a session with an id in a transaction, and reports whether it is new.
type creation func(ctx context.Context, tx pgx.Tx, id repo.ID) (isNew bool, err error)

func create(ctx context.Context, tx pgx.Tx, id repo.ID) (bool, error) {
	created, err := postgres.Bind(tx).Sessions().Create(ctx, repo.NewSession{ID: id})
	return err == nil && !created.Existed, err
}

// createNaively looks at the ids that are not given again, and then creates the session.
func createNaively(ctx context.Context, tx pgx.Tx, id repo.ID) (bool, error) {
	tag, err := tx.Exec(ctx, `INSERT INTO sessions (id) SELECT $1 WHERE NOT EXISTS (SELECT FROM session_ids WHERE id = $1)
		ON CONFLICT DO NOTHING`, [16]byte(id))
	return tag.RowsAffected() == 1, postgres.Translate(ctx, err)
}

// whileDeleting creates a session with the id of one whose deletion is committed meanwhile, in a
// transaction that has begun before.
func whileDeleting(t *testing.T, store *agentstore.Store, level pgx.TxIsoLevel, create creation) (isNew bool, err error) {
	t.Helper()
	ctx, pool := t.Context(), store.Pool()
	id := pgtest.NewSession(t, store)
	begin := func(options pgx.TxOptions) pgx.Tx {
		tx, err := pool.BeginTx(ctx, options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		return tx
	}
	creating, deleting := begin(pgx.TxOptions{IsoLevel: level}), begin(pgx.TxOptions{})
	if _, err := postgres.Bind(creating).Sessions().Get(ctx, id); err != nil { // takes its snapshot
		t.Fatal(err)
	}
	if _, err := postgres.Bind(deleting).Sessions().Delete(ctx, id); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		isNew, err = create(ctx, creating, id)
	}()
	pgtest.AwaitLockWait(t, pool, 1)
	if err := deleting.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	<-done
	return isNew, err
}

// An id is not given again, at any level, although the session with it is deleted while another one
// is being created. The naive way, which looks first, and then creates, gives it again.
func TestDeletedIDWhileDeleting(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			store := pgtest.NewStore(t, agentstore.Options{})
			isNew, err := whileDeleting(t, store, level, create)
			// The transaction is to be run again, and finds that it was deleted.
			if isNew || !errors.Is(err, repo.ErrContention) {
				t.Errorf("new: %t, %v", isNew, err)
			}
			if isNew, err := whileDeleting(t, store, level, createNaively); !isNew {
				t.Errorf("the harness does not catch the naive creation: %v", err)
			}
		})
	}
}

// However many create and delete sessions with one id, only one is ever created.
// Guarantee: Sessions: An id is never given twice, except by an import that restores it.
func TestDeletedIDRaces(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{MaxConns: 8})
	sessions := store.Sessions()
	for round := range 30 {
		id := repo.NewID()
		var made, deleted atomic.Int32
		if round%2 == 0 {
			id = pgtest.NewSession(t, store) // no caller has chosen its id
			made.Add(1)
		}
		var running sync.WaitGroup
		for worker := range 12 {
			running.Go(func() {
				for range 3 {
					if worker%3 == 0 {
						_, err := sessions.Delete(t.Context(), id)
						switch {
						case err == nil:
							deleted.Add(1)
						case !errors.Is(err, repo.ErrNotFound):
							t.Errorf("Delete: %v", err)
						}
						continue
					}
					isNew, err := false, error(nil)
					switch worker % 3 {
					case 1:
						var created repo.Session
						created, err = sessions.Create(t.Context(), repo.NewSession{ID: id})
						isNew = err == nil && !created.Existed
					case 2:
						var added repo.AppendedTurn
						added, err = sessions.AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: []repo.NewMessage{user("x")}, Create: &repo.NewSession{}})
						isNew = added.Created
					}
					if isNew {
						made.Add(1)
					}
					if conflict, is := errors.AsType[*repo.ExistsError](err); err != nil && (!is || !conflict.Gone) {
						t.Errorf("worker %d: %v", worker, err)
					}
				}
			})
		}
		running.Wait()
		_, err := sessions.Get(t.Context(), id)
		if made.Load() != 1 || deleted.Load() > 1 || (err == nil) != (deleted.Load() == 0) {
			t.Errorf("%d sessions were made, %d were deleted: %v", made.Load(), deleted.Load(), err)
		}
	}
}

// stale are operations with the id of a session that was deleted.
func stale(ctx context.Context, r repo.Repositories, plan repo.ID) map[string]func(id repo.ID) error {
	s, scope := r.Sessions(), func(id repo.ID) repo.Scope { return repo.Scope{SessionID: id} }
	ended := func(of iter.Seq2[repo.Message, error]) error {
		for _, err := range of {
			return err
		}
		return nil
	}
	turn := repo.Turn{Usage: &repo.NewUsage{}}
	return map[string]func(id repo.ID) error{
		"Get": func(id repo.ID) error { _, err := s.Get(ctx, id); return err },
		"Update": func(id repo.ID) error {
			_, err := s.Update(ctx, id, repo.SessionUpdate{RemoveBudget: true})
			return err
		},
		"AddUsage":       func(id repo.ID) error { _, err := s.AddUsage(ctx, id, repo.NewUsage{}); return err },
		"Delete":         func(id repo.ID) error { _, err := s.Delete(ctx, id); return err },
		"Message":        func(id repo.ID) error { _, err := s.Message(ctx, id, id); return err },
		"MessagesFrom":   func(id repo.ID) error { _, err := s.MessagesFrom(ctx, id, 0, 1); return err },
		"LastMessages":   func(id repo.ID) error { _, err := s.LastMessages(ctx, id, 1); return err },
		"MessagesOfCall": func(id repo.ID) error { _, err := s.MessagesOfCall(ctx, id, "c"); return err },
		"Turn":           func(id repo.ID) error { _, err := s.Turn(ctx, id, "x"); return err },
		"Stream":         func(id repo.ID) error { return ended(s.Messages(ctx, id, 0)) },
		"Append":         func(id repo.ID) error { _, err := s.Append(ctx, id, user("x")); return err },
		"AppendAt":       func(id repo.ID) error { _, err := appendAt(ctx, s, id, 0, user("x")); return err },
		"AppendTurn":     func(id repo.ID) error { _, err := s.AppendTurn(ctx, inSession(id, turn)); return err },
		"Export":         func(id repo.ID) error { return s.Export(ctx, id, io.Discard) },
		"Read": func(id repo.ID) error {
			snapshot, err := s.Read(ctx, repo.ReadSessions{IDs: []repo.ID{id}})
			if err == nil && snapshot.Sessions[0] == nil {
				err = repo.ErrNotFound
			}
			return err
		},
		"Get of state":  func(id repo.ID) error { _, err := r.State().Get(ctx, scope(id), "k"); return err },
		"Read of state": func(id repo.ID) error { _, err := r.State().Read(ctx, scope(id)); return err },
		"List of state": func(id repo.ID) error { _, err := r.State().List(ctx, scope(id), "", repo.Page{}); return err },
		"Change": func(id repo.ID) error {
			_, err := r.State().Change(ctx, []repo.StateChange{{Scope: scope(id), Key: "k", Value: []byte(`1`)}})
			return err
		},
		"Link":   func(id repo.ID) error { return r.Plans().Link(ctx, id, plan) },
		"Unlink": func(id repo.ID) error { return r.Plans().Unlink(ctx, id, plan) },
		"Use":    func(id repo.ID) error { _, err := r.Plans().Use(ctx, "a", repo.UseAction{SessionID: id}); return err },
		"Follow": func(id repo.ID) error {
			if _, isStore := r.(repo.Store); !isStore {
				return repo.ErrNotFound
			}
			return ended(s.Follow(ctx, id, 0))
		},
	}
}

// A session that is made again by another process is found as soon as an operation has found that
// the one before is missing, whichever that is.
func TestFindSessionOfAnotherProcess(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	ours, theirs := pgtest.OpenStore(t, databaseURL, agentstore.Options{}), process(t, databaseURL)
	if _, err := ours.Actions().Create(t.Context(), repo.NewAction{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	plan, err := ours.Plans().Use(t.Context(), "a", repo.UseAction{})
	if err != nil {
		t.Fatal(err)
	}
	key := repo.SessionKey{Key: "k"}
	for name := range stale(t.Context(), ours, plan.ID) {
		for _, inTx := range []bool{false, true} {
			id, err := ours.Sessions().Find(t.Context(), key)
			if errors.Is(err, repo.ErrNotFound) {
				_, err = ours.Sessions().Create(t.Context(), repo.NewSession{Key: key.Key})
				if err == nil {
					id, err = ours.Sessions().Find(t.Context(), key)
				}
			}
			if err == nil {
				_, err = theirs.Sessions().Delete(t.Context(), id)
			}
			if err != nil {
				t.Fatal(err)
			}
			second, err := theirs.Sessions().Create(t.Context(), repo.NewSession{Key: key.Key})
			if err != nil {
				t.Fatal(err)
			}
			if found, err := ours.Sessions().Find(t.Context(), key); err != nil || found != id {
				t.Fatalf("found %s, %v, want what is known: %s", found, err, id)
			}
			if inTx {
				err = ours.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error { return stale(ctx, tx, plan.ID)[name](id) })
			} else {
				err = stale(t.Context(), ours, plan.ID)[name](id)
			}
			if !errors.Is(err, repo.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
			if inTx && name == "Follow" {
				_, _ = ours.Sessions().Get(t.Context(), id)
			}
			if found, err := ours.Sessions().Find(t.Context(), key); err != nil || found != second.ID {
				t.Errorf("%s, in a transaction: %t: found %s, %v, want %s", name, inTx, found, err, second.ID)
			}
		}
	}
}

// A session that was restored under another key may be found by the one before for a while, but not
// when it is gone: not even by a process that has found it by both.
func TestFindSessionRestoredUnderAnotherKey(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	ours, theirs := pgtest.OpenStore(t, databaseURL, agentstore.Options{}), process(t, databaseURL)
	elsewhere := pgtest.NewStore(t, agentstore.Options{})
	first, err := ours.Sessions().Create(t.Context(), repo.NewSession{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	var document bytes.Buffer
	if _, err = elsewhere.Sessions().Create(t.Context(), repo.NewSession{ID: first.ID, Key: "archived"}); err == nil {
		err = elsewhere.Sessions().Export(t.Context(), first.ID, &document)
	}
	if err == nil {
		_, err = theirs.Sessions().Delete(t.Context(), first.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	second, err := theirs.Sessions().Create(t.Context(), repo.NewSession{Key: "k"})
	if err == nil {
		_, err = theirs.Sessions().Import(t.Context(), &document, true)
	}
	if err == nil {
		_, err = ours.Sessions().Find(t.Context(), repo.SessionKey{Key: "archived"})
	}
	if err == nil {
		_, err = theirs.Sessions().Delete(t.Context(), first.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	added, err := bykey.Of(ours.Sessions(), repo.SessionKey{Key: "k"}).AppendTurn(t.Context(), repo.Turn{Messages: []repo.NewMessage{user("x")}})
	if err != nil || added.SessionID != second.ID {
		t.Errorf("appended to %s, %v, want %s", added.SessionID, err, second.ID)
	}
}
