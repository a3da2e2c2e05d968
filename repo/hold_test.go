package repo

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

// fakeLeases lets a test decide what happens to each call.
type fakeLeases struct {
	Leases
	mu      sync.Mutex
	acquire func() error
	renew   func(ctx context.Context) error
	renewed []time.Time // when renewals began
	ends    chan struct{}
}

func (f *fakeLeases) Acquire(_ context.Context, lease NewLease) (Lease, error) {
	if f.acquire != nil {
		if err := f.acquire(); err != nil {
			return Lease{}, err
		}
	}
	return Lease{Key: lease.Key, Owner: lease.Owner, Fence: 7}, nil
}

func (f *fakeLeases) Renew(ctx context.Context, lease Lease, _ time.Duration) (Lease, error) {
	f.mu.Lock()
	f.renewed = append(f.renewed, time.Now())
	renew := f.renew
	f.mu.Unlock()
	if renew != nil {
		if err := renew(ctx); err != nil {
			return Lease{}, err
		}
	}
	return lease, nil
}

func (f *fakeLeases) Release(context.Context, Lease) error { return nil }

func (f *fakeLeases) Await(ctx context.Context, lease Lease) error {
	select {
	case <-f.ends:
		return &LeaseLostError{Key: lease.Key, Owner: lease.Owner, Fence: lease.Fence}
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fakeLeases) setRenew(renew func(context.Context) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renew = renew
}

// heldFor is what the tests hold, and for how long without being renewed.
var (
	heldLease = NewLease{Key: LeaseKey{Kind: "k", Name: "n"}, Owner: "o", TTL: time.Minute}
	heldFor   = heldLease.TTL - heldLease.TTL/marginPart
)

// holding holds a lease in a bubble, whose time passes only while all goroutines wait.
func holding(t *testing.T, leases *fakeLeases, now func() moment, test func(t *testing.T, h *HeldLease)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h, err := hold(t.Context(), leases, heldLease, now)
		if err != nil {
			t.Fatal(err)
		}
		test(t, h)
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func wantLost(t *testing.T, h *HeldLease, because error) {
	t.Helper()
	if h.Context().Err() == nil {
		t.Fatal("the context has not ended")
	}
	lost, ok := errors.AsType[*LeaseLostError](context.Cause(h.Context()))
	if !ok || lost.Key != heldLease.Key || lost.Owner != heldLease.Owner || lost.Fence != 7 || !errors.Is(lost.Err, because) {
		t.Errorf("the context ended because of %v, want %v", context.Cause(h.Context()), because)
	}
	if err := h.Err(); !errors.Is(err, lost) {
		t.Errorf("Err gave %v", err)
	}
}

func TestHoldRenewsAtAThird(t *testing.T) {
	leases := &fakeLeases{}
	holding(t, leases, clock, func(t *testing.T, h *HeldLease) {
		begin := time.Now()
		time.Sleep(10 * heldLease.TTL)
		if err := h.Context().Err(); err != nil {
			t.Fatal(err)
		}
		if len(leases.renewed) < 29 || len(leases.renewed) > 30 || leases.renewed[0].Sub(begin) != heldLease.TTL/renewPart {
			t.Errorf("renewed %d times, first after %v", len(leases.renewed), leases.renewed[0].Sub(begin))
		}
	})
}

// Where the server is away, or does not answer, or the store does not return, the
// context ends with the life.
// Guarantee: Leases: The context of `HoldLease` ends with the lease, also if the server is away.
func TestHoldOfAServerThatIsAway(t *testing.T) {
	away := errors.New("away")
	for name, renew := range map[string]func(context.Context) error{
		"refuses":        func(context.Context) error { return away },
		"answers nobody": func(ctx context.Context) error { <-ctx.Done(); return away },
		"does not return": func(ctx context.Context) error {
			time.Sleep(10 * heldLease.TTL)
			return away
		},
	} {
		t.Run(name, func(t *testing.T) {
			leases := &fakeLeases{renew: renew}
			holding(t, leases, clock, func(t *testing.T, h *HeldLease) {
				begin := time.Now()
				<-h.Context().Done()
				if after := time.Since(begin); after < heldFor-time.Second || after > heldFor {
					t.Errorf("ended after %v, want %v", after, heldFor)
				}
				if name == "does not return" {
					wantLost(t, h, nil)
				} else {
					wantLost(t, h, away)
				}
			})
		})
	}
}

// One renewal that succeeds in time makes the life whole again.
func TestHoldRecovers(t *testing.T) {
	leases := &fakeLeases{renew: func(context.Context) error { return ErrUnavailable }}
	holding(t, leases, clock, func(t *testing.T, h *HeldLease) {
		time.Sleep(heldFor - 2*time.Second)
		leases.setRenew(nil)
		time.Sleep(10 * heldLease.TTL)
		if err := errors.Join(h.Context().Err(), h.Err()); err != nil {
			t.Error(err)
		}
		if err := h.Release(t.Context()); err != nil || !errors.Is(h.Err(), context.Canceled) {
			t.Errorf("Release gave %v, and then Err %v", err, h.Err())
		}
	})
}

// The life is counted from before the request: an answer that was long under way, as
// from a server whose process was stopped, gives no more than what is left.
func TestHoldCountsFromTheRequest(t *testing.T) {
	slow := func() error { time.Sleep(heldLease.TTL / 2); return nil }
	acquired := 0
	leases := &fakeLeases{
		acquire: func() error { acquired++; return slow() },
		renew:   func(context.Context) error { return ErrUnavailable },
	}
	holding(t, leases, clock, func(t *testing.T, h *HeldLease) {
		begin := time.Now()
		<-h.Context().Done()
		if after, want := time.Since(begin), heldFor-heldLease.TTL/2; after > want || after < want-2*time.Second {
			t.Errorf("ended after %v, want %v", after, want)
		}
		if acquired != 2 { // the second time for a fresher answer
			t.Errorf("acquired %d times", acquired)
		}
	})
	// So does a renewal.
	leases = &fakeLeases{}
	leases.renew = func(context.Context) error {
		leases.setRenew(func(context.Context) error { return ErrUnavailable })
		time.Sleep(heldLease.TTL / 2)
		return nil
	}
	holding(t, leases, clock, func(t *testing.T, h *HeldLease) {
		begin := time.Now()
		<-h.Context().Done()
		if after, want := time.Since(begin), heldLease.TTL/renewPart+heldFor; after != want {
			t.Errorf("ended after %v, want %v", after, want)
		}
	})
	// A renewal that is answered after the life was over does not bring it back.
	leases = &fakeLeases{}
	leases.renew = func(context.Context) error { time.Sleep(heldLease.TTL); return nil }
	holding(t, leases, clock, func(t *testing.T, h *HeldLease) {
		time.Sleep(3 * heldLease.TTL)
		wantLost(t, h, nil)
	})
}

// A process that was stopped is told by the context's Err as soon as it asks, before the
// timers have run; so is a machine whose monotonic clock stood still.
func TestHoldKnowsTheClock(t *testing.T) {
	for name, step := range map[string]struct {
		monotonic, wall time.Duration
		ends            bool
	}{
		"stopped":                   {heldLease.TTL, heldLease.TTL, true},
		"suspended":                 {0, heldLease.TTL, true},
		"stopped, clock set back":   {heldLease.TTL, -time.Hour, true},
		"clock set back":            {0, -time.Hour, false},
		"clock set a little ahead":  {0, time.Second, false},
		"stopped for a little time": {time.Second, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var offset moment
			jumped := func() moment {
				mu.Lock()
				defer mu.Unlock()
				now := clock()
				return moment{now.monotonic + offset.monotonic, now.wall.Add(offset.wall.Sub(time.Time{}))}
			}
			holding(t, &fakeLeases{}, jumped, func(t *testing.T, h *HeldLease) {
				derived, cancel := context.WithCancel(h.Context())
				defer cancel()
				mu.Lock()
				offset = moment{step.monotonic, time.Time{}.Add(step.wall)}
				mu.Unlock()
				if !step.ends {
					time.Sleep(10 * heldLease.TTL)
					if err := h.Context().Err(); err != nil {
						t.Error(err)
					}
					return
				}
				wantLost(t, h, nil) // no time has passed for timers
				<-derived.Done()
			})
		})
	}
}

func TestHoldEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		h, err := hold(ctx, &fakeLeases{}, heldLease, clock)
		if err != nil {
			t.Fatal(err)
		}
		over := errors.New("over")
		cancel(over)
		<-h.ended // without a Release: nothing is left behind
		if err := h.Err(); !errors.Is(err, over) {
			t.Errorf("Err is %v", err)
		}
		if cause := context.Cause(h.Context()); !errors.Is(cause, over) || !errors.Is(h.Context().Err(), context.Canceled) {
			t.Errorf("ended because of %v", cause)
		}
	})
}

