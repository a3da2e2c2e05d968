package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

// An item is processed at once if no other waits.
func TestNobodyWaitsForATimer(t *testing.T) {
	inWorld(t, 1, 1, roomy(), func(w *world) {
		w.one("a", 1).wants(t, nil)
		if took := time.Since(begin); took != w.groupTakes {
			t.Errorf("it took %v", took)
		}
	})
}

// Waiting items are processed together, and those of a key in order.
func TestGroups(t *testing.T) {
	inWorld(t, 1, 0, roomy(), func(w *world) {
		var calls []*pending
		for i := range 30 {
			calls = append(calls, w.one(name(i%3), i))
		}
		all(t, calls)
		if len(w.batches) != 2 || len(w.batches[0]) != 1 || len(w.batches[1]) != 29 {
			t.Errorf("groups of %v", w.batches)
		}
	})
}

// A key with many items has only its share of each group, so that another key waits for
// one group at most.
func TestTurns(t *testing.T) {
	limits := roomy()
	limits.Items = 10_000
	inWorld(t, 1, 0, limits, func(w *world) {
		calls := []*pending{w.one("under way", 0)} // the items below wait together
		for i := range 500 {
			calls = append(calls, w.one("busy", i))
		}
		quiet := w.one("quiet", 0)
		quiet.wants(t, nil)
		// The group under way, and one more.
		if took := time.Since(begin); took > 2*w.groupTakes {
			t.Errorf("the quiet key waited %v", took)
		}
		all(t, calls)
		if got := w.order("busy"); !slices.IsSorted(got) || len(got) != 500 {
			t.Errorf("%d in the order %v", len(got), got)
		}
	})
}

// An item that is larger than a group's limits has a batch of its own, so that it neither
// delays other items nor makes them fail.
func TestLargeGoesAlone(t *testing.T) {
	for _, large := range []Size{{1, 5000}, {500, 1}} {
		inWorld(t, 1, 0, roomy(), func(w *world) {
			calls := []*pending{
				w.one("first", 0), // a group of its own
				w.one("a", 0), w.one("b", 0), w.submit("large", 0, large), w.one("c", 0),
				w.one("large", 1), w.submit("b", 1, large),
			}
			all(t, calls)
			want := [][]string{{"first"}, {"a", "b"}, {"large"}, {"c"}, {"b"}, {"large"}}
			if !slices.EqualFunc(w.batches, want, slices.Equal[[]string]) {
				t.Errorf("%v: groups of %v, want %v", large, w.batches, want)
			}
		})
	}
}

// A group is bounded by rows and by bytes. An item that is larger goes alone.
func TestGroupLimits(t *testing.T) {
	for name, size := range map[string]Size{"rows": {40, 1}, "bytes": {1, 400}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, 0, roomy(), func(w *world) {
				calls := []*pending{w.one("first", 0)}
				for i := range 9 {
					calls = append(calls, w.submit(fmt.Sprint(i), i, size))
				}
				calls = append(calls, w.submit("large", 0, Size{1000, 10_000}), w.one("last", 0))
				all(t, calls)
				for _, group := range w.batches {
					if len(group) > 3 {
						t.Errorf("a group of %v", group)
					}
				}
			})
		})
	}
}

// Callers beyond the room wait for it, their keys in turn, and callers beyond those that
// may wait are refused. An item that is larger than the room has it alone.
func TestRoom(t *testing.T) {
	for name, c := range map[string]struct {
		limit func(*Limits)
		size  Size
	}{
		"items": {func(l *Limits) { l.Items = 5 }, Size{1, 1}},
		"rows":  {func(l *Limits) { l.Rows = 50 }, Size{10, 1}},
		"bytes": {func(l *Limits) { l.Bytes = 50 }, Size{1, 10}},
	} {
		t.Run(name, func(t *testing.T) {
			limits := roomy()
			c.limit(&limits)
			limits.Callers = 3
			inWorld(t, 1, 0, limits, func(w *world) {
				calls := []*pending{w.submit("under way", 0, c.size)}
				for i := range 8 {
					calls = append(calls, w.submit("a", i, c.size))
				}
				if w.s.free.items != 5 || w.s.free.callers != 3 {
					t.Errorf("%d wait inside, %d outside", w.s.free.items, w.s.free.callers)
				}
				w.submit("a", 99, c.size).wants(t, ErrFull)
				w.submit("b", 99, c.size).wants(t, ErrFull)
				all(t, calls)
				w.submit("large", 0, Size{1_000_000, 1_000_000}).wants(t, nil)
			})
		})
	}
}

