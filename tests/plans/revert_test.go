package plans

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// reverting reverts a cancelled child. An unexpected error ends the test.
type reverting func(ctx context.Context, parent, child repo.ID) error

// orphans repeatedly cancels the parent of a cancelled child while many callers
// revert the child, and returns how many children were live below a cancelled parent
// in the end.
func orphans(t *testing.T, store repo.Store, action string, rounds int, revert reverting) (alive int) {
	t.Helper()
	for range rounds {
		parent, err := store.Plans().Use(t.Context(), action, repo.UseAction{})
		if err != nil {
			t.Fatal(err)
		}
		child, err := store.Plans().Use(t.Context(), action, repo.UseAction{ParentID: parent.ID})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range append(routes[repo.TransitionRevert], repo.TransitionCancel) {
			if _, err := store.Plans().Transition(t.Context(), child.ID, step, repo.Cause{Reason: "way"}); err != nil {
				t.Fatal(err)
			}
		}
		var running sync.WaitGroup
		start := make(chan struct{})
		running.Go(func() {
			<-start
			if _, err := store.Plans().Transition(t.Context(), parent.ID, repo.TransitionCancel, repo.Cause{Reason: "race"}); err != nil {
				t.Error(err)
			}
		})
		for range 4 {
			running.Go(func() {
				<-start
				if err := revert(t.Context(), parent.ID, child.ID); err != nil && !errors.Is(err, repo.ErrConflict) {
					t.Error(err)
				}
			})
		}
		close(start)
		running.Wait()
		after, err := store.Plans().Get(t.Context(), child.ID)
		if err != nil {
			t.Fatal(err)
		}
		if after.Live() {
			alive++
		}
	}
	return alive
}

// No child is live below its cancelled parent, whichever call comes first.
// Guarantee: Plans: No order of reverts and cancellations leaves a cancelled plan a live child.
func TestRevertWhileParentIsCancelled(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	alive := orphans(t, store, newAction(t, store), 60, func(ctx context.Context, _, child repo.ID) error {
		_, err := store.Plans().Transition(ctx, child, repo.TransitionRevert, repo.Cause{})
		return err
	})
	if alive > 0 {
		t.Errorf("%d children are live below their cancelled parents", alive)
	}
}

// An implementation that checks the parent and then moves the child, without the
// tree's lock, leaves some live. The harness finds that.
func TestNaiveRevertIsCaught(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	store := pgtest.OpenStore(t, databaseURL, agentstore.Options{})
	pool := pgtest.NewPool(t, pgtest.ReadCommitted(databaseURL))
	revert := func(ctx context.Context, parent, child repo.ID) error {
		var state repo.PlanState
		if err := pool.QueryRow(ctx, "SELECT state FROM plans WHERE id = $1", pgtype.UUID{Bytes: parent, Valid: true}).Scan(&state); err != nil {
			return err
		}
		if state == repo.PlanCancelled {
			return nil
		}
		_, err := pool.Exec(ctx, `UPDATE plans SET phase = 'strategize', state = 'queued', version = version + 1, cancelled_at = NULL, cancel_reason = NULL
			WHERE id = $1 AND state = 'cancelled'`, pgtype.UUID{Bytes: child, Valid: true})
		return err
	}
	action := newAction(t, store)
	await.For(t, "a child is live below its cancelled parent", func() bool { return orphans(t, store, action, 1, revert) > 0 })
}
