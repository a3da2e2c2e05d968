package memory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// In a bubble whatever waits in the store is durably blocked, and time passes when all do:
// followers, claims, writers that wait for a transaction, and what runs on top of the store.
func TestSynctest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ctx := New(), t.Context()
		defer func() { _ = store.Close() }()
		begun := time.Now()
		id := newSession(t, store)

		// A follower waits for a message.
		followed := make(chan time.Duration, 1)
		go func() {
			for m, err := range store.Sessions().Follow(ctx, id, 0) {
				if err != nil {
					t.Error(err)
				}
				followed <- m.CreatedAt.Sub(begun)
				return
			}
		}()
		time.Sleep(time.Minute)
		// A writer waits for a transaction.
		err := store.InTx(ctx, func(context.Context, repo.Repositories) error {
			go func() {
				if _, err := store.Sessions().Append(ctx, id, user("x")); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			time.Sleep(time.Minute)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := <-followed; got != 2*time.Minute {
			t.Errorf("the follower got a message %v after the beginning", got)
		}

		// A stream expires, and its follower is told then.
		stream, err := store.Streams().Open(ctx, repo.NewStream{Key: "k", Owner: "o", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range store.Streams().Follow(ctx, "k", repo.StreamPosition{}) {
			if !gone(err) || !time.Now().Equal(stream.ExpiresAt) {
				t.Errorf("at %v the follower got %v", time.Now(), err)
			}
		}

		// A lease that is held is renewed, and one that is not expires.
		held, err := repo.HoldLease(ctx, store, repo.NewLease{Key: repo.LeaseKey{Kind: "k", Name: "n"}, Owner: "o", TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if err := errors.Join(held.Err(), held.Release(ctx)); err != nil {
			t.Error(err)
		}
		if _, err := store.Actions().Create(ctx, repo.NewAction{Name: "work", ActionDefinition: repo.ActionDefinition{MaxAttempts: 3}}); err != nil {
			t.Fatal(err)
		}
		plan, err := store.Plans().Use(ctx, "work", repo.UseAction{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Plans().Claim(ctx, repo.Claim{Owner: "dies", TTL: time.Minute}); err != nil {
			t.Fatal(err)
		}
		claimed := time.Now()
		lasts, stop := context.WithCancel(ctx)
		err = repo.Work(lasts, store, repo.Claim{Owner: "lives", TTL: time.Minute}, func(_ context.Context, got repo.ClaimedPlan) error {
			if got.Plan.ID != plan.ID || time.Since(claimed) != time.Minute {
				t.Errorf("after %v the plan %v was claimed", time.Since(claimed), got.Plan.ID)
			}
			stop()
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
