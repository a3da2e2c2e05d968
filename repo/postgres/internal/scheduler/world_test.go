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

// world is what a scheduler under test works on: keys that somebody outside
// holds, and a log of what was carried out. It finds a key that is in two batches
// and items of a key out of their order.
type world struct {
	t *testing.T
	s *Scheduler[string, int]
	// groupTakes and waitTakes are how long a batch takes when nothing is held.
	groupTakes, waitTakes time.Duration

	// queued are keys that others outside queue for: a group finds them held, and
	// who waits has them soon.
	queued map[string]bool

	mu        sync.Mutex
	held      map[string]chan struct{} // closed when the key is free again
	inBatch   map[string]bool
	last      map[string]int
	log       []entry
	batches   [][]string // the keys of each group, as often as they have items
	waiting   int        // batches of Wait under way
	mostWait  int
	grouping  int
	mostGroup int
}

type entry struct {
	key  string
	item int
	at   time.Duration
}

var begin time.Time

func roomy() Limits {
	return Limits{
		GroupRows: 100, GroupBytes: 1000, ShareRows: 10,
		Items: 1000, Rows: 10_000, Bytes: 100_000, Callers: 1000,
	}
}

// inWorld runs a test in a bubble, with a scheduler that is closed at its end: a
// goroutine that is left fails it.
func inWorld(t *testing.T, groups, waits int, limits Limits, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begin = time.Now()
		w := &world{
			t: t, groupTakes: time.Millisecond, waitTakes: time.Millisecond,
			held: map[string]chan struct{}{}, inBatch: map[string]bool{}, last: map[string]int{},
		}
		w.s = New(Config[string, int]{Limits: limits, Groups: groups, Waits: waits, Group: w.group, Wait: w.wait})
		test(w)
		w.s.Close()
		if len(w.s.queues) != 0 || w.s.turns.length != 0 || w.s.held.length != 0 || w.s.resting.length != 0 || len(w.s.tries.heap) != 0 {
			t.Errorf("after Close: %d queues, %d turns, %d held, %d tries",
				len(w.s.queues), w.s.turns.length, w.s.held.length, len(w.s.tries.heap))
		}
		for name, r := range map[string]*room[string, int]{"free": &w.s.free, "apart": &w.s.apart} {
			if r.items != 0 || r.rows != 0 || r.bytes != 0 || r.callers != 0 || r.doors.length != 0 {
				t.Errorf("after Close the room %s has %d items, %d rows, %d bytes, %d callers", name, r.items, r.rows, r.bytes, r.callers)
			}
		}
		if w.s.groups != 0 || w.s.waits != 0 {
			t.Errorf("after Close: %d groups, %d waits", w.s.groups, w.s.waits)
		}
	})
}

// look has a look at the scheduler, when all that can go on has.
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
		w.held[key] = make(chan struct{})
	}
}

func (w *world) release(keys ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if free := w.held[key]; free != nil {
			close(free)
			delete(w.held, key)
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

// leave does the tasks whose key is not held, and ends the batch's time.
func (w *world) leave(b *Batch[string, int]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range b.Tasks {
		w.inBatch[t.Key] = false
		if w.held[t.Key] != nil || w.queued[t.Key] && !b.wait {
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
	w.grouping++
	w.mostGroup = max(w.mostGroup, w.grouping)
	var keys []string
	for _, t := range b.Tasks {
		keys = append(keys, t.Key)
	}
	w.batches = append(w.batches, keys)
	w.mu.Unlock()
	time.Sleep(w.groupTakes)
	w.mu.Lock()
	w.grouping--
	w.mu.Unlock()
	w.leave(b)
}

func (w *world) wait(b *Batch[string, int]) {
	w.enter(b)
	w.mu.Lock()
	w.waiting++
	w.mostWait = max(w.mostWait, w.waiting)
	free := w.held[b.Tasks[0].Key]
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

// submit begins a call of Submit, and returns when it waits or is answered.
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
	synctest.Wait() // what it led to can be looked at
}

// sleep lets time pass, and what happens then come to rest.
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

// groups is how many groups there were.
func (w *world) groups() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.batches)
}
