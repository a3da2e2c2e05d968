package agentstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

// maker counts the values that a registry makes and closes.
type maker struct {
	made, closed atomic.Int64
	delay        time.Duration
	err          error
}

func (m *maker) create(ctx context.Context) (int64, error) {
	select {
	case <-time.After(m.delay):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if m.err != nil {
		return 0, m.err
	}
	return m.made.Add(1), nil
}

func (m *maker) destroy(int64) { m.closed.Add(1) }

func TestRegistryMakesOneForAllAndClosesWithTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r registry[int64]
		m := &maker{delay: time.Second}
		var wg sync.WaitGroup
		releases := make(chan func(), 200)
		for range 200 {
			wg.Go(func() {
				value, release, err := r.open(t.Context(), "key", m.create, m.destroy)
				if err != nil || value != 1 {
					t.Errorf("open: %d, %v", value, err)
					return
				}
				releases <- release
			})
		}
		wg.Wait()
		close(releases)
		for release := range releases {
			if m.closed.Load() != 0 {
				t.Fatal("closed before the last release")
			}
			release()
			release() // the second call does nothing
		}
		if m.made.Load() != 1 || m.closed.Load() != 1 {
			t.Fatalf("made %d, closed %d", m.made.Load(), m.closed.Load())
		}
		// The next call makes a new value.
		value, release, err := r.open(t.Context(), "key", m.create, m.destroy)
		if err != nil || value != 2 {
			t.Fatalf("open again: %d, %v", value, err)
		}
		release()
		if len(r.entries) != 0 {
			t.Fatalf("%d entries left", len(r.entries))
		}
	})
}

// The naive implementation looks up, makes and inserts a value without a lock around
// all three. The same number of callers as above makes several values.
func TestRegistryNaiveMakesSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &maker{delay: time.Second}
		var entries sync.Map // safe by itself: only the lock is missing
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				if _, found := entries.Load("key"); !found {
					value, _ := m.create(t.Context())
					entries.Store("key", value)
				}
			})
		}
		wg.Wait()
		if m.made.Load() < 2 {
			t.Fatalf("the naive registry made %d: the harness does not catch it", m.made.Load())
		}
	})
}

func TestRegistryForgetsAFailure(t *testing.T) {
	var r registry[int64]
	failure := errors.New("no")
	m := &maker{err: failure}
	if _, _, err := r.open(t.Context(), "key", m.create, m.destroy); !errors.Is(err, failure) {
		t.Fatalf("got %v", err)
	}
	m.err = nil
	_, release, err := r.open(t.Context(), "key", m.create, m.destroy)
	if err != nil {
		t.Fatal(err)
	}
	release()
}

func TestRegistryFirstOpenersContextFailsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r registry[int64]
		m := &maker{delay: time.Second}
		first, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := r.open(first, "key", m.create, m.destroy); !errors.Is(err, context.Canceled) {
				t.Errorf("first: %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			_, release, err := r.open(t.Context(), "key", m.create, m.destroy)
			if err != nil {
				t.Errorf("second: %v", err)
				return
			}
			release()
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		synctest.Wait()
		if m.made.Load() != 1 || m.closed.Load() != 1 {
			t.Fatalf("made %d, closed %d", m.made.Load(), m.closed.Load())
		}
	})
}

func TestRegistryGivesUpAMakingNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r registry[int64]
		m := &maker{delay: time.Hour}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := r.open(ctx, "key", m.create, m.destroy); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		synctest.Wait() // until the goroutine of create has ended; synctest fails if one is left
		if m.made.Load() != m.closed.Load() || len(r.entries) != 0 {
			t.Fatalf("made %d, closed %d, %d entries", m.made.Load(), m.closed.Load(), len(r.entries))
		}
	})
}