// Callers that wait for room get in by turns of their keys, and in order for each key.
func TestRoomHasTurns(t *testing.T) {
	limits := roomy()
	limits.Items, limits.GroupRows = 1, 1
	inWorld(t, 1, 0, limits, func(w *world) {
		calls := []*pending{w.one("under way", 0), w.one("inside", 0)}
		for i := range 20 {
			calls = append(calls, w.one("busy", i))
		}
		calls = append(calls, w.one("quiet", 0))
		all(t, calls)
		at := slices.IndexFunc(w.log, func(e entry) bool { return e.key == "quiet" })
		if at > 4 {
			t.Errorf("the quiet key was number %d", at)
		}
	})
}

// The room of a withdrawn item is free at once, wherever it waited.
func TestWithdraw(t *testing.T) {
	limits := roomy()
	limits.Items = 2
	inWorld(t, 1, 0, limits, func(w *world) {
		under := w.one("a", 0)
		first, second := w.one("b", 0), w.one("b", 1)
		outside, next := w.one("b", 2), w.one("c", 0)
		if w.s.free.items != 2 || w.s.free.callers != 2 {
			t.Fatalf("%d inside, %d outside", w.s.free.items, w.s.free.callers)
		}
		outside.cancel()
		outside.wants(t, ErrWithdrawn)
		if w.s.free.callers != 1 {
			t.Errorf("%d outside", w.s.free.callers)
		}
		first.cancel()
		first.wants(t, ErrWithdrawn)
		if w.s.free.items != 2 || w.s.free.callers != 0 || w.s.free.bytes != 2 || w.s.free.rows != 2 {
			t.Errorf("%d inside, %d outside, %d bytes", w.s.free.items, w.s.free.callers, w.s.free.bytes)
		}
		under.cancel()
		under.wants(t, ErrLeft)
		second.wants(t, nil)
		next.wants(t, nil)
		if got := w.order("b"); !slices.Equal(got, []int{1}) {
			t.Errorf("carried out: %v", got)
		}
	})
}

// Submit does nothing if the context has ended. An item that it submitted nevertheless
// might be withdrawn in time, so the test makes many attempts, in parallel.
func TestEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var carried atomic.Int64
	s := New(Config[int, int]{Limits: roomy(), Groups: 4, Group: func(b *Batch[int, int]) {
		for _, task := range b.Tasks {
			carried.Add(1)
			b.Done(task)
		}
	}})
	var callers sync.WaitGroup
	for caller := range 4 {
		callers.Go(func() {
			for range 50_000 {
				if err := s.Submit(ctx, caller, 0, Size{1, 1}); !errors.Is(err, ErrWithdrawn) {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	callers.Wait()
	s.Close()
	if n := carried.Load(); n > 0 {
		t.Errorf("%d were carried out", n)
	}
}

// A batch's context ends with that of its last caller, and not before.
func TestBatchIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 1)
		s := New(Config[string, int]{Limits: roomy(), Groups: 1, Group: func(b *Batch[string, int]) {
			start := time.Now()
			select {
			case <-b.Context().Done():
			case <-time.After(time.Hour):
			}
			ended <- time.Since(start)
			for _, task := range b.Tasks {
				b.Done(task)
			}
		}})
		for _, after := range []time.Duration{time.Second, 3 * time.Second, 2 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			go func() { _ = s.Submit(ctx, fmt.Sprint(after), 0, Size{1, 1}) }()
			synctest.Wait()
		}
		<-ended // the first caller's own group
		if took := <-ended; took != 2*time.Second {
			t.Errorf("the second group was cancelled after %v", took)
		}
		s.Close()
	})
}

