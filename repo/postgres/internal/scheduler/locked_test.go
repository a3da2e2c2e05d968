package scheduler

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

// A locked key does not delay other keys, is in one batch at a time, and keeps its order.
func TestLockedKey(t *testing.T) {
	for _, waits := range []int{0, 1, 3} {
		inWorld(t, 1, waits, roomy(), func(w *world) {
			w.hold("locked")
			var behind []*pending
			for i := range 5 {
				behind = append(behind, w.one("locked", i))
			}
			for i := range 50 {
				start := time.Now()
				w.one("other", i).wants(t, nil)
				if took := time.Since(start); took > 2*w.groupTakes {
					t.Errorf("with %d waits another key's item took %v", waits, took)
				}
			}
			behind[0].waits(t)
			w.release("locked")
			start := time.Now()
			all(t, behind)
			if took := time.Since(start); took > longestPause+10*w.groupTakes {
				t.Errorf("with %d waits it took %v to go on", waits, took)
			}
			if got := w.order("locked"); !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
				t.Errorf("order %v", got)
			}
			if w.mostWait > min(waits, 1) {
				t.Errorf("%d batches waited for one key", w.mostWait)
			}
		})
	}
}

// However many keys are locked, no more than the bound have a batch of Wait. Each
// continues soon after it is free, with or without one, and other keys are not delayed.
func TestManyLockedKeys(t *testing.T) {
	const keys = 1000
	for _, waits := range []int{0, 2} {
		limits := roomy()
		limits.GroupRows, limits.Items = 2000, 2000
		inWorld(t, 2, waits, limits, func(w *world) {
			locked := make([]*pending, keys)
			for i := range locked {
				w.hold(name(i))
				locked[i] = w.one(name(i), 0)
			}
			w.sleep(time.Second)
			for i := range 100 {
				start := time.Now()
				w.one("other", i).wants(t, nil)
				if took := time.Since(start); took > 2*w.groupTakes {
					t.Errorf("another key's item took %v", took)
				}
			}
			// Release the last first: the earlier keys have the batches of Wait.
			for i := keys - 1; i >= 0; i -= 100 {
				w.release(name(i))
				start := time.Now()
				locked[i].wants(t, nil)
				if took := time.Since(start); took > longestPause+10*w.groupTakes {
					t.Errorf("%d went on after %v", i, took)
				}
				locked[i] = nil
			}
			for i := range keys {
				w.release(name(i))
			}
			all(t, slices.DeleteFunc(locked, func(p *pending) bool { return p == nil }))
			if w.mostWait > waits {
				t.Errorf("%d waited apart", w.mostWait)
			}
		})
	}
}

// Keys that are locked for long leave the batches of Wait to a key for which others queue,
// and which only a batch of Wait gets.
func TestTurnsToWait(t *testing.T) {
	inWorld(t, 1, 1, roomy(), func(w *world) {
		w.queued = map[string]bool{"queued": true}
		w.hold("a", "b")
		long := []*pending{w.one("a", 0), w.one("b", 0)}
		w.sleep(2 * turnLength)
		for i := range 20 {
			p := w.one("queued", i)
			w.sleep(longestPause)
			select {
			case err := <-p.answer:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Errorf("%d still waits", i)
				p.cancel()
				t.Logf("%d: %v", i, <-p.answer)
			}
		}
		// They get the batch again, each time later, and continue when they are free.
		w.sleep(firstRest)
		// The other one is locked, rests, or is just being retried with a group.
		w.look(func(s *Scheduler[string, int]) {
			if s.waits != 1 || s.locked.length+s.resting.length+s.begun.length != 1 {
				t.Errorf("%d wait, %d are locked, %d rest, %d are tried", s.waits, s.locked.length, s.resting.length, s.begun.length)
			}
		})
		w.sleep(time.Minute)
		w.release("a", "b")
		start := time.Now()
		all(t, long)
		if took := time.Since(start); took > longestPause+10*w.groupTakes {
			t.Errorf("they went on after %v", took)
		}
	})
}

