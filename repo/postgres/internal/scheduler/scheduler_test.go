package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// An item that finds nobody goes at once.
func TestNobodyWaitsForATimer(t *testing.T) {
	inWorld(t, 1, 1, roomy(), func(w *world) {
		w.one("a", 1).wants(t, nil)
		if took := time.Since(begin); took != w.groupTakes {
			t.Errorf("it took %v", took)
		}
	})
}

// What waits goes together, and nothing of a key before what came earlier.
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

// A key with thousands of items has its share of each group, so that another
// waits for one group at the most.
func TestTurns(t *testing.T) {
	limits := roomy()
	limits.Items = 10_000
	inWorld(t, 1, 0, limits, func(w *world) {
		calls := []*pending{w.one("under way", 0)} // what comes now is in turns together
		for i := range 500 {
			calls = append(calls, w.one("busy", i))
		}
		quiet := w.one("quiet", 0)
		quiet.wants(t, nil)
		// The group that was under way, and one more.
		if took := time.Since(begin); took > 2*w.groupTakes {
			t.Errorf("the quiet key waited %v", took)
		}
		all(t, calls)
		if got := w.order("busy"); !slices.IsSorted(got) || len(got) != 500 {
			t.Errorf("%d in the order %v", len(got), got)
		}
	})
}

// An item that is larger than a group goes alone, whoever waits beside it, so that
// nobody else's has its time and its fate.
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

// A group ends at its rows and at its bytes; an item larger than that goes alone.
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

// More than there is room for waits outside, keys in turn, and more than may wait
// outside is refused. The item that is larger than the room has it alone.
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

// Those who wait for room get in by turns of their keys, each key's in order.
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

// A withdrawn item's place is free at once, wherever it waits.
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

// A context that has ended submits nothing.
func TestEndedContext(t *testing.T) {
	inWorld(t, 1, 0, roomy(), func(w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := w.s.Submit(ctx, "a", 0, Size{1, 1}); !errors.Is(err, ErrWithdrawn) {
			t.Errorf("%v", err)
		}
		if len(w.log) != 0 {
			t.Error("it was carried out")
		}
	})
}

// A batch's context ends with its last caller, and not before.
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

// What a batch gives back is first again, in its order.
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
			t.Error("what was given back is held")
		}
		if took := time.Since(s.start); took != 10*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// Close waits for what is under way, waits or is held, and refuses what comes.
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
			t.Error("closed while items are held")
		default:
		}
		w.release("a", "b")
		<-closed
		all(t, calls)
	})
}

// Whatever is held, released and withdrawn: each key's items are carried out in
// order, each once, unless its caller went; and everybody gets an answer.
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
				for item := range 300 {
					key := name(random.IntN(8))
					calls = append(calls, call{w.submit(key, item, Size{1 + random.IntN(4), random.IntN(60)}), key, item})
					switch random.IntN(8) {
					case 0:
						if key := name(random.IntN(8)); w.held[key] == nil {
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
				w.sleep(time.Second) // what was left goes on
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

// An item whose answer came at the moment at which its caller went was carried out.
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

// Who is small enough for the room that is left waits behind those who were there
// before: a large item would wait for ever.
func TestNobodyPassesTheDoor(t *testing.T) {
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

// Close waits for items of held keys between two tries, too, when no batch is under
// way.
func TestCloseWaitsForTheHeld(t *testing.T) {
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
			t.Error("closed while an item is held")
		}
		w.release("a")
		p.wants(t, nil)
		<-ended
	})
}