// A caller whose context ends while its item is carried out stays for the answer, until the batch
// puts the item back, or for Settle at most. One whose item is not sent leaves at once, and those of
// a batch that waits are not waited for.
func TestStay(t *testing.T) {
	for _, test := range []struct {
		name           string
		sent           bool
		takes          time.Duration
		puts           bool
		want           error
		after          time.Duration
		cancelledAfter time.Duration
	}{
		{"answered", true, 300 * time.Millisecond, false, nil, 300 * time.Millisecond, 0},
		{"put back", true, 300 * time.Millisecond, true, ErrWithdrawn, 300 * time.Millisecond, 0},
		{"too long", true, time.Minute, false, ErrLeft, time.Second, time.Second},
		{"not sent", false, time.Minute, false, ErrLeft, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, cancelled, done := time.Now(), time.Duration(-1), 0
				s := New(Config[string, int]{
					Limits: roomy(), Groups: 1, Sent: func(int) bool { return test.sent }, Settle: time.Second,
					Group: func(b *Batch[string, int]) {
						select {
						case <-b.Context().Done():
							cancelled = time.Since(start)
						case <-time.After(test.takes):
						}
						for _, task := range b.Tasks {
							if done++; test.puts && cancelled < 0 {
								b.Return(task)
							} else {
								b.Done(task)
							}
						}
					},
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
				defer cancel()
				err := s.Submit(ctx, "a", 0, Size{1, 1})
				if took := time.Since(start).Round(time.Millisecond); !errors.Is(err, test.want) || took != test.after {
					t.Errorf("%v after %v, want %v after %v", err, took, test.want, test.after)
				}
				s.Close()
				if cancelled = cancelled.Round(time.Millisecond); errors.Is(test.want, ErrLeft) && cancelled != test.cancelledAfter {
					t.Errorf("the batch was cancelled after %v, want %v", cancelled, test.cancelledAfter)
				}
				if done != 1 {
					t.Errorf("it was in %d batches", done)
				}
			})
		})
	}
}

// The tasks that a batch returns are first in their queue again, in order.
func TestReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []int
		s := New(Config[string, int]{Limits: roomy(), Groups: 1, Group: func(b *Batch[string, int]) {
			time.Sleep(time.Millisecond)
			order = append(order, b.Tasks[0].Item)
			b.Done(b.Tasks[0])
			for _, task := range b.Tasks[1:] {
				b.Return(task)
			}
		}})
		for i := range 10 {
			go func() { _ = s.Submit(t.Context(), "a", i, Size{1, 1}) }()
			synctest.Wait()
		}
		s.Close()
		if !slices.Equal(order, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
			t.Errorf("order %v", order)
		}
		if s.apart.items != 0 || len(s.tries.heap) != 0 {
			t.Error("what was given back is locked")
		}
		if took := time.Since(s.start); took != 10*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// Close waits for all submitted items, also those of locked keys, and refuses later ones.
func TestClose(t *testing.T) {
	inWorld(t, 1, 1, roomy(), func(w *world) {
		w.hold("a", "b")
		calls := []*pending{w.one("a", 0), w.one("b", 0), w.one("c", 0), w.one("c", 1)}
		w.sleep(10 * time.Millisecond)
		closed := make(chan struct{})
		go func() {
			w.s.Close()
			close(closed)
		}()
		synctest.Wait()
		w.one("d", 0).wants(t, ErrClosed)
		w.sleep(time.Second)
		select {
		case <-closed:
			t.Error("closed while items are locked")
		default:
		}
		w.release("a", "b")
		<-closed
		all(t, calls)
	})
}

