package failover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// The promises about leases, streams, claims and followers hold across a failover to a
// synchronous replica, too.
// Guarantee: Servers and roles: After a failover tokens are larger, and each plan is completed once.
func TestPromisesAcrossFailover(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	store := pgtest.OpenStore(t, p.url, agentstore.Options{MaxConns: 16})
	session := pgtest.NewSession(t, store)
	if _, err := store.Actions().Create(t.Context(), repo.NewAction{Name: "work", ActionDefinition: repo.ActionDefinition{Reusable: true, MaxAttempts: 1000}}); err != nil {
		t.Fatal(err)
	}
	const plans = 150
	for range plans {
		if _, err := store.Plans().Use(t.Context(), "work", repo.UseAction{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx := await.Context(t)
	var running sync.WaitGroup
	var stop atomic.Bool
	var mu sync.Mutex
	again := func() { time.Sleep(10 * time.Millisecond) } // pace: until the next attempt

	// Leases: tokens are given once, and grow.
	tokens := map[int64]string{}
	var last int64
	key := repo.LeaseKey{Kind: "k", Name: "n"}
	for i := range 6 {
		owner := fmt.Sprint("owner", i)
		running.Go(func() {
			for !stop.Load() {
				mu.Lock()
				before := last
				mu.Unlock()
				lease, err := store.Leases().Acquire(ctx, repo.NewLease{Key: key, Owner: owner, TTL: time.Hour})
				if err != nil {
					again()
					continue
				}
				mu.Lock()
				if other, given := tokens[lease.Fence]; given && other != owner {
					t.Errorf("token %d was given to %s and %s", lease.Fence, other, owner)
				}
				if lease.Fence < before {
					t.Errorf("token %d after %d", lease.Fence, before)
				}
				tokens[lease.Fence], last = owner, max(last, lease.Fence)
				mu.Unlock()
				_ = store.Leases().Release(ctx, lease)
			}
		})
	}
	// A stream.
	stream, err := store.Streams().Open(ctx, repo.NewStream{Key: "s", Owner: "o", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var parts int
	running.Go(func() {
		writer := live.NewPartWriter(ctx, store.Streams(), stream)
		for !stop.Load() {
			if err := writer.Write(ctx, fmt.Append(nil, parts)); err != nil {
				t.Errorf("write: %v", err)
				return
			}
			parts++
			time.Sleep(time.Millisecond) // pace: until the next part
		}
		if err := writer.Flush(ctx); err != nil {
			t.Errorf("flush: %v", err)
		}
		for writer.Finish(ctx) != nil && ctx.Err() == nil {
			again()
		}
	})
	var seen int
	running.Go(func() {
		for part, err := range store.Streams().Follow(ctx, "s", repo.StreamPosition{}) {
			if err != nil {
				t.Errorf("follow the stream: %v", err)
				return
			}
			if string(part.Data) != fmt.Sprint(seen) {
				t.Errorf("part %q for %d", part.Data, seen)
				return
			}
			seen++
		}
	})
	// Messages, with a follower.
	w := startWriters(ctx, store, session, 4)
	following, unfollow := context.WithCancel(ctx)
	followed := map[repo.ID]int64{}
	var next int64
	var follower sync.WaitGroup
	follower.Go(func() {
		for message, err := range store.Sessions().Follow(following, session, 0) {
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("follow: %v", err)
				}
				return
			}
			if message.Sequence != next {
				t.Errorf("follow: %d for %d", message.Sequence, next)
			}
			mu.Lock()
			next++
			followed[message.ID] = message.Sequence
			mu.Unlock()
		}
	})
	// Claims.
	claimed := map[repo.ID]int64{}
	done := map[repo.ID]bool{}
	for i := range 4 {
		owner := fmt.Sprint("worker", i)
		running.Go(func() {
			for !stop.Load() {
				mu.Lock()
				before := maps.Clone(claimed) // by calls that returned before this one began
				mu.Unlock()
				// short: what was claimed without an answer expires, whenever that is
				got, err := store.Plans().Claim(ctx, repo.Claim{Owner: owner, TTL: repo.MinLeaseTTL})
				if err != nil || len(got) == 0 {
					if err != nil && !errors.Is(err, repo.ErrUnavailable) && !errors.Is(err, repo.ErrUnknownOutcome) {
						t.Errorf("claim: %v", err)
						return
					}
					again()
					continue
				}
				c := got[0]
				mu.Lock()
				if before[c.Plan.ID] >= c.Lease.Fence {
					t.Errorf("plan claimed with token %d after %d", c.Lease.Fence, before[c.Plan.ID])
				}
				claimed[c.Plan.ID] = max(claimed[c.Plan.ID], c.Lease.Fence)
				mu.Unlock()
				time.Sleep(30 * time.Millisecond) // pace: the work
				_, err = store.Plans().Transition(ctx, c.Plan.ID, repo.TransitionComplete, repo.Cause{Fence: c.Lease.Fence})
				if err == nil {
					mu.Lock()
					if done[c.Plan.ID] {
						t.Errorf("completed twice")
					}
					done[c.Plan.ID] = true
					mu.Unlock()
				}
			}
		})
	}
	w.await(t, 200)
	p.primary.Stop(t, syscall.SIGKILL)
	awaitFailure(t, w)
	p.replica.Promote(t)
	w.await(t, w.count()+200)
	// Not only those of which a worker knows: the answers of some were lost.
	await.For(t, "all plans are completed", func() bool {
		complete, err := store.Plans().List(ctx, repo.PlanFilter{State: repo.PlanComplete}, repo.Page{Limit: plans})
		return err == nil && len(complete.Items) == plans
	})
	stop.Store(true)
	w.end(t)
	running.Wait()
	if got, want := w.inspect(t), (findings{stored: len(w.acknowledged)}); got != want {
		t.Errorf("%d acknowledged, found %+v", len(w.acknowledged), got)
	}
	await.For(t, "the follower has all", func() bool { mu.Lock(); defer mu.Unlock(); return len(followed) == len(w.acknowledged) })
	unfollow()
	follower.Wait()
	for id, at := range w.acknowledged {
		if followed[id] != at {
			t.Errorf("followed at %d, acknowledged at %d", followed[id], at)
		}
	}
	if seen != parts {
		t.Errorf("%d parts written, %d followed", parts, seen)
	}
	t.Logf("%d tokens, %d parts, %d messages, %d claimed, %d done", len(tokens), parts, len(followed), len(claimed), len(done))
}
