// Package scheduler decides which waiting items are processed together, and when. It
// does not know what an item is: a function of the caller's processes a batch of them.
// The package contains no SQL, and does not use the network.
//
// An item belongs to a key. The items of a key are processed in the order in which
// they were submitted, and a key is in one batch at a time.
//
// There are two kinds of batches. A group has items of many keys, and its function
// never waits for a key: it skips the items of a key that is locked elsewhere. Such a
// key is then locked. It leaves the groups, and its items wait separately, in a batch of
// only that key, whose function may wait for it. The number of these batches is
// bounded. Locked keys that do not get one are retried with the groups, after a growing
// pause. So a locked key never delays the items of others.
//
// Items that share something with items of other keys have a group of their own, and at
// most one of them is under way: two would find what they share locked by each other.
//
// No timer delays an item whose key is not locked: it is processed at once if another
// batch may begin (mayGroup), and otherwise with the next one. A group that is late delays no
// other: one may begin beside it.
package scheduler

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// The errors of Submit for an item that was not processed, or may not have been.
var (
	// ErrWithdrawn: the context ended before the item was in a batch, or after a
	// batch returned it. A batch that returned it has not processed it, and no batch
	// will.
	ErrWithdrawn = errors.New("scheduler: withdrawn")
	// ErrLeft: the context ended while the item was in a batch, which goes on. If Config.Sent says
	// that it is being carried out, its caller has waited for Config.Settle in vain.
	ErrLeft = errors.New("scheduler: context ended while the item was carried out")
	// ErrFull: too many callers wait for room. The item was not processed.
	ErrFull = errors.New("scheduler: too many items are waiting")
	// ErrClosed: Close was called. The item was not processed.
	ErrClosed = errors.New("scheduler: closed")
)

// Size is the size of an item. Neither field may be negative.
type Size struct{ Rows, Bytes int }

func (s Size) exceeds(limit Size) bool { return s.Rows > limit.Rows || s.Bytes > limit.Bytes }

// Limits are all positive. An item that is larger than a limit has a batch of its own.
type Limits struct {
	// GroupRows and GroupBytes end a batch.
	GroupRows, GroupBytes int
	// ShareRows bounds the rows of one key in a group while others wait.
	ShareRows int

	// Items, Rows and Bytes bound the waiting items. Locked keys have bounds of the
	// same size to themselves, so that their items take no room from others.
	Items, Rows, Bytes int
	// Callers bounds the callers that wait for room, for locked keys and for others.
	Callers int
}

// Config says how a Scheduler works. K is the key.
type Config[K comparable, I any] struct {
	Limits
	// Budget, if set, bounds the groups under way of all schedulers that have it.
	Budget *Budget
	// Groups bounds the groups under way, and Waits the batches of locked keys.
	// Groups is at least 1; if Waits is 0, locked keys are only retried with groups.
	Groups, Waits int
	// Unordered: the items of a key may be in several batches, in any order.
	Unordered bool
	// Group processes a group. It must not wait for a key that is locked elsewhere,
	// but skip its items.
	Group func(*Batch[K, I])
	// Wait processes a batch of one key, and may wait for the key.
	Wait func(*Batch[K, I])
	// Sent, if set, reports whether a batch is carrying an item out, whose caller wants to leave. If
	// it is not, no batch may carry it out later. Otherwise the caller stays until the item is done or
	// put back, for Settle at most, so that it learns what has become of it.
	Sent   func(I) bool
	Settle time.Duration
	// Shares, if set, reports whether an item shares something that its function locks
	// with items of other keys. The group of these items is not among Groups.
	Shares func(I) bool
	// MayWait, if set, is called before Wait. It must be quick, must not call the
	// Scheduler, and is called by one goroutine at a time.
	MayWait func() bool
}