// While keys are locked and released, and items withdrawn, at random, the items of each
// key are processed in order and once, unless withdrawn, and every caller gets an answer.
func TestRandom(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			limits := Limits{
				GroupRows: 1 + random.IntN(20), GroupBytes: 1 + random.IntN(200), ShareRows: 1 + random.IntN(5),
				Items: 1 + random.IntN(20), Rows: 1 + random.IntN(50), Bytes: 1 + random.IntN(500), Callers: 10_000,
			}
			inWorld(t, 1+random.IntN(4), random.IntN(3), limits, func(w *world) {
				type call struct {
					*pending
					key  string
					item int
				}
				var calls []call
				for item := 10_000; item < 10_600; item += 2 {
					key := name(random.IntN(8))
					if random.IntN(3) == 0 {
						item |= 1 // it shares something
					} else {
						item &^= 1
					}
					calls = append(calls, call{w.submit(key, item, Size{1 + random.IntN(4), random.IntN(60)}), key, item})
					switch random.IntN(8) {
					case 0:
						if key := name(random.IntN(8)); w.locked[key] == nil {
							w.hold(key)
						}
					case 1:
						w.release(name(random.IntN(8)))
					case 2:
						calls[random.IntN(len(calls))].cancel()
					case 3:
						time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
					}
				}
				for i := range 8 {
					w.release(name(i))
				}
				carried := map[string]map[int]bool{}
				answers := make([]error, len(calls))
				for i, c := range calls {
					answers[i] = <-c.answer
				}
				w.sleep(time.Second) // the remaining items are processed
				for _, e := range w.log {
					if carried[e.key] == nil {
						carried[e.key] = map[int]bool{}
					}
					carried[e.key][e.item] = true
				}
				for i, c := range calls {
					done := carried[c.key][c.item]
					switch err := answers[i]; {
					case err == nil:
						if !done {
							t.Errorf("%d was answered and not carried out", c.item)
						}
					case errors.Is(err, ErrWithdrawn):
						if done {
							t.Errorf("%d was withdrawn and carried out", c.item)
						}
					case !errors.Is(err, ErrLeft):
						t.Errorf("%d: %v", c.item, answers[i])
					}
				}
			})
		})
	}
}

// Items that share something have a group of their own. At most one is under way, and it
// delays no other item, however long it takes. The items of a key keep their order.
func TestShares(t *testing.T) {
	inWorld(t, 1, 0, roomy(), func(w *world) {
		w.groupTakes = time.Hour
		first := w.one("a", 10_001)
		w.groupTakes = time.Millisecond
		second, third := w.one("b", 10_003), w.one("c", 10_005)
		behind, other := w.one("b", 10_004), w.one("d", 1)
		other.wants(t, nil)
		w.sleep(time.Minute)
		for _, p := range []*pending{first, second, third, behind} {
			p.waits(t)
		}
		w.sleep(time.Hour)
		all(t, []*pending{first, second, third, behind})
		w.mu.Lock()
		defer w.mu.Unlock()
		want := [][]string{{"a"}, {"d"}, {"b", "c"}, {"b"}}
		if !reflect.DeepEqual(w.batches, want) {
			t.Errorf("the groups are %v, want %v", w.batches, want)
		}
	})
}

// If the item that shares something is withdrawn, the next one of its key does not wait
// for the group of those that do.
func TestSharesNoMore(t *testing.T) {
	inWorld(t, 1, 0, roomy(), func(w *world) {
		w.groupTakes = time.Hour
		first := w.one("a", 10_001)
		w.groupTakes = time.Millisecond
		second := w.one("b", 10_003)
		behind := w.one("b", 10_004)
		second.cancel()
		second.wants(t, ErrWithdrawn)
		behind.wants(t, nil)
		first.waits(t)
		w.sleep(time.Hour)
		first.wants(t, nil)
	})
}

// A locked key whose item shares something gets a batch of Wait, too.
func TestLockedShares(t *testing.T) {
	inWorld(t, 1, 1, roomy(), func(w *world) {
		w.hold("a")
		first, other := w.one("a", 10_001), w.one("b", 10_003)
		other.wants(t, nil)
		w.sleep(time.Second)
		first.waits(t)
		w.release("a")
		first.wants(t, nil)
	})
}

