package postgres

import (
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A hold is made while a deletion has looked for holds and waits for the session's row. Ours lets the hold wait on the one row that
// both need, and then finds the session gone. The naive way, which looks and then deletes, deletes what is held.
// Guarantee: Deletion: A hold beside a deletion finds the session gone, or keeps it.
func TestHoldBesideDeletion(t *testing.T) {
	t.Parallel()
	for _, naive := range []bool{false, true} {
		databaseURL := pgtest.NewDatabase(t)
		store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
		id := pgtest.NewSession(t, store)
		locker, err := pgtest.Connect(t, databaseURL).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, locker, "SELECT FROM session_counters WHERE session_id = $1 FOR UPDATE", [16]byte(id))
		deleted := make(chan error, 1)
		go func() {
			if !naive {
				_, err := store.Sessions().Delete(t.Context(), id)
				deleted <- err
				return
			}
			var held bool
			err := store.Pool().QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM session_holds WHERE session_id = $1)", [16]byte(id)).Scan(&held)
			if err == nil && !held {
				_, err = store.Pool().Exec(t.Context(), "DELETE FROM sessions WHERE id = $1", [16]byte(id))
			}
			deleted <- err
		}()
		waiting := func(clients int) func() bool {
			return func() bool {
				return pgtest.Value[int](t, store.Pool(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") >= clients
			}
		}
		await.For(t, "the deletion to wait", waiting(1))
		held := make(chan error, 1)
		go func() { held <- store.Sessions().AddHold(t.Context(), repo.LegalHold{SessionID: id, Reason: "x"}) }()
		var hold error
		if naive {
			hold = <-held // nothing keeps it waiting
		} else {
			await.For(t, "the hold to wait", waiting(2))
		}
		if err := locker.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
		if !naive {
			hold = <-held
		}
		_, err = store.Sessions().Get(t.Context(), id)
		if lost := hold == nil && errors.Is(err, repo.ErrNotFound); lost != naive {
			t.Errorf("naive %t: hold %v, session %v", naive, hold, err)
		}
	}
}

// A hold has been made, and is not committed yet, when a plan of the session is deleted: the deletion waits for it, and keeps
// the plan.
func TestPlanDeletionBesideAHold(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store, conn := pgtest.OpenStore(t, databaseURL, agentstore.Options{}), pgtest.Connect(t, databaseURL)
	f := newFamily(t, store)
	session := pgtest.NewSession(t, store)
	plan, err := store.Plans().Use(t.Context(), f.action, repo.UseAction{SessionID: session})
	if err == nil {
		_, err = store.Plans().Transition(t.Context(), plan.ID, repo.TransitionCancel, repo.Cause{Reason: "x"})
	}
	if err != nil {
		t.Fatal(err)
	}
	holder, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := postgres.Bind(holder).Sessions().AddHold(t.Context(), repo.LegalHold{SessionID: session, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	deleted := make(chan error, 1)
	go func() { deleted <- store.Plans().Delete(t.Context(), plan.ID) }()
	await.For(t, "the deletion waits, or has ended", func() bool {
		return len(deleted) > 0 || pgtest.LockWaits(t, store.Pool()) > 0
	})
	if err := holder.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-deleted; !errors.Is(err, repo.ErrConflict) {
		t.Errorf("the deletion beside the hold: %v", err)
	}
	if _, err := store.Plans().Get(t.Context(), plan.ID); err != nil {
		t.Error(err)
	}
}
