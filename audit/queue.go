package audit

import (
	"context"
	"sync"

	"github.com/seed-df90f812/agentstore/repo"
)

// item is an accepted entry.
type item struct {
	entry repo.AuditEntry
	bytes int
	// done receives the entry's outcome. Nil: Record returned without waiting for it.
	done chan<- error
}

// queue holds accepted entries in order. Its methods are safe for concurrent use.
type queue struct {
	maxEntries, maxBytes int

	mu     sync.Mutex
	items  []item
	bytes  int
	closed bool
	// changed is closed and replaced when settled grows, which may make room, and
	// when the queue is closed. work wakes the writer.
	changed chan struct{}
	work    chan struct{}
	stats   Stats
	settled int64
}

func newQueue(maxEntries, maxBytes int) *queue {
	return &queue{
		maxEntries: maxEntries, maxBytes: maxBytes,
		changed: make(chan struct{}), work: make(chan struct{}, 1),
	}
}

// put accepts an entry. It waits while the queue is full.
func (q *queue) put(ctx context.Context, entry repo.AuditEntry, done chan<- error) error {
	size := entryBytes(entry)
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.await(ctx, func() bool {
		// An empty queue takes any entry, however large.
		return q.closed || len(q.items) < q.maxEntries && (q.bytes+size <= q.maxBytes || len(q.items) == 0)
	})
	switch {
	case err != nil:
		q.stats.Refused++
		return err
	case q.closed:
		return repo.ErrClosed
	}
	q.accept(entry, size, done)
	return nil
}

// await waits until isSo returns true. The caller holds the lock, with which isSo
// is called.
func (q *queue) await(ctx context.Context, isSo func() bool) error {
	for !isSo() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		changed := q.changed
		q.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		q.mu.Lock()
	}
	return nil
}

// change wakes all waiters.
func (q *queue) change() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *queue) accept(entry repo.AuditEntry, size int, done chan<- error) {
	q.stats.Accepted++
	q.stats.Waiting++
	q.items = append(q.items, item{entry: entry, bytes: size, done: done})
	q.bytes += size
	q.tell()
}

// tell wakes the writer.
func (q *queue) tell() {
	select {
	case q.work <- struct{}{}:
	default: // it will wake already
	}
}

// entryBytes estimates how much memory an entry takes.
func entryBytes(e repo.AuditEntry) int {
	return 256 + len(e.Details) + len(e.Actor) + len(e.User) + len(e.Project)
}

// front returns up to limit of the oldest entries, and whether the queue is closed.
// The entries stay in the queue until they are settled.
func (q *queue) front(limit int) ([]repo.AuditEntry, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	entries := make([]repo.AuditEntry, min(limit, len(q.items)))
	for i := range entries {
		entries[i] = q.items[i].entry
	}
	return entries, q.closed
}

// settle removes the oldest count entries from the queue, counts them, and tells
// their outcome to waiting callers.
func (q *queue) settle(count int, outcome error, account func(*Stats)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, it := range q.items[:count] {
		q.bytes -= it.bytes
		if it.done != nil {
			it.done <- outcome // buffered
		}
	}
	clear(q.items[:count])
	q.items = q.items[count:]
	if len(q.items) == 0 {
		q.items = nil
	}
	q.stats.Waiting -= int64(count)
	q.settled += int64(count)
	account(&q.stats)
	q.change()
}

// account changes the counts of entries that are not in the queue.
func (q *queue) account(change func(*Stats)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change(&q.stats)
}

// refuse closes the queue and wakes the callers that wait for room.
func (q *queue) refuse() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	q.change()
	q.tell()
}

// wait waits until all entries accepted so far are settled.
func (q *queue) wait(ctx context.Context) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	target := q.settled + q.stats.Waiting
	return q.await(ctx, func() bool { return q.settled >= target })
}

func (q *queue) snapshot() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats
}

// tryPut accepts an entry of the writer itself if there is room.
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
