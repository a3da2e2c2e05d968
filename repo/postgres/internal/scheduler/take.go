package scheduler

import (
	"context"
	"slices"
	"time"
)

func (s *Scheduler[K, I]) newBatch() *Batch[K, I] {
	b := &Batch[K, I]{}
	b.ctx, b.cancel = context.WithCancel(context.Background()) //nolint:gosec // work calls it
	return b
}

// takeGroup makes a group: each key that waits has its turn, in order, until the
// group is full. A key with more than its share waits for another turn.
func (s *Scheduler[K, I]) takeGroup() *Batch[K, I] {
	limit, share := Size{s.config.GroupRows, s.config.GroupBytes}, s.config.ShareRows
	if s.turns.length == 1 {
		share = limit.Rows
	}
	b := s.newBatch()
	for s.turns.length > 0 && !b.full(limit) {
		q := s.turns.first.value
		if len(b.Tasks) > 0 && q.tasks.first.value.size.exceeds(limit) {
			break
		}
		s.take(b, q, limit, share)
	}
	s.groups++
	return b
}

// takeWait makes a batch of one key, which may be held.
func (s *Scheduler[K, I]) takeWait(q *queue[K, I]) *Batch[K, I] {
	s.move(q, &s.apart)
	b := s.newBatch()
	b.wait = true
	b.turn, b.endTurn = context.WithCancel(b.ctx) //nolint:gosec // settle calls it
	b.timer = time.AfterFunc(turnLength, func() { s.endTurn(b) })
	s.take(b, q, Size{s.config.GroupRows, s.config.GroupBytes}, s.config.GroupRows)
	s.waits++
	return b
}

// take moves a key's share to the batch.
func (s *Scheduler[K, I]) take(b *Batch[K, I], q *queue[K, I], limit Size, share int) {
	q.turn.remove()
	s.tries.remove(q)
	q.flying = true
	b.queues = append(b.queues, q)
	rows, first := 0, len(b.Tasks)
	for q.tasks.length > 0 {
		t := q.tasks.first.value
		if len(b.Tasks) > first {
			// A key that was held is tried with one item: most tries are in vain.
			if rows+t.size.Rows > share || b.full(limit) || t.size.exceeds(limit) || !b.wait && q.tried > 0 {
				break
			}
		}
		q.room.leave(q, t)
		t.batch = b
		b.callers++
		b.Tasks = append(b.Tasks, t)
		b.size.Rows += t.size.Rows
		b.size.Bytes += t.size.Bytes
		rows += t.size.Rows
	}
	s.refill(q.room)
}

// settle ends a batch: what it left undone is the first of its key again.
func (s *Scheduler[K, I]) settle(b *Batch[K, I]) {
	if b.wait {
		s.waits--
		b.settled = true
		b.timer.Stop()
		b.endTurn()
	}
	if !b.wait || b.alone {
		s.groups--
		s.load.carried(len(b.Tasks))
	}
	for _, q := range b.queues {
		q.isHeld = false
	}
	for _, t := range slices.Backward(b.Tasks) {
		if t.isDone() {
			continue
		}
		q := t.queue
		q.isHeld = !t.returned // what the first of them says counts
		if t.left {
			continue
		}
		t.batch, t.returned = nil, false
		q.tasks.pushFront(&t.place)
		q.room.count(q, 1, t.size)
	}
	for _, q := range b.queues {
		// It may have a turn from now on, and not before: a move lets in who knocks.
		switch {
		case q.tasks.length == 0:
			q.flying = false
			s.rest(q)
		case q.isHeld:
			s.move(q, &s.apart)
			q.flying = false
			s.hold(q)
		default:
			q.tried, q.turns, q.next = 0, 0, 0
			s.move(q, &s.free)
			q.flying = false
			s.ready(q)
		}
	}
}