// Scheduler is safe for concurrent use. New makes one.
type Scheduler[K comparable, I any] struct {
	config Config[K, I]
	start  time.Time // of the monotonic clock that tries go by

	submitting sync.WaitGroup // calls of Submit
	running    sync.WaitGroup // goroutines that process batches

	mu     sync.Mutex
	closed bool
	queues map[K]*queue[K, I]
	// turns are the keys with items that wait for a group, in order.
	turns list[*queue[K, I]]
	// sharers are queues whose first item shares something. sharing: a group of
	// such items is under way.
	sharers list[*queue[K, I]]
	sharing bool
	// locked are the keys that wait for a batch of Wait, in the order in which they were
	// found locked. resting are keys that had one in vain. tries has both, by the time
	// of their next retry with a group.
	locked, resting list[*queue[K, I]]
	tries           tries[K, I]
	timer           *time.Timer
	// free bounds the items of keys that are not locked, apart the items of locked keys.
	free, apart room[K, I]

	// begun are the groups under way, without the group of items that share something, in the
	// order in which they began.
	begun list[*Batch[K, I]]
	// late rings when the newest of them is late, if items wait for that.
	late    *time.Timer
	ringing bool

	gathering bool // a goroutine is about to begin batches
	// refused: the budget had no place. granted are the places that it gave since.
	refused bool
	granted int

	waits   int   // batches of Wait under way
	batches int64 // so far
}

// New returns a Scheduler. The caller must close it.
func New[K comparable, I any](config Config[K, I]) *Scheduler[K, I] {
	s := &Scheduler[K, I]{config: config, start: time.Now(), queues: map[K]*queue[K, I]{}}
	s.free.limits, s.apart.limits = config.Limits, config.Limits
	return s
}

// Submit submits an item, and returns nil when it was processed. If there is no room it
// waits for some. Errors: ErrWithdrawn, ErrLeft, ErrFull, ErrClosed.
func (s *Scheduler[K, I]) Submit(ctx context.Context, key K, item I, size Size) error {
	t := &Task[K, I]{Key: key, Item: item, size: size, done: make(chan struct{})}
	t.place.value = t
	t.shares = s.config.Shares != nil && s.config.Shares(item)
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
	}
	if s.stay(t) {
		timer := time.NewTimer(s.config.Settle)
		defer timer.Stop()
		select {
		case <-t.done:
			return nil
		case <-t.undone:
			return ErrWithdrawn
		case <-timer.C:
		}
	}
	return s.withdraw(t)
}

// stay reports whether an item whose caller's context has ended is being carried out. An item of a
// locked key is given up: a batch of Wait ends with the contexts of its callers.
func (s *Scheduler[K, I]) stay(t *Task[K, I]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := t.batch
	if b == nil || t.isDone() || s.config.Sent == nil || !s.config.Sent(t.Item) {
		return false
	}
	t.undone = make(chan struct{})
	b.staying++
	b.cancelIfIdle()
	return true
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
	s.begin()
	return nil
}

// withdraw removes an item whose caller's context has ended. If the item is in no batch,
// its room is free at once.
func (s *Scheduler[K, I]) withdraw(t *Task[K, I]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-t.done: // at the same moment
		return nil
	case <-t.undone: // likewise
		return ErrWithdrawn
	default:
	}
	if b := t.batch; b != nil {
		t.left = true
		b.callers--
		if t.undone != nil {
			b.staying--
		}
		b.cancelIfIdle()
		return ErrLeft
	}
	q := t.queue
	q.room.leave(q, t)
	if q.tasks.length == 0 {
		s.rest(q)
	} else {
		s.relist(q)
	}
	s.refill(q.room)
	s.spawn(s.next())
	return ErrWithdrawn
}

// Close refuses later items. It returns when all calls of Submit have returned, and no
// batch is under way.
func (s *Scheduler[K, I]) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.submitting.Wait()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, timer := range []*time.Timer{s.timer, s.late} {
		if timer != nil {
			timer.Stop()
		}
	}
}

// begin starts a goroutine that begins batches, if any may begin.
func (s *Scheduler[K, I]) begin() {
	if !s.gathering && (s.mayGroup() || s.mayShare() || s.mayWait()) {
		s.gathering = true
		s.running.Go(func() { s.work(s.gather()) })
	}
	s.awaitLate()
}

