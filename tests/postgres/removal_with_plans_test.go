package postgres

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/retention"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// A session is deleted with its plans, beside uses and a link that add some, workers that claim and complete them, and a caller that
// cancels and deletes them: afterwards none that was linked is live, nor anything below one, and the plans of others are as they were.
//
// Guarantee: Deletion: With DeleteWithPlans no plan of a deleted session is live.
func TestDeleteWithPlans(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"memory://" + t.Name(), pgtest.NewDatabase(t)} {
		store := openWithPay(t, url)
		others := usePay(t, store, repo.UseAction{SessionID: pgtest.NewSession(t, store)})
		for round := range 8 {
			deleteWithPlans(t, store, round)
			if t.Failed() {
				t.Fatalf("round %d on %.8s", round, url)
			}
		}
		if kept, err := store.Plans().Get(t.Context(), others.ID); err != nil || !kept.Live() {
			t.Errorf("another session's plan: %+v, %v", kept, err)
		}
	}
}

// openWithPay opens a store that has the action "pay".
func openWithPay(t *testing.T, url string) *agentstore.Store {
	t.Helper()
	store := pgtest.OpenStore(t, url, agentstore.Options{MaxConns: 8})
	action := repo.NewAction{Name: "pay", ActionDefinition: repo.ActionDefinition{Reusable: true}}
	if _, err := store.Actions().Create(t.Context(), action); err != nil {
		t.Fatal(err)
	}
	return store
}

func usePay(t *testing.T, store repo.Store, use repo.UseAction) repo.Plan {
	plan, err := store.Plans().Use(t.Context(), "pay", use)
	if err != nil {
		t.Error(err)
	}
	return plan
}

func deleteWithPlans(t *testing.T, store *agentstore.Store, round int) {
	ctx, session := t.Context(), pgtest.NewSession(t, store)
	var mu sync.Mutex
	var made []repo.ID
	use := func(use repo.UseAction) {
		plan, err := store.Plans().Use(ctx, "pay", use)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			made = append(made, plan.ID)
		} else if !errors.Is(err, repo.ErrNotFound) {
			t.Error(err)
		}
	}
	for range 3 {
		use(repo.UseAction{SessionID: session})
	}
	use(repo.UseAction{ParentID: made[0]})
	child := made[len(made)-1] // which has no link
	loose := usePay(t, store, repo.UseAction{})
	var all sync.WaitGroup
	all.Go(func() {
		for range 10 {
			use(repo.UseAction{SessionID: session})
		}
	})
	linked := false
	all.Go(func() {
		err := store.Plans().Link(ctx, session, loose.ID)
		if linked = err == nil; err != nil && !errors.Is(err, repo.ErrNotFound) {
			t.Error(err)
		}
	})
	all.Go(func() {
		owner := fmt.Sprint("worker ", round)
		for range 10 {
			claimed, err := store.Plans().Claim(ctx, repo.Claim{Owner: owner, Limit: 2})
			if err != nil {
				t.Error(err)
			}
			for _, c := range claimed {
				_, err := store.Plans().Transition(ctx, c.Plan.ID, repo.TransitionComplete, repo.Cause{Fence: c.Lease.Fence})
				_, conflict := errors.AsType[*repo.TransitionConflictError](err)
				_, fenced := errors.AsType[*repo.FencedError](err)
				if err != nil && !conflict && !fenced && !errors.Is(err, repo.ErrNotFound) { // another caller has deleted it
					t.Error(err)
				}
			}
		}
	})
	all.Go(func() {
		for i := range 10 {
			mu.Lock()
			id := made[i%len(made)]
			mu.Unlock()
			// It may be ended, or gone, by then.
			_, _ = store.Plans().Transition(ctx, id, repo.TransitionCancel, repo.Cause{Reason: "by another caller"})
			_ = store.Plans().Delete(ctx, id)
		}
	})
	var deleted repo.DeletedSession
	all.Go(func() {
		var err error
		if deleted, err = retention.DeleteWithPlans(ctx, store, session, repo.Cause{Actor: "ann", Reason: "the conversation was deleted"}); err != nil {
			t.Error(err)
		}
	})
	all.Wait()
	if linked {
		made = append(made, loose.ID)
	}
	for _, id := range made {
		plan, err := store.Plans().Get(ctx, id)
		if gone := errors.Is(err, repo.ErrNotFound); !gone && (err != nil || plan.Live()) {
			t.Errorf("a plan of the session is %s/%s, %v", plan.Phase, plan.State, err)
		}
		if named := slices.ContainsFunc(deleted.Plans, func(p repo.LinkedPlan) bool { return p.ID == id }); err == nil && id != child && !named {
			t.Errorf("the deletion does not name %s", id)
		}
	}
}

// What DeleteWithPlans refuses leaves the session and its plans as they are.
func TestDeleteWithPlansRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"memory://" + t.Name(), pgtest.NewDatabase(t)} {
		store := openWithPay(t, url)
		session := pgtest.NewSession(t, store)
		plan := usePay(t, store, repo.UseAction{SessionID: session})
		good := repo.Cause{Reason: "deleted"}
		for name, try := range map[string]func() error{
			"no reason": func() error { return second(retention.DeleteWithPlans(t.Context(), store, session, repo.Cause{})) },
			"a version": func() error {
				return second(retention.DeleteWithPlans(t.Context(), store, session, repo.Cause{Reason: "x", Version: 1}))
			},
			"a final": func() error {
				return second(retention.DeleteWithPlans(t.Context(), store, session, repo.Cause{Reason: "x", Final: true}))
			},
			"in use": func() error {
				return second(retention.DeleteWithPlans(t.Context(), store, session, good, repo.DeleteIf{IdleSince: plan.CreatedAt.AddDate(1, 0, 0)}))
			},
			"an old one": func() error {
				return second(retention.DeleteWithPlans(t.Context(), store, session, good, repo.DeleteIf{Version: 7}))
			},
			"none": func() error { return second(retention.DeleteWithPlans(t.Context(), store, repo.NewID(), good)) },
		} {
			if err := try(); err == nil {
				t.Errorf("%s is taken", name)
			}
		}
		if found, err := store.Sessions().Get(t.Context(), session); err != nil || len(found.Plans) != 1 {
			t.Errorf("%+v, %v", found, err)
		}
		if found, err := store.Plans().Get(t.Context(), plan.ID); err != nil || found.Version != plan.Version {
			t.Errorf("%+v, %v", found, err)
		}
	}
}

// The naive way, which cancels the plans that a session has, and then deletes it, misses one that comes in between.
func TestCancelThenDeleteMissesAPlan(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"memory://" + t.Name(), pgtest.NewDatabase(t)} {
		store := openWithPay(t, url)
		id := pgtest.NewSession(t, store)
		usePay(t, store, repo.UseAction{SessionID: id})
		session, err := store.Sessions().Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, plan := range session.Plans {
			if _, err := store.Plans().Transition(t.Context(), plan.ID, repo.TransitionCancel, repo.Cause{Reason: "deleted"}); err != nil {
				t.Fatal(err)
			}
		}
		late := usePay(t, store, repo.UseAction{SessionID: id})
		if _, err := store.Sessions().Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if late, err = store.Plans().Get(t.Context(), late.ID); err != nil || !late.Live() {
			t.Errorf("the naive way does not miss it: %+v, %v", late.Stage, err)
		}
	}
}