// The items of locked keys take no room from others.
func TestLockedKeysTakeNoRoom(t *testing.T) {
	limits := roomy()
	limits.Items, limits.Callers = 10, 10
	inWorld(t, 1, 1, limits, func(w *world) {
		w.hold("a", "b")
		locked := []*pending{w.one("a", 0), w.one("b", 0)}
		w.sleep(10 * time.Millisecond) // they are known to be locked
		var refused int
		for i := range 40 {
			locked = append(locked, w.one([]string{"a", "b"}[i%2], i+1))
		}
		start := time.Now()
		w.one("other", 0).wants(t, nil)
		if took := time.Since(start); took > 2*w.groupTakes {
			t.Errorf("another key's item took %v", took)
		}
		w.release("a", "b")
		for _, p := range locked {
			if err := <-p.answer; errors.Is(err, ErrFull) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused == 0 || refused > 40-2*10+2 {
			t.Errorf("%d were refused", refused)
		}
	})
}

// A caller whose context ends while its key is locked gets ErrWithdrawn, or ErrLeft if its
// item is in a batch of Wait, which then leaves its place to the next key.
func TestWithdrawLocked(t *testing.T) {
	inWorld(t, 1, 1, roomy(), func(w *world) {
		w.hold("a", "b")
		apart := w.one("a", 0)
		w.sleep(10 * time.Millisecond)
		behind, tried := w.one("a", 1), w.one("b", 0)
		w.sleep(turnLength / 2)
		if w.s.waits != 1 || w.s.locked.length != 1 {
			t.Fatalf("%d wait, %d are locked", w.s.waits, w.s.locked.length)
		}
		behind.cancel()
		behind.wants(t, ErrWithdrawn)
		apart.cancel()
		apart.wants(t, ErrLeft)
		w.sleep(10 * time.Millisecond)
		if w.s.waits != 1 || w.s.locked.length != 0 {
			t.Errorf("%d wait, %d are locked", w.s.waits, w.s.locked.length)
		}
		tried.cancel()
		tried.wants(t, ErrLeft)
		w.sleep(10 * time.Millisecond)
		if len(w.s.queues) != 0 || w.s.apart.items != 0 {
			t.Errorf("%d keys, %d items are left", len(w.s.queues), w.s.apart.items)
		}
	})
}

// An item that is withdrawn between two retries leaves nothing behind.
func TestWithdrawBetweenTries(t *testing.T) {
	inWorld(t, 1, 0, roomy(), func(w *world) {
		w.hold("a")
		p := w.one("a", 0)
		w.sleep(330 * time.Millisecond)
		p.waits(t)
		p.cancel()
		p.wants(t, ErrWithdrawn)
		if len(w.s.queues) != 0 || len(w.s.tries.heap) != 0 || w.s.apart.items != 0 {
			t.Error("something is left")
		}
		tries := w.groups()
		w.sleep(time.Second)
		if w.groups() != tries {
			t.Error("it is tried on")
		}
	})
}

// The pauses between retries grow, so that a key that is locked for long costs little.
func TestPauses(t *testing.T) {
	inWorld(t, 1, 0, roomy(), func(w *world) {
		w.hold("a")
		p := w.one("a", 0)
		w.sleep(100 * time.Millisecond)
		early := w.groups()
		w.sleep(time.Minute)
		late := w.groups() - early
		if early < 5 || late > 900 || late < 500 {
			t.Errorf("%d tries in the first 100 ms, %d in a minute", early, late)
		}
		w.release("a")
		p.wants(t, nil)
	})
}

// While MayWait forbids batches of Wait, locked keys are only retried.
func TestMayWait(t *testing.T) {
	inWorld(t, 1, 2, roomy(), func(w *world) {
		var allowed atomic.Bool
		w.s.config.MayWait = allowed.Load
		w.hold("a")
		p := w.one("a", 0)
		w.sleep(300 * time.Millisecond)
		if w.mostWait != 0 {
			t.Error("it waits")
		}
		allowed.Store(true)
		w.sleep(300 * time.Millisecond)
		if w.mostWait != 1 {
			t.Error("it does not wait")
		}
		w.release("a")
		p.wants(t, nil)
	})
}

// A key that another process holds again and again makes progress in between.
func TestContendedKey(t *testing.T) {
	for _, waits := range []int{0, 1} {
		inWorld(t, 1, waits, roomy(), func(w *world) {
			stop := make(chan struct{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for {
					w.hold("a")
					time.Sleep(700 * time.Microsecond)
					w.release("a")
					select {
					case <-stop:
						return
					case <-time.After(300 * time.Microsecond):
					}
				}
			}()
			for i := range 50 {
				w.one("a", i).wants(t, nil)
			}
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("50 items took %v", took)
			}
			close(stop)
			<-ended
			synctest.Wait()
		})
	}
}