// A lease that a slow answer gave is held, although it could not be acquired again for a
// fresher one: an error would leave it behind without a holder.
func TestHoldOfASlowAnswer(t *testing.T) {
	conflict := &LeaseConflictError{Key: heldLease.Key, Holder: "other"}
	for name, again := range map[string]struct {
		slow time.Duration
		err  error
		held bool
	}{
		"away":              {heldLease.TTL / 2, ErrUnavailable, true},
		"in doubt":          {heldLease.TTL / 2, ErrUnknownOutcome, true},
		"away for too long": {heldLease.TTL, ErrUnavailable, false},
		"taken by another":  {heldLease.TTL / 2, conflict, false},
	} {
		t.Run(name, func(t *testing.T) {
			acquired := 0
			leases := &fakeLeases{acquire: func() error {
				if acquired++; acquired > 1 {
					return again.err
				}
				time.Sleep(again.slow)
				return nil
			}}
			synctest.Test(t, func(t *testing.T) {
				h, err := hold(t.Context(), leases, heldLease, clock)
				if !again.held {
					if !errors.Is(err, again.err) {
						t.Errorf("got %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * heldLease.TTL)
				if err := h.Context().Err(); err != nil {
					t.Error(err)
				}
				if err := h.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A renewal that takes longer than the first attempt may is not given up each time.
func TestHoldOfASlowServer(t *testing.T) {
	leases := &fakeLeases{renew: func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(heldLease.TTL / 5):
			return nil
		}
	}}
	holding(t, leases, clock, func(t *testing.T, h *HeldLease) {
		time.Sleep(10 * heldLease.TTL)
		if err := h.Err(); err != nil {
			t.Errorf("lost: %v", err)
		}
	})
}

func TestHoldThatIsNotAcquired(t *testing.T) {
	refused := &LeaseConflictError{Key: heldLease.Key, Holder: "other"}
	_, err := hold(t.Context(), &fakeLeases{acquire: func() error { return refused }}, heldLease, clock)
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}

// The context ends with the lease, long before the next renewal.
func TestHoldThatEnds(t *testing.T) {
	leases := &fakeLeases{ends: make(chan struct{})}
	holding(t, leases, clock, func(t *testing.T, h *HeldLease) {
		close(leases.ends)
		synctest.Wait()
		wantLost(t, h, nil)
	})
}
