// Package scheduler decides which of the items that wait are carried out
// together, and when. It knows neither what an item is nor how it is carried
// out: a function given from outside does that for a batch of them. There is no
// SQL here, and no network.
//
// An item belongs to a key. The items of a key are carried out in the order in
// which they came, and a key is in one batch at a time.
//
// There are two kinds of batches. A group has items of many keys, and its
// function never waits for a key: a key that somebody outside holds is left
// undone. Such a key is then held. It leaves the groups, and its items wait
// apart: in a batch of that one key, whose function may wait for it. These are
// bounded in number. Held keys that find no place there are tried again with the
// groups, after a pause that grows. So whoever holds keys stops nobody else.
//
// No timer delays an item whose key is not held: what waits goes at once if
// another batch may begin (load.go), else with the next one.
package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"
)

// What Submit answers when an item was not carried out, or may not have been.
var (
	// ErrWithdrawn: the context ended before the item was in a batch, or after
	// a batch gave it back. It was not carried out, by the batches that gave it
	// back, and never will be.
	ErrWithdrawn = errors.New("scheduler: withdrawn")
	// ErrLeft: the context ended while the item was in a batch, which goes on.
	ErrLeft = errors.New("scheduler: context ended while the item was carried out")
	// ErrFull: too many wait for room already. The item was not carried out.
	ErrFull = errors.New("scheduler: too many items are waiting")
	// ErrClosed: Close was called. The item was not carried out.
	ErrClosed = errors.New("scheduler: closed")
)

// Size is what an item takes of the bounds. Neither may be negative.
type Size struct{ Rows, Bytes int }

func (s Size) exceeds(limit Size) bool { return s.Rows > limit.Rows || s.Bytes > limit.Bytes }

// Limits are all positive. An item that is larger than a limit goes alone.
type Limits struct {
	// GroupRows and GroupBytes end a batch.
	GroupRows, GroupBytes int
	// ShareRows is what one key may have of a group while others wait.
	ShareRows int

	// Items, Rows and Bytes bound what waits. Held keys have as much again to
	// themselves, so that what waits for them takes nobody's room.
	Items, Rows, Bytes int
	// Callers bounds those who wait for room, of held keys and of others.
	Callers int
}

// Config says how a Scheduler works. K is the key.
type Config[K comparable, I any] struct {
	Limits
	// Groups bounds the groups under way, and Waits the batches of held keys.
	// Groups is at least 1; without Waits held keys are only tried again.
	Groups, Waits int
	// Group carries out a group, and must not wait for a key that is held
	// outside. Items of such a key it leaves undone.
	Group func(*Batch[K, I])
	// Wait carries out a batch of one key, and may wait for it.
	Wait func(*Batch[K, I])
	// MayWait, where it is set, is asked before Wait is called, and quick. It is
	// called by one goroutine at a time, and must not call the Scheduler.
	MayWait func() bool
}

// Scheduler is safe for concurrent use. New makes one.
type Scheduler[K comparable, I any] struct {
	config Config[K, I]
	start  time.Time // of the monotonic clock that tries go by

	submitting sync.WaitGroup // calls of Submit
	running    sync.WaitGroup // goroutines that carry out batches

	mu     sync.Mutex
	closed bool
	queues map[K]*queue[K, I]
	// turns are the keys with items that wait for a group, in their order.
	turns list[*queue[K, I]]
	// held are the keys that wait for a place apart, the last found held last, and
	// resting those that had one in vain. tries are both by the time of their next
	// try with a group.
	held, resting list[*queue[K, I]]
	tries         tries[K, I]
	timer         *time.Timer
	// What waits, and for whom there is no room: of keys that are not held, and
	// of those that are.
	free, apart room[K, I]

	groups int // groups under way, and batches that went alone because nobody else waited
	waits  int // batches of Wait under way
	load   load
}

