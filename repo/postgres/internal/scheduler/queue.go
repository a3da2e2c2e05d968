package scheduler

import (
	"context"
	"time"
)

// Task is an item that was submitted. While it is in a batch it belongs to the batch's
// function.
type Task[K comparable, I any] struct {
	Key  K
	Item I

	size  Size
	queue *queue[K, I]
	place node[*Task[K, I]] // in its queue's tasks or knocking
	batch *Batch[K, I]
	left  bool // the caller's context has ended
	// undone is set if its caller has stayed since its context ended, and closed if the batch puts
	// the task back.
	undone chan struct{}
	// shares: see Config.Shares.
	shares bool
	done   chan struct{}
	// returned: the batch returned it, and its key is not locked.
	returned bool
}

// Batch is a number of tasks that are processed together. It is valid until the function
// that it was passed to returns.
type Batch[K comparable, I any] struct {
	// Tasks are in the order of the keys' turns. Tasks of one key are adjacent, in
	// the order of their submission.
	Tasks []*Task[K, I]

	ctx     context.Context
	cancel  context.CancelFunc
	callers int
	staying int // callers whose contexts have ended
	size    Size
	wait    bool // processed by Wait
	shares  bool // of items that share something
	// For a batch of Wait: its turn ends when other locked keys want one.
	turn    context.Context
	endTurn context.CancelFunc
	timer   *time.Timer
	settled bool
	placed  bool // it has a place of the budget's
	// A group: when it began, and its place in Scheduler.begun.
	at     time.Time
	place  node[*Batch[K, I]]
	queues []*queue[K, I]
}

// Context returns a context that ends when the contexts of all callers have ended, so
// that the batch stops waiting for an answer that no caller needs.
func (b *Batch[K, I]) Context() context.Context { return b.ctx }

// Turn returns a context that ends with Context, and when a batch of Wait must yield to
// other locked keys. The tasks that it leaves undone are then retried with the groups.
func (b *Batch[K, I]) Turn() context.Context { return b.turn }

// Done says that a task was processed, with or without success. Its caller's Submit
// returns at once. Done must be called at most once for a task, and before the batch's
// function returns. If neither Done nor Return is called for a task, its key is locked.
func (b *Batch[K, I]) Done(t *Task[K, I]) { close(t.done) }

// Return says that a task was not processed although its key is not locked. It goes to the
// front of its key's queue, followed by the later tasks of the key in this batch that
// are not done.
func (b *Batch[K, I]) Return(t *Task[K, I]) { t.returned = true }

// Returned reports whether the batch has returned the task.
func (t *Task[K, I]) Returned() bool { return t.returned }

// cancelIfIdle ends the context if all callers have left, or, of a batch of Wait, if all
// contexts have ended.
func (b *Batch[K, I]) cancelIfIdle() {
	waiting := b.callers
	if b.wait {
		waiting -= b.staying
	}
	if waiting == 0 {
		b.cancel()
	}
}

func (b *Batch[K, I]) full(limit Size) bool {
	return b.size.Rows >= limit.Rows || b.size.Bytes >= limit.Bytes
}

func (t *Task[K, I]) isDone() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// queue has the items of one key. It exists while there are any, or some are in a batch.
type queue[K comparable, I any] struct {
	key   K
	tasks list[*Task[K, I]]
	size  Size // of tasks
	// knocking are the tasks that wait for room. They come after tasks.
	knocking list[*Task[K, I]]
	room     *room[K, I]

	turn     node[*queue[K, I]] // in turns, in sharers, in locked or in resting
	door     node[*queue[K, I]] // in the room's doors
	flying   int                // batches that it is in; if it is ordered, one at most
	isLocked bool               // as found by the batch that has just ended

	// tried counts how often the key was found locked since it last was not.
	tried int
	at    time.Duration // of the next retry, since the Scheduler's start
	index int           // in tries
	// turns counts the turns of Wait that the key has had in vain since it last was
	// not locked. It gets no other before next, which is since the Scheduler's start.
	turns int
	next  time.Duration
}

func newQueue[K comparable, I any](key K, in *room[K, I]) *queue[K, I] {
	q := &queue[K, I]{key: key, room: in, index: -1}
	q.turn.value, q.door.value = q, q
	return q
}

// ready gives a queue that has items a turn, unless it is in a list or a batch.
func (s *Scheduler[K, I]) ready(q *queue[K, I]) {
	if (q.flying == 0 || s.config.Unordered) && q.tasks.length > 0 && q.turn.in == nil {
		s.line(q)
	}
}

// line gives a queue that has items a turn.
func (s *Scheduler[K, I]) line(q *queue[K, I]) {
	if q.tasks.first.value.shares {
		s.sharers.pushBack(&q.turn)
	} else {
		s.turns.pushBack(&q.turn)
	}
}

// relist moves a queue whose first item was withdrawn to the list of the next one.
func (s *Scheduler[K, I]) relist(q *queue[K, I]) {
	if in := q.turn.in; in != nil && (in == &s.turns || in == &s.sharers) &&
		(in == &s.sharers) != q.tasks.first.value.shares {
		q.turn.remove()
		s.line(q)
	}
}

// rest removes a queue that has no tasks from all lists, and deletes it if no task
// waits for room in it either.
func (s *Scheduler[K, I]) rest(q *queue[K, I]) {
	q.turn.remove() // also beside a batch, if the key may be in several
	s.tries.remove(q)
	if q.flying > 0 {
		return
	}
	q.tried, q.turns, q.next = 0, 0, 0
	s.move(q, &s.free)
	if q.tasks.length == 0 && q.knocking.length == 0 {
		delete(s.queues, q.key)
	}
}
