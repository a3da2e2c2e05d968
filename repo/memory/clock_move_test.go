package memory

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

var begin = time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)

// newTimed returns a store with a clock of its own.
func newTimed(t *testing.T) (*Store, *Clock) {
	t.Helper()
	clock := NewClock(begin)
	store := NewWith(Options{Clock: clock})
	t.Cleanup(func() { _ = store.Close() })
	return store, clock
}

// What is stored has the clock's time, whatever the process's is.
func TestMovedClockTellsTheTime(t *testing.T) {
	store, clock := newTimed(t)
	sessions, ctx := store.Sessions(), t.Context()
	created, err := sessions.Create(ctx, repo.NewSession{})
	if err != nil || !created.CreatedAt.Equal(begin) || !created.UpdatedAt.Equal(begin) {
		t.Fatalf("created at %v, %v", created.CreatedAt, err)
	}
	clock.Advance(time.Hour)
	messages, err := sessions.Append(ctx, created.ID, user("x"))
	if err != nil || !messages[0].CreatedAt.Equal(begin.Add(time.Hour)) {
		t.Errorf("the message is of %v, %v", messages, err)
	}
	clock.Advance(-2 * time.Hour)
	messages, err = sessions.Append(ctx, created.ID, user("y"))
	if err != nil || !messages[0].CreatedAt.Equal(begin.Add(time.Hour)) {
		t.Errorf("after the clock stepped back the message is of %v, %v", messages, err)
	}
	entries, err := store.Audit().List(ctx, repo.AuditFilter{OldestFirst: true}, repo.Page{})
	if err != nil || len(entries.Items) != 1 || !entries.Items[0].OccurredAt.Equal(begin) {
		t.Errorf("the trail has %+v, %v", entries, err)
	}
}

func TestMovedClockEndsLeases(t *testing.T) {
	store, clock := newTimed(t)
	leases, ctx := store.Leases(), t.Context()
	lease := repo.NewLease{Key: repo.LeaseKey{Kind: "k", Name: "n"}, Owner: "a", TTL: time.Minute}
	if _, err := leases.Acquire(ctx, lease); err != nil {
		t.Fatal(err)
	}
	lease.Owner = "b"
	clock.Advance(time.Minute - time.Microsecond)
	if _, err := leases.Acquire(ctx, lease); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("a microsecond early: %v", err)
	}
	clock.Advance(time.Microsecond)
	if _, err := leases.Acquire(ctx, lease); err != nil {
		t.Error(err)
	}
}

// A follower of a stream that has fallen silent learns that it is gone when the clock says so,
// also if that was moved while the follower was about to wait.
func TestMovedClockWakesFollowers(t *testing.T) {
	for range 100 {
		store, clock := newTimed(t)
		streams, ctx := store.Streams(), t.Context()
		stream, err := streams.Open(ctx, repo.NewStream{Key: "k", Owner: "o", TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			for _, err := range streams.Follow(ctx, "k", repo.StreamPosition{}) {
				if !gone(err) {
					t.Errorf("the follower got %v", err)
				}
			}
		})
		for range 2 {
			clock.Advance(stream.ExpiresAt.Sub(begin) / 2)
		}
		all.Wait()
		if len(clock.alarms) != 0 || len(store.tables.watches) != 0 {
			t.Error("the follower is still waited for")
		}
	}
}

// A claim that waits takes over a plan whose claim has expired, and one whose lease was
// held.
func TestMovedClockWakesClaims(t *testing.T) { synctest.Test(t, testMovedClockWakesClaims) }

func testMovedClockWakesClaims(t *testing.T) {
	for _, held := range []bool{true, false} {
		store, clock := newTimed(t)
		plans, ctx := store.Plans(), t.Context()
		if _, err := store.Actions().Create(ctx, repo.NewAction{Name: "work", ActionDefinition: repo.ActionDefinition{MaxAttempts: 2}}); err != nil {
			t.Fatal(err)
		}
		plan, err := plans.Use(ctx, "work", repo.UseAction{})
		if err != nil {
			t.Fatal(err)
		}
		if held {
			_, err = store.Leases().Acquire(ctx, repo.NewLease{Key: repo.PlanLease(plan.ID), Owner: "a", TTL: time.Minute})
		} else {
			_, err = plans.Claim(ctx, repo.Claim{Owner: "a", TTL: time.Minute})
		}
		if err != nil {
			t.Fatal(err)
		}
		claimed := make(chan error, 1)
		go func() {
			got, err := plans.Claim(ctx, repo.Claim{Owner: "b", TTL: time.Minute, Wait: true})
			if err == nil && (len(got) != 1 || got[0].Plan.ID != plan.ID) {
				err = errors.New("claimed another plan")
			}
			claimed <- err
		}()
		synctest.Wait()
		clock.Advance(time.Minute - time.Microsecond)
		synctest.Wait()
		select {
		case err := <-claimed:
			t.Fatalf("held %t: claimed too early: %v", held, err)
		default:
		}
		clock.Advance(time.Microsecond)
		if err := <-claimed; err != nil {
			t.Errorf("held %t: %v", held, err)
		}
	}
}

func gone(err error) bool {
	_, is := errors.AsType[*repo.NotFoundError](err)
	return is
}
