package scheduler

import (
	"container/heap"
	"time"
)

// The pauses between two tries of a held key for which there is no place apart.
// The first is short, because most holds are: another process that commits to
// the same key. The longest bounds what tries cost, and how long a key that is
// free again may go unnoticed.
const (
	firstPause   = time.Millisecond
	longestPause = 100 * time.Millisecond
)

// A key has a place apart because other processes may queue for it, behind whom a
// try finds it held again and again. They take milliseconds; who holds a key for
// longer than a turn may do so for an hour, and has its end noticed by the tries as
// well. So where others want the place a turn ends, and the next is the later the
// more turns the key has had in vain.
const (
	turnLength = 250 * time.Millisecond
	firstRest  = 5 * time.Second
	mostRests  = 10 // that the rest is doubled
)

// endTurn has a batch give up its place, if another key wants one.
func (s *Scheduler[K, I]) endTurn(b *Batch[K, I]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case b.settled:
	case s.held.length == 0:
		// Nobody wants it, or who does is being tried just now: look again soon.
		b.timer.Reset(turnLength / 10)
	default:
		q := b.queues[0]
		q.next = time.Since(s.start) + firstRest<<min(q.turns, mostRests)
		q.turns++
		b.endTurn()
	}
}

// hold takes a key that a batch found held out of the groups.
func (s *Scheduler[K, I]) hold(q *queue[K, I]) {
	pause := longestPause
	if q.tried < 7 {
		pause = min(pause, firstPause<<q.tried)
	}
	q.tried++
	// Whole quarters of a pause, so that many keys are tried together.
	q.at = (time.Since(s.start) + pause).Truncate(pause / 4)
	if time.Since(s.start) < q.next {
		s.resting.pushBack(&q.turn)
	} else {
		s.held.pushBack(&q.turn)
	}
	s.tries.add(q)
	s.wake()
}

// wake sets the timer to the next try.
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

// try gives the keys whose time has come a turn with the groups.
func (s *Scheduler[K, I]) try() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Since(s.start)
	for len(s.tries.heap) > 0 && s.tries.heap[0].at <= now {
		q := s.tries.heap[0]
		s.tries.remove(q)
		q.turn.remove()
		s.turns.pushBack(&q.turn)
	}
	s.spawn(s.next())
	s.wake()
}

// tries are held keys by the time of their next try.
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
