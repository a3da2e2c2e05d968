package scheduler

import (
	"context"
	"time"
)

// Task is an item that was submitted. It belongs to the batch that it is in.
type Task[K comparable, I any] struct {
	Key  K
	Item I

	size  Size
	queue *queue[K, I]
	place node[*Task[K, I]] // in its queue, or among those without room
	batch *Batch[K, I]
	left  bool // the caller has gone
	done  chan struct{}
	// returned: the batch gave it back, and its key is not held.
	returned bool
}

// Batch is what is carried out together. It is for the function that got it,
// until that returns.
type Batch[K comparable, I any] struct {
	// Tasks are in the order of the keys' turns; those of one key are neighbours
	// and in their order.
	Tasks []*Task[K, I]

	ctx     context.Context
	cancel  context.CancelFunc
	callers int
	size    Size
	wait    bool // carried out by Wait
	// Of a batch that waits: its turn to wait ends when others want the place.
	turn    context.Context
	endTurn context.CancelFunc
	timer   *time.Timer
	settled bool
	alone   bool // and counted as a group
	queues  []*queue[K, I]
}

// Context ends when all callers have gone, so that a server that does not answer
// is not waited for on nobody's behalf.
func (b *Batch[K, I]) Context() context.Context { return b.ctx }

// Turn ends when Context does, and when a batch of Wait is to give up its place for
// other held keys: what it then leaves undone is tried again with the groups.
func (b *Batch[K, I]) Turn() context.Context { return b.turn }

// Done says that a task was carried out, whatever came of it: its caller goes on
// at once. It is called once at the most, and before the batch's function
// returns. A task without Done or Return is of a key that is held.
func (b *Batch[K, I]) Done(t *Task[K, I]) { close(t.done) }

// Return says that a task was not carried out although its key is not held. It
// is the first of its key in a later batch, and so are, behind it, those tasks
// of its key that came after it in this batch and are not done.
func (b *Batch[K, I]) Return(t *Task[K, I]) { t.returned = true }

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

// queue is the items of one key. It exists while there are any, or a batch has
// some.
type queue[K comparable, I any] struct {
	key   K
	tasks list[*Task[K, I]]
	size  Size // of tasks
	// knocking are those for whom there is no room, behind tasks.
	knocking list[*Task[K, I]]
	room     *room[K, I]

	turn   node[*queue[K, I]] // in turns, in held or in resting
	door   node[*queue[K, I]] // in the room's list of those who knock
	flying bool               // in a batch
	isHeld bool               // as the batch that has just ended found

	// tried is how often a group found the key held since it last was not.
	tried int
	at    time.Duration // of the next try, since the Scheduler's start
	index int           // in tries
	// turns is how many turns to wait it has had in vain since it last was not
	// held. It has none before next, since the Scheduler's start.
	turns int
	next  time.Duration
}

func newQueue[K comparable, I any](key K, in *room[K, I]) *queue[K, I] {
	q := &queue[K, I]{key: key, room: in, index: -1}
	q.turn.value, q.door.value = q, q
	return q
}

// ready gives a queue with items its place among the turns, if it has none.
func (s *Scheduler[K, I]) ready(q *queue[K, I]) {
	if !q.flying && q.tasks.length > 0 && q.turn.in == nil {
		s.turns.pushBack(&q.turn)
	}
}

// rest takes a queue that has nothing to carry out from all lists, and forgets
// it when nobody knocks either.
func (s *Scheduler[K, I]) rest(q *queue[K, I]) {
	if q.flying {
		return
	}
	q.turn.remove()
	s.tries.remove(q)
	q.tried, q.turns, q.next = 0, 0, 0
	s.move(q, &s.free)
	if q.tasks.length == 0 && q.knocking.length == 0 {
		delete(s.queues, q.key)
	}
}
