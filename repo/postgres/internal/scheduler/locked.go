package scheduler

import (
	"container/heap"
	"time"
)

// The pauses between the retries of a locked key with the groups. The first is short,
// because most holds are: another process commits to the same key. The longest bounds
// the cost of the retries, and the time for which a free key may go unnoticed.
const (
	firstPause   = time.Millisecond
	longestPause = 100 * time.Millisecond
)

// A batch of Wait queues for its key. If other processes queue for it too, a retry,
// which does not, finds the key locked again and again. They hold it for milliseconds. A
// key that is locked for longer than a turn may be locked for an hour, and a retry notices
// the end of that as well. So a turn ends if other locked keys want a batch of Wait, and
// the more turns a key has had in vain, the longer it rests before the next.
const (
	turnLength = 250 * time.Millisecond
	firstRest  = 5 * time.Second
	mostRests  = 10 // bounds how often the rest is doubled
)

// endTurn ends the turn of a batch of Wait, if another locked key wants one.
func (s *Scheduler[K, I]) endTurn(b *Batch[K, I]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case b.settled:
	case s.locked.length == 0:
		// No other key waits, or it is just being retried with a group: check again soon.
		b.timer.Reset(turnLength / 10)
	default:
		q := b.queues[0]
		q.next = time.Since(s.start) + firstRest<<min(q.turns, mostRests)
		q.turns++
		b.endTurn()
	}
}

// exclude removes a key that a batch found locked from the groups.
func (s *Scheduler[K, I]) exclude(q *queue[K, I]) {
	pause := longestPause
	if q.tried < 7 {
		pause = min(pause, firstPause<<q.tried)
	}
	q.tried++
	// Round to quarters of a pause, so that many keys are retried together.
	q.at = (time.Since(s.start) + pause).Truncate(pause / 4)
	if time.Since(s.start) < q.next {
		s.resting.pushBack(&q.turn)
	} else {
		s.locked.pushBack(&q.turn)
	}
	s.tries.add(q)
	s.wake()
}

// wake sets the timer to the next retry.
func (s *Scheduler[K, I]) wake() {
	if len(s.tries.heap) == 0 {
		return
	}
	pause := s.tries.heap[0].at - time.Since(s.start)
	if s.timer == nil {
		s.timer = time.AfterFunc(pause, s.try)
		return
	}
	s.timer.Reset(pause)
}

// try moves the keys that are due for a retry to the groups' turns.
func (s *Scheduler[K, I]) try() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.start)
	for len(s.tries.heap) > 0 && s.tries.heap[0].at <= now {
		q := s.tries.heap[0]
		s.tries.remove(q)
		q.turn.remove()
		s.line(q)
	}
	s.spawn(s.next())
	s.wake()
}

// tries are the locked keys, ordered by the time of their next retry.
type tries[K comparable, I any] struct{ heap tryHeap[K, I] }

func (t *tries[K, I]) add(q *queue[K, I]) { heap.Push(&t.heap, q) }

func (t *tries[K, I]) remove(q *queue[K, I]) {
	if q.index >= 0 {
		heap.Remove(&t.heap, q.index)
	}
}

type tryHeap[K comparable, I any] []*queue[K, I]

func (h tryHeap[K, I]) Len() int           { return len(h) }
func (h tryHeap[K, I]) Less(i, j int) bool { return h[i].at < h[j].at }

func (h tryHeap[K, I]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *tryHeap[K, I]) Push(x any) {
	q := x.(*queue[K, I])
	q.index = len(*h)
	*h = append(*h, q)
}

func (h *tryHeap[K, I]) Pop() any {
	old := *h
	q := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	q.index = -1
	return q
}