// New returns a Scheduler. Whoever made it closes it.
func New[K comparable, I any](config Config[K, I]) *Scheduler[K, I] {
	s := &Scheduler[K, I]{config: config, start: time.Now(), load: newLoad(config.Groups), queues: map[K]*queue[K, I]{}}
	s.free.limits, s.apart.limits = config.Limits, config.Limits
	return s
}

// Submit has an item carried out and returns nil when it was. Where there is no
// room it waits for some. Errors: ErrWithdrawn, ErrLeft, ErrFull, ErrClosed.
func (s *Scheduler[K, I]) Submit(ctx context.Context, key K, item I, size Size) error {
	t := &Task[K, I]{Key: key, Item: item, size: size, done: make(chan struct{})}
	t.place.value = t
	if ctx.Err() != nil {
		return ErrWithdrawn
	}
	if err := s.accept(t); err != nil {
		return err
	}
	defer s.submitting.Done()
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return s.withdraw(t)
	}
}

func (s *Scheduler[K, I]) accept(t *Task[K, I]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	q := s.queues[t.Key]
	if q == nil {
		q = newQueue[K, I](t.Key, &s.free)
	}
	if !q.room.enter(q, t) {
		return ErrFull
	}
	s.queues[t.Key] = q
	t.queue = q
	s.submitting.Add(1)
	s.ready(q)
	s.spawn(s.next())
	return nil
}

// withdraw takes back an item whose caller goes. Its place and its bytes are
// free at once.
func (s *Scheduler[K, I]) withdraw(t *Task[K, I]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-t.done: // at the same moment
		return nil
	default:
	}
	if b := t.batch; b != nil {
		t.left = true
		b.callers--
		if b.callers == 0 {
			b.cancel()
		}
		return ErrLeft
	}
	q := t.queue
	q.room.leave(q, t)
	if q.tasks.length == 0 {
		s.rest(q)
	}
	s.refill(q.room)
	s.spawn(s.next())
	return ErrWithdrawn
}

// Close refuses later items, waits until each that was submitted is answered or
// its caller gone, and until no batch is under way.
func (s *Scheduler[K, I]) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.submitting.Wait()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}

// spawn begins batches.
func (s *Scheduler[K, I]) spawn(batches []*Batch[K, I]) {
	for _, b := range batches {
		s.running.Go(func() { s.work(b) })
	}
}

// work carries out batch after batch until none may begin.
func (s *Scheduler[K, I]) work(b *Batch[K, I]) {
	for b != nil {
		if b.wait {
			s.config.Wait(b)
		} else {
			s.config.Group(b)
		}
		b.cancel()
		b = s.after(b)
	}
}

// after puts back what a batch left undone, and begins what may begin now. One
// batch goes on in this goroutine.
func (s *Scheduler[K, I]) after(b *Batch[K, I]) (next *Batch[K, I]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(b)
	batches := s.next()
	if len(batches) == 0 {
		return nil
	}
	s.spawn(batches[1:])
	return batches[0]
}

// next takes all batches that may begin now.
func (s *Scheduler[K, I]) next() (batches []*Batch[K, I]) {
	for s.held.length > 0 && s.mayWait() {
		// The last: new ones, and those that are tried often. The others have
		// waited in vain for longer.
		batches = append(batches, s.takeWait(s.held.last.value))
	}
	for s.turns.length > 0 && s.mayGroup() {
		// Where many items of one key wait and nothing else, the batch may as well
		// be one that waits for its key, which saves the try.
		if first := s.turns.first.value; s.turns.length == 1 && first.tasks.length > 1 && first.tried == 0 && s.mayWait() {
			b := s.takeWait(first)
			b.alone = true
			s.groups++
			batches = append(batches, b)
			continue
		}
		batches = append(batches, s.takeGroup())
	}
	return batches
}

func (s *Scheduler[K, I]) mayWait() bool {
	return s.waits < s.config.Waits && (s.config.MayWait == nil || s.config.MayWait())
}