// An item that is done at the moment at which its caller's context ends was processed.
func TestAnsweredAtTheSameMoment(t *testing.T) {
	inWorld(t, 1, 0, roomy(), func(w *world) {
		answered := &Task[string, int]{Key: "a", done: make(chan struct{})}
		answered.batch = w.s.newBatch()
		defer answered.batch.cancel()
		close(answered.done)
		if err := w.s.withdraw(answered); err != nil {
			t.Errorf("it was carried out, and Submit would give %v", err)
		}
	})
}

// An item that fits into the remaining room waits behind those that came before it:
// otherwise a large item could wait forever.
func TestSmallItemsDoNotPassLargeOnes(t *testing.T) {
	limits := roomy()
	limits.Rows = 10
	inWorld(t, 1, 0, limits, func(w *world) {
		calls := []*pending{
			w.one("under way", 0), w.submit("a", 0, Size{6, 1}), w.submit("large", 0, Size{8, 1}), w.submit("small", 0, Size{1, 1}),
		}
		w.look(func(s *Scheduler[string, int]) {
			if s.free.items != 1 || s.free.callers != 2 {
				t.Errorf("%d inside, %d outside", s.free.items, s.free.callers)
			}
		})
		all(t, calls)
	})
}

// Close also waits for the items of locked keys between two retries, when no batch is
// under way.
func TestCloseWaitsForTheLocked(t *testing.T) {
	inWorld(t, 1, 0, roomy(), func(w *world) {
		w.hold("a")
		p := w.one("a", 0)
		w.sleep(10 * time.Second)
		closed := false
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.s.Close()
			closed = true
		}()
		w.sleep(10 * time.Second)
		if closed {
			t.Error("closed while an item is locked")
		}
		w.release("a")
		p.wants(t, nil)
		<-ended
	})
}

// A group that is stuck delays the items of other keys only until it is late. Its own keys keep their
// order, and the next groups go on one at a time.
func TestStuckGroup(t *testing.T) {
	for _, groups := range []int{1, 2} { // with one, all wait: the harness sees it
		inWorld(t, groups, 0, roomy(), func(w *world) {
			w.groupTakes = 10 * time.Second
			stuck := w.one("stuck", 0)
			w.groupTakes = time.Millisecond
			later := w.one("stuck", 1)
			begun := time.Now()
			for i := range 20 {
				w.one(name(i), 0).wants(t, nil)
			}
			took := time.Since(begun)
			if soon := took < lateAfter+30*w.groupTakes; soon != (groups == 2) {
				t.Errorf("with %d groups others waited %v", groups, took)
			}
			stuck.wants(t, nil)
			later.wants(t, nil)
			if w.mostGroup != groups {
				t.Errorf("%d groups at once", w.mostGroup)
			}
		})
	}
}

// Items of a key without an order do not wait for one of it that is stuck.
func TestStuckGroupWithoutOrder(t *testing.T) {
	for _, unordered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			takes := 10 * time.Second
			s := New(Config[string, int]{Limits: roomy(), Groups: 2, Unordered: unordered, Group: func(b *Batch[string, int]) {
				wait := takes
				takes = time.Millisecond
				time.Sleep(wait)
				for _, t := range b.Tasks {
					b.Done(t)
				}
			}})
			var all sync.WaitGroup
			submit := func() {
				all.Go(func() {
					if err := s.Submit(t.Context(), "a", 0, Size{1, 1}); err != nil {
						t.Error(err)
					}
				})
				synctest.Wait()
			}
			submit()
			begun := time.Now()
			for range 5 {
				if err := s.Submit(t.Context(), "a", 0, Size{1, 1}); err != nil {
					t.Error(err)
				}
			}
			if soon := time.Since(begun) < lateAfter+10*time.Millisecond; soon != unordered {
				t.Errorf("unordered %v: they waited %v", unordered, time.Since(begun))
			}
			all.Wait()
			s.Close()
			if len(s.queues) > 0 {
				t.Errorf("%d queues are left", len(s.queues))
			}
		})
	}
}