// gather begins the batches that may begin now. Before that it yields to other
// goroutines for as long as they submit more items. Above all these are the callers of
// a batch that has just ended: they submit their next items at once, which would
// otherwise have to wait for a batch that began without them. This is not a wait:
// without submissions it takes less than a microsecond. One goroutine gathers at a
// time. It returns one of the batches, for the caller to process.
func (s *Scheduler[K, I]) gather() *Batch[K, I] {
	s.mu.Lock()
	defer s.mu.Unlock()
	for before := -1; s.free.items > before && s.free.rows < s.config.GroupRows; {
		before = s.free.items
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	s.gathering = false
	batches := s.next()
	if unused := s.granted; unused > 0 {
		s.granted = 0
		s.mu.Unlock()
		s.giveBack(unused)
		s.mu.Lock()
	}
	if len(batches) == 0 {
		return nil
	}
	s.spawn(batches[1:])
	return batches[0]
}

// spawn starts a goroutine for each batch.
func (s *Scheduler[K, I]) spawn(batches []*Batch[K, I]) {
	for _, b := range batches {
		s.running.Go(func() { s.work(b) })
	}
}

// work processes batches until no other may begin.
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

// after puts back the tasks that a batch left undone, and begins the batches that may
// begin now. It returns one of them for this goroutine, if any.
func (s *Scheduler[K, I]) after(b *Batch[K, I]) (next *Batch[K, I]) {
	s.mu.Lock()
	s.settle(b)
	gathering := s.gathering // another goroutine does
	s.gathering = true
	s.mu.Unlock()
	if b.placed {
		s.giveBack(1)
	}
	if gathering {
		return nil
	}
	return s.gather()
}

// next makes all batches that may begin now.
func (s *Scheduler[K, I]) next() (batches []*Batch[K, I]) {
	for s.locked.length > 0 && s.mayWait() {
		// The last was found locked most recently. The others are likely to be locked for
		// longer still.
		batches = append(batches, s.takeWait(s.locked.last.value))
	}
	if s.mayShare() && s.place() {
		batches = append(batches, s.takeSharers())
	}
	for s.turns.length > 0 && s.mayGroup() {
		// If only one key has items, and more than one, a batch of Wait serves as well
		// as a group, and saves the attempt without waiting.
		if first := s.turns.first.value; s.turns.length == 1 && first.tasks.length > 1 && first.tried == 0 && s.mayWait() {
			batches = append(batches, s.takeWait(first))
			continue
		}
		if !s.place() {
			break
		}
		batches = append(batches, s.takeGroup())
	}
	s.awaitLate()
	return batches
}

func (s *Scheduler[K, I]) mayShare() bool {
	return !s.sharing && s.sharers.length > 0 && s.mayPlace()
}

func (s *Scheduler[K, I]) mayWait() bool {
	return s.waits < s.config.Waits && (s.config.MayWait == nil || s.config.MayWait())
}

// A group begins beside another one only if there is much to do: each has a fixed cost, and items
// that wait meanwhile make the next one larger. Measured on two cores, relative to one row at a
// time: 4 writers reach 0.94 with one group at a time and 0.80 with two, 16 reach 1.44 and 1.40,
// 64 reach 2.92 and 2.68, but 256 reach 3.2 and 4.3, and 16 writers of 100 kB 0.63 and 0.78. More
// than two were not faster, and neither was a number found by experiment while the load lasts.
var much = Size{Rows: 128, Bytes: 64 << 10}

func (s *Scheduler[K, I]) isMuch() bool {
	return s.free.rows >= much.Rows || s.free.bytes >= much.Bytes
}

// mayGroup reports whether another group may begin.
func (s *Scheduler[K, I]) mayGroup() bool {
	under := s.begun.length
	return (under == 0 || under < s.config.Groups && (s.isMuch() || s.lateIn() <= 0)) && s.mayPlace()
}

// lateAfter is for how long a group is expected to be under way. One that takes longer may be stuck
// at the server, or have lost it, and another may begin beside it, however little there is to do.
const lateAfter = 50 * time.Millisecond

// lateIn returns when the newest group that is under way is late.
func (s *Scheduler[K, I]) lateIn() time.Duration {
	return lateAfter - time.Since(s.begun.last.value.at)
}

// awaitLate has groups begin when the newest one is late, if items wait for that. The timer is
// set only if it does not run already.
func (s *Scheduler[K, I]) awaitLate() {
	if under := s.begun.length; s.ringing || s.turns.length == 0 || under == 0 || under >= s.config.Groups ||
		!s.mayPlace() {
		return
	}
	pause := s.lateIn()
	if pause <= 0 {
		return // a goroutine is about to begin one
	}
	s.ringing = true
	if s.late == nil {
		s.late = time.AfterFunc(pause, s.ring)
		return
	}
	s.late.Reset(pause)
}

func (s *Scheduler[K, I]) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ringing = false
	if s.turns.length > 0 {
		s.begin()
	}
}
