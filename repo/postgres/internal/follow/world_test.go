package follow

import (
	"context"
	"errors"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

const interval = time.Second

// item is an item of a log in the world.
type item struct{ sequence int }

var (
	errPasses = errors.New("passes")
	errStays  = errors.New("stays")
	errAlone  = errors.New("alone")
)

// world has the logs that a Hub under test reads.
type world struct {
	t *testing.T
	h *Hub[string, item]
	// readTakes is how long a read takes after it has seen the logs.
	readTakes time.Duration
	// room bounds the items of one answer, and share those of one position.
	room, share int
	size        int // of an item, in bytes
	large       int // the sequence of an item that is larger than a tail; 0: none

	mu     sync.Mutex
	logs   map[string][]item
	ends   map[string]error
	behind int    // items of each log that reads and polls do not see
	err    error  // of reads and polls
	bad    string // reads of this log, and of others with it, fail
	reads  int
	given  int // items that reads returned
	polls  int
	polled []News[string] // the last poll
	under  int            // reads under way
	most   int
}

// inWorld runs a test in a synctest bubble, and closes the Hub at its end. The test fails
// if a goroutine is left.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, readTakes: time.Millisecond, room: 1000, share: 100, size: 1 << 10, logs: map[string][]item{}, ends: map[string]error{}}
		w.h = New(Config[string, item]{
			Read: w.read, Newest: w.newest,
			Size: func(i item) int {
				if w.large > 0 && i.sequence == w.large {
					return 2 * tailBytes
				}
				return w.size
			},
			Passes:   func(err error) bool { return errors.Is(err, errPasses) || errors.Is(err, errAlone) },
			Alone:    func(err error) bool { return errors.Is(err, errAlone) },
			Interval: func() time.Duration { return interval },
			Readers:  2, Positions: 50,
		})
		test(w)
		w.h.Close()
		synctest.Wait()
		if len(w.h.topics) != 0 || w.h.followers != 0 || w.h.reading != 0 {
			t.Errorf("after Close: %d topics, %d followers, %d readers", len(w.h.topics), w.h.followers, w.h.reading)
		}
	})
}

func (w *world) read(ctx context.Context, positions []Position[string]) ([]Found[item], error) {
	w.mu.Lock()
	w.reads++
	w.under++
	w.most = max(w.most, w.under)
	found, err := make([]Found[item], len(positions)), w.err
	room := w.room
	for i, p := range positions {
		if p.Key == w.bad {
			err = errAlone
		}
		log, exists := w.seen(p.Key)
		f := &found[i]
		if f.Missing, f.Cut = !exists, exists && room <= 0; !exists || f.Cut {
			continue
		}
		f.Next = int64(len(log))
		if p.From < f.Next {
			f.Items = append(f.Items, log[p.From:min(p.From+int64(min(w.share, room)), f.Next)]...)
			room -= len(f.Items)
			w.given += len(f.Items)
		}
		if p.From+int64(len(f.Items)) >= f.Next {
			f.End = w.ends[p.Key]
		}
	}
	w.mu.Unlock()
	select {
	case <-time.After(w.readTakes):
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.under--
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (w *world) newest(_ context.Context, known []News[string]) (news []News[string], _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.polls++
	w.polled = append(w.polled[:0], known...)
	if w.err != nil {
		return nil, w.err
	}
	for _, n := range known {
		next := int64(Look)
		if log, exists := w.seen(n.Key); exists {
			next = int64(len(log))
		}
		if next != n.Next {
			news = append(news, News[string]{n.Key, next})
		}
	}
	return news, nil
}

// create makes an empty log.
func (w *world) create(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logs[key] = []item{}
}

// seen returns what reads and polls see of a log.
func (w *world) seen(key string) ([]item, bool) {
	log, exists := w.logs[key]
	return log[:max(0, len(log)-w.behind)], exists
}

func (w *world) remove(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.logs, key)
}

// add adds items to a log without a hint. It returns what there is to tell.
func (w *world) add(key string, count int) News[string] {
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.logs[key]
	for range count {
		log = append(log, item{len(log)})
	}
	w.logs[key] = log
	return News[string]{key, int64(len(log))}
}

func (w *world) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// counts returns the numbers of reads, items and polls since it was last called.
func (w *world) counts() (reads, given, polls int) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	reads, given, polls = w.reads, w.given, w.polls
	w.reads, w.given, w.polls = 0, 0, 0
	return reads, given, polls
}

// reader follows a log, and checks that nothing is missing, twice or out of order.
type reader struct {
	w       *world
	from    int
	stop    context.CancelFunc
	told    chan struct{}
	pause   func()
	mu      sync.Mutex
	got     []item
	end     error
	stopped bool
}

func (w *world) follow(key string, from int) *reader {
	return w.followWith(key, from, func() {})
}

// followWith has a reader call pause after each item.
func (w *world) followWith(key string, from int, pause func()) *reader {
	ctx, stop := context.WithCancel(w.t.Context())
	r := &reader{w: w, from: from, stop: stop, told: make(chan struct{}), pause: pause}
	w.t.Cleanup(stop)
	go r.run(w.h.Follow(ctx, r.told, key, int64(from)))
	synctest.Wait()
	return r
}

func (r *reader) run(items iter.Seq2[item, error]) {
	next := r.from
	for got, err := range items {
		r.mu.Lock()
		if err != nil {
			if r.end = err; got != (item{}) {
				r.w.t.Errorf("an error came with the item %v", got)
			}
			r.mu.Unlock()
			continue
		}
		if r.end != nil {
			r.w.t.Error("an item came after the end")
		}
		if got.sequence != next {
			r.w.t.Errorf("item %d came, want %d", got.sequence, next)
		}
		next++
		r.got = append(r.got, got)
		r.mu.Unlock()
		r.pause()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
}

// wants checks how many items have come, and the end.
func (r *reader) wants(count int, end error) {
	r.w.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) != count || !errors.Is(r.end, end) || r.stopped != (end != nil) {
		r.w.t.Errorf("%d items have come, and the end is %v; want %d, %v", len(r.got), r.end, count, end)
	}
}
