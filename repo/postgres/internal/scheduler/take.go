package scheduler

import (
	"context"
	"slices"
	"time"
)

func (s *Scheduler[K, I]) newBatch() *Batch[K, I] {
	b := &Batch[K, I]{}
	s.batches++
	b.place.value = b
	b.ctx, b.cancel = context.WithCancel(context.Background()) //nolint:gosec // work calls it
	return b
}

// takeGroup makes a group. It takes the keys in the order of their turns until the group
// is full, or, if several groups may begin now, has its part of the keys. The items
// beyond a key's share wait for its next turn.
func (s *Scheduler[K, I]) takeGroup() *Batch[K, I] {
	limit, share := Size{s.config.GroupRows, s.config.GroupBytes}, s.config.ShareRows
	if s.turns.length == 1 {
		share = limit.Rows
	}
	b := s.newBatch()
	groups := 1
	if s.isMuch() {
		groups = max(1, s.config.Groups-s.begun.length)
	}
	part := (s.turns.length + groups - 1) / groups
	for s.turns.length > 0 && !b.full(limit) && len(b.queues) < part {
		q := s.turns.first.value
		if len(b.Tasks) > 0 && q.tasks.first.value.size.exceeds(limit) {
			break
		}
		s.take(b, q, limit, share)
	}
	b.at = time.Now()
	s.begun.pushBack(&b.place)
	b.placed = s.config.Budget != nil
	return b
}

// takeSharers makes a group of items that share something.
func (s *Scheduler[K, I]) takeSharers() *Batch[K, I] {
	limit, share := Size{s.config.GroupRows, s.config.GroupBytes}, s.config.ShareRows
	if s.sharers.length == 1 {
		share = limit.Rows
	}
	b := s.newBatch()
	b.shares, s.sharing = true, true
	b.placed = s.config.Budget != nil
	for s.sharers.length > 0 && !b.full(limit) {
		q := s.sharers.first.value
		if len(b.Tasks) > 0 && q.tasks.first.value.size.exceeds(limit) {
			break
		}
		s.take(b, q, limit, share)
	}
	return b
}

// takeWait makes a batch of Wait for a key.
func (s *Scheduler[K, I]) takeWait(q *queue[K, I]) *Batch[K, I] {
	s.move(q, &s.apart)
	b := s.newBatch()
	b.wait, b.shares = true, q.tasks.first.value.shares
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
	q.flying++
	b.queues = append(b.queues, q)
	rows, first := 0, len(b.Tasks)
	for q.tasks.length > 0 {
		t := q.tasks.first.value
		if t.shares != b.shares {
			break
		}
		if len(b.Tasks) > first {
			// A locked key is retried with one item, since most retries are in vain.
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
	s.ready(q) // if it is unordered, and has more
}

// settle ends a batch. The tasks that it left undone go to the front of their queues.
func (s *Scheduler[K, I]) settle(b *Batch[K, I]) {
	if b.wait {
		s.waits--
		b.settled = true
		b.timer.Stop()
		b.endTurn()
	}
	switch {
	case b.shares && !b.wait:
		s.sharing = false
	case !b.wait:
		b.place.remove()
	}
	for _, q := range b.queues {
		q.isLocked = false
	}
	for _, t := range slices.Backward(b.Tasks) {
		if t.isDone() {
			continue
		}
		q := t.queue
		q.isLocked = !t.returned // the key's first task decides, which comes last here
		if t.left {
			continue
		}
		if t.undone != nil {
			close(t.undone)
			continue
		}
		t.batch, t.returned = nil, false
		q.tasks.pushFront(&t.place)
		q.room.count(q, 1, t.size)
	}
	for _, q := range b.queues {
		// Clear flying only after move, whose refill calls ready: the queue must not
		// get a turn before.
		switch {
		case q.tasks.length == 0:
			q.flying--
			s.rest(q)
		case q.isLocked:
			s.move(q, &s.apart)
			q.flying--
			s.exclude(q)
		default:
			q.tried, q.turns, q.next = 0, 0, 0
			s.move(q, &s.free)
			q.flying--
			s.ready(q)
		}
	}
}
