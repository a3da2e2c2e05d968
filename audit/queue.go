package audit

import (
	"context"
	"sync"

	"github.com/seed-df90f812/agentstore/repo"
)

// item is an accepted entry.
type item struct {
	entry repo.AuditEntry
	// number is its place among the accepted ones, from 1.
	number int64
	bytes  int
	// done is told what became of it, where somebody waits for that.
	done chan<- error
}

// queue holds accepted entries in order. Its methods are safe for concurrent use.
type queue struct {
	maxEntries, maxBytes int

	mu    sync.Mutex
	items []item
	bytes int
	// taken is how many entries at the front the writer is working on.
	taken  int
	closed bool
	// room is closed, and made anew, when there may be room again; work
	// tells the writer that there is something to do.
	room    chan struct{}
	work    chan struct{}
	stats   Stats
	settled int64
	// progress is closed, and made anew, when settled grows.
	progress chan struct{}
}

func newQueue(maxEntries, maxBytes int) *queue {
	return &queue{
		maxEntries: maxEntries, maxBytes: maxBytes,
		room: make(chan struct{}), work: make(chan struct{}, 1), progress: make(chan struct{}),
	}
}

// put accepts an entry. It waits while the queue is full.
func (q *queue) put(ctx context.Context, entry repo.AuditEntry, done chan<- error) error {
	size := entryBytes(entry)
	q.mu.Lock()
	for {
		if q.closed {
			q.mu.Unlock()
			return repo.ErrClosed
		}
		// One entry always fits, however large.
		if len(q.items) < q.maxEntries && (q.bytes+size <= q.maxBytes || len(q.items) == 0) {
			q.accept(entry, size, done)
			q.mu.Unlock()
			return nil
		}
		room := q.room
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			q.mu.Lock()
			q.stats.Refused++
			q.mu.Unlock()
			return ctx.Err()
		}
		q.mu.Lock()
	}
}

func (q *queue) accept(entry repo.AuditEntry, size int, done chan<- error) {
	q.stats.Accepted++
	q.stats.Waiting++
	q.items = append(q.items, item{entry: entry, number: q.stats.Accepted, bytes: size, done: done})
	q.bytes += size
	select {
	case q.work <- struct{}{}:
	default: // it is told already
	}
}

// entryBytes is about how much memory an entry takes.
func entryBytes(e repo.AuditEntry) int {
	return 256 + len(e.Details) + len(e.Actor) + len(e.User) + len(e.Project)
}

// front returns up to limit of the oldest entries, which stay in the queue until
// they are settled, and whether the queue is closed.
func (q *queue) front(limit int) ([]item, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = min(limit, len(q.items))
	// The caller's own: the queue goes on growing behind it.
	return append([]item(nil), q.items[:q.taken]...), q.closed
}

// settle takes the oldest count entries out of the queue, and counts them.
func (q *queue) settle(count int, account func(*Stats)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range q.items[:count] {
		q.bytes -= it.bytes
	}
	clear(q.items[:count])
	q.items = q.items[count:]
	if len(q.items) == 0 {
		q.items = nil
	}
	q.stats.Waiting -= int64(count)
	q.settled += int64(count)
	account(&q.stats)
	close(q.room)
	q.room = make(chan struct{})
	close(q.progress)
	q.progress = make(chan struct{})
}

// account changes the counts of entries that are not in the queue.
func (q *queue) account(change func(*Stats)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change(&q.stats)
}

// refuse ends the acceptance of entries and wakes who waits for room.
func (q *queue) refuse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	close(q.room)
	q.room = make(chan struct{})
	select {
	case q.work <- struct{}{}:
	default:
	}
}

// wait waits until all that was accepted before is settled.
func (q *queue) wait(ctx context.Context) error {
	q.mu.Lock()
	target := q.settled + q.stats.Waiting
	for q.settled < target {
		progress := q.progress
		q.mu.Unlock()
		select {
		case <-progress:
		case <-ctx.Done():
			return ctx.Err()
		}
		q.mu.Lock()
	}
	q.mu.Unlock()
	return nil
}

func (q *queue) snapshot() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats
}

// tryPut accepts an entry of the writer's own, if there is room.
func (q *queue) tryPut(entry repo.AuditEntry) bool {
	size := entryBytes(entry)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed && len(q.items) == 0 || len(q.items) >= q.maxEntries {
		return false
	}
	q.accept(entry, size, nil)
	return true
}
