package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

// world is the environment of a scheduler under test: the keys that others hold, and a
// log of the processed items. It detects a key in two batches at once, and items of a
// key that are out of order.
type world struct {
	t *testing.T
	s *Scheduler[string, int]
	// groupTakes and waitTakes are how long a batch takes when nothing is locked.
	groupTakes, waitTakes time.Duration

	// queued are keys for which other processes queue: a group always finds them locked,
	// while a batch of Wait gets them soon.
	queued map[string]bool

	mu        sync.Mutex
	locked    map[string]chan struct{} // closed when the key is free again
	inBatch   map[string]bool
	last      map[string]int
	log       []entry
	batches   [][]string // the keys of each group's items
	waiting   int        // batches of Wait under way
	mostWait  int
	grouping  int
	mostGroup int
	sharing   int // groups of items that share something
}

type entry struct {
	key  string
	item int
	at   time.Duration
}

var begin time.Time

// shares says which items share something with those of other keys.
func shares(item int) bool { return item > 10_000 && item%2 == 1 }

func roomy() Limits {
	return Limits{
		GroupRows: 100, GroupBytes: 1000, ShareRows: 10,
		Items: 1000, Rows: 10_000, Bytes: 100_000, Callers: 1000,
	}
}

// inWorld runs a test in a synctest bubble, and closes the scheduler at its end. The
// test fails if a goroutine is left.
func inWorld(t *testing.T, groups, waits int, limits Limits, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begin = time.Now()
		w := &world{
			t: t, groupTakes: time.Millisecond, waitTakes: time.Millisecond,
			locked: map[string]chan struct{}{}, inBatch: map[string]bool{}, last: map[string]int{},
		}
		w.s = New(Config[string, int]{
			Limits: limits, Groups: groups, Waits: waits, Group: w.group, Wait: w.wait,
			Shares: shares,
		})
		test(w)
		w.s.Close()
		if len(w.s.queues) != 0 || w.s.turns.length != 0 || w.s.sharers.length != 0 || w.s.sharing || w.s.locked.length != 0 || w.s.resting.length != 0 || len(w.s.tries.heap) != 0 {
			t.Errorf("after Close: %d queues, %d turns, %d locked, %d tries",
				len(w.s.queues), w.s.turns.length, w.s.locked.length, len(w.s.tries.heap))
		}
		for name, r := range map[string]*room[string, int]{"free": &w.s.free, "apart": &w.s.apart} {
			if r.items != 0 || r.rows != 0 || r.bytes != 0 || r.callers != 0 || r.doors.length != 0 {
				t.Errorf("after Close the room %s has %d items, %d rows, %d bytes, %d callers", name, r.items, r.rows, r.bytes, r.callers)
			}
		}
		if w.s.begun.length != 0 || w.s.waits != 0 {
			t.Errorf("after Close: %d groups, %d waits", w.s.begun.length, w.s.waits)
		}
	})
}

// look calls at with the scheduler locked, when all goroutines are blocked.
func (w *world) look(at func(s *Scheduler[string, int])) {
	synctest.Wait()
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	at(w.s)
}

func (w *world) hold(keys ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		w.locked[key] = make(chan struct{})
	}
}

func (w *world) release(keys ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if free := w.locked[key]; free != nil {
			close(free)
			delete(w.locked, key)
		}
	}
}

func (w *world) enter(b *Batch[string, int]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[string]bool{}
	for _, t := range b.Tasks {
		if !seen[t.Key] && w.inBatch[t.Key] {
			w.t.Errorf("%s is in two batches", t.Key)
		}
		seen[t.Key], w.inBatch[t.Key] = true, true
	}
}

// leave ends a batch. It processes the tasks whose key is not locked.
func (w *world) leave(b *Batch[string, int]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range b.Tasks {
		w.inBatch[t.Key] = false
		if w.locked[t.Key] != nil || w.queued[t.Key] && !b.wait {
			continue
		}
		if last, ok := w.last[t.Key]; ok && t.Item <= last {
			w.t.Errorf("%s: %d after %d", t.Key, t.Item, last)
		}
		w.last[t.Key] = t.Item
		w.log = append(w.log, entry{t.Key, t.Item, time.Since(begin)})
		b.Done(t)
	}
}

func (w *world) group(b *Batch[string, int]) {
	w.enter(b)
	w.mu.Lock()
	for _, t := range b.Tasks {
		if shares(t.Item) != shares(b.Tasks[0].Item) {
			w.t.Errorf("%d is in a group with %d", t.Item, b.Tasks[0].Item)
		}
	}
	if len(b.Tasks) > 0 && shares(b.Tasks[0].Item) {
		if w.sharing++; w.sharing > 1 {
			w.t.Errorf("%d groups of items that share something are under way", w.sharing)
		}
		defer func() {
			w.mu.Lock()
			w.sharing--
			w.mu.Unlock()
		}()
	} else {
		w.grouping++
		w.mostGroup = max(w.mostGroup, w.grouping)
		defer func() {
			w.mu.Lock()
			w.grouping--
			w.mu.Unlock()
		}()
	}
	var keys []string
	for _, t := range b.Tasks {
		keys = append(keys, t.Key)
	}
	w.batches = append(w.batches, keys)
	w.mu.Unlock()
	time.Sleep(w.groupTakes)
	w.leave(b)
}

func (w *world) wait(b *Batch[string, int]) {
	w.enter(b)
	w.mu.Lock()
	w.waiting++
	w.mostWait = max(w.mostWait, w.waiting)
	free := w.locked[b.Tasks[0].Key]
	w.mu.Unlock()
	if free != nil {
		select {
		case <-free:
		case <-b.Turn().Done():
		}
	}
	time.Sleep(w.waitTakes)
	w.mu.Lock()
	w.waiting--
	w.mu.Unlock()
	w.leave(b)
}

// pending is a call of Submit under way.
type pending struct {
	cancel context.CancelFunc
	answer chan error
}

// submit calls Submit in a goroutine, and returns when it waits or has returned.
func (w *world) submit(key string, item int, size Size) *pending {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &pending{cancel, make(chan error, 1)}
	go func() {
		defer cancel()
		p.answer <- w.s.Submit(ctx, key, item, size)
	}()
	synctest.Wait()
	return p
}

func (w *world) one(key string, item int) *pending { return w.submit(key, item, Size{1, 1}) }

func (p *pending) wants(t *testing.T, want error) {
	t.Helper()
	if err := <-p.answer; !errors.Is(err, want) {
		t.Errorf("answer %v, want %v", err, want)
	}
	synctest.Wait() // let its effects happen
}

// sleep sleeps, and then waits until all goroutines are blocked.
func (w *world) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (p *pending) waits(t *testing.T) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-p.answer:
		p.answer <- err
		t.Errorf("answered with %v already", err)
	default:
	}
}

func all(t *testing.T, calls []*pending) {
	t.Helper()
	for _, p := range calls {
		p.wants(t, nil)
	}
}

func (w *world) order(key string) (items []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.log {
		if e.key == key {
			items = append(items, e.item)
		}
	}
	return items
}

func name(i int) string { return fmt.Sprint("key ", i) }

// groups returns the number of groups so far.
func (w *world) groups() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.batches)
}
