package follow

import (
	"context"
	"slices"
	"sync"
	"time"
)

// WaitersConfig says how Waiters find what no hint announced. All fields but Ordered are required.
type WaitersConfig[F any] struct {
	// Poll reports for each filter whether there may be something to take.
	Poll func(ctx context.Context, filters []F) ([]bool, error)
	// Passes reports whether an error of Poll may pass, so that the next poll may
	// succeed. Otherwise the waiting callers look, to get the error.
	Passes func(err error) bool
	// Interval is the time between two polls.
	Interval func() time.Duration
	// Ordered: the callers of a class look in the order in which they came, and one that
	// has found something wakes only the next one.
	Ordered bool
}

// Waiters lets callers wait until there is something to take, such as work in a queue,
// which each of them then takes for itself. It only says when a look is worth it. Callers
// with the same filter are a class. A hint wakes one of each class that it concerns, and
// a caller that has found something wakes two more: so a hint about one thing wakes few,
// and one about many wakes all in the end. It is safe for concurrent use. NewWaiters
// makes one.
type Waiters[F any] struct {
	config  WaitersConfig[F]
	ctx     context.Context // ends with Close
	close   context.CancelFunc
	running sync.WaitGroup
	poke    chan struct{} // has an element if the next poll is due at once

	mu      sync.Mutex
	closed  bool
	classes map[string]*class[F]
	polling bool // a goroutine polls
}

// class has the callers that wait with one filter.
type class[F any] struct {
	key    string
	filter F
	about  [][16]byte
	// parked are the callers that have found nothing, in the order of their waiting; if that is
	// Ordered, of their coming.
	parked []sleeper
	// came is the number of callers that have come.
	came int64
	// looking is the number of the others, at most one if they are ordered.
	looking int
	ordered bool
	// missed: there was a hint while none was parked.
	missed bool
}

// sleeper is a caller that waits.
type sleeper struct {
	woken chan struct{}
	place int64
}

// NewWaiters returns Waiters. The caller must close it.
func NewWaiters[F any](config WaitersConfig[F]) *Waiters[F] {
	w := &Waiters[F]{config: config, poke: make(chan struct{}, 1), classes: map[string]*class[F]{}}
	w.ctx, w.close = context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	return w
}

// Close ends all waits, and waits for the poll.
func (w *Waiters[F]) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.close()
	w.running.Wait()
}

// Waiting returns the number of waiting callers.
func (w *Waiters[F]) Waiting() (waiting int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.classes {
		waiting += len(c.parked) + c.looking
	}
	return waiting
}

// Await calls look until it finds something or fails, and waits in between until there
// may be something new. It returns look's error, the context's, or ErrClosed, also when stop is
// closed. key identifies the filter, and about is what hints about it have.
func (w *Waiters[F]) Await(
	ctx context.Context, stop <-chan struct{}, key string, filter F, about [][16]byte, look func() (found bool, err error),
) error {
	c, place, behind, err := w.enter(key, filter, about)
	if err != nil {
		return err
	}
	wakes := 1 // a look that fails, or is broken off, may leave something to others
	defer func() { w.leave(c, wakes) }()
	for parks, missed := behind, false; ; parks, missed = true, true {
		if parks {
			if err := w.park(ctx, stop, c, place, missed); err != nil {
				return err
			}
		}
		found, err := look()
		switch {
		case found:
			if !w.config.Ordered {
				wakes = 2
			}
			return err
		case err != nil:
			return err
		}
	}
}

// enter returns the place of a caller in its class, and whether others come first.
func (w *Waiters[F]) enter(key string, filter F, about [][16]byte) (c *class[F], place int64, behind bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, 0, false, ErrClosed
	}
	c = w.classes[key]
	if c == nil {
		c = &class[F]{key: key, filter: filter, about: about, ordered: w.config.Ordered}
		w.classes[key] = c
	}
	behind = c.ordered && c.looking+len(c.parked) > 0
	c.looking++
	c.came++
	if !w.polling {
		w.polling = true
		w.running.Go(w.poll)
	}
	return c, c.came, behind, nil
}

// leave ends the wait of a caller that was looking, and wakes others.
func (w *Waiters[F]) leave(c *class[F], wakes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.looking--
	for range wakes {
		c.wake()
	}
	if c.looking == 0 && len(c.parked) == 0 {
		delete(w.classes, c.key)
	}
}

// park waits until a look is worth it. missed: a hint that came while none was parked counts.
func (w *Waiters[F]) park(ctx context.Context, stop <-chan struct{}, c *class[F], place int64, missed bool) error {
	woken := make(chan struct{})
	w.mu.Lock()
	if c.missed && missed {
		c.missed = false
		w.mu.Unlock()
		return nil
	}
	c.looking--
	at := len(c.parked)
	for c.ordered && at > 0 && c.parked[at-1].place > place {
		at--
	}
	c.parked = slices.Insert(c.parked, at, sleeper{woken, place})
	w.mu.Unlock()
	var err error
	select {
	case <-woken:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-stop:
		err = ErrClosed
	case <-w.ctx.Done():
		err = ErrClosed
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// Otherwise it was woken meanwhile, and counts as looking already.
	if at := slices.Index(c.parked, sleeper{woken, place}); at >= 0 {
		c.parked = slices.Delete(c.parked, at, at+1)
		c.looking++
	}
	return err
}

// wake wakes the first parked caller; if they are ordered, once none looks.
func (c *class[F]) wake() {
	if len(c.parked) == 0 || c.ordered && c.looking > 0 {
		c.missed = c.looking > 0
		return
	}
	c.missed = false
	close(c.parked[0].woken)
	c.parked = slices.Delete(c.parked, 0, 1)
	c.looking++
}

// Tell gives hints. It is quick.
func (w *Waiters[F]) Tell(about ...[16]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.classes {
		if slices.ContainsFunc(about, func(one [16]byte) bool { return slices.Contains(c.about, one) }) {
			c.wake()
		}
	}
}

// Poke makes the next poll due at once.
func (w *Waiters[F]) Poke() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// poll polls at an interval, and ends when no caller waits.
func (w *Waiters[F]) poll() {
	for {
		timer := time.NewTimer(w.config.Interval())
		select {
		case <-timer.C:
		case <-w.poke:
			timer.Stop()
		case <-w.ctx.Done():
			timer.Stop()
			return
		}
		classes, filters := w.waiting()
		if classes == nil {
			return
		}
		if len(filters) == 0 {
			continue
		}
		some, err := w.config.Poll(w.ctx, filters)
		if err != nil && w.config.Passes(err) {
			continue // until the database is back
		}
		w.mu.Lock()
		for i, c := range classes {
			// A caller that is looking finds it, or has it already. A caller that gets an
			// error wakes the next one.
			if (err != nil || some[i]) && len(c.parked) > 0 {
				c.wake()
			}
		}
		w.mu.Unlock()
	}
}

// waiting returns the classes with parked callers. It returns nil, and the caller must
// end, if no caller waits at all.
func (w *Waiters[F]) waiting() ([]*class[F], []F) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.classes) == 0 || w.closed {
		w.polling = false
		return nil, nil
	}
	classes, filters := []*class[F]{}, []F{}
	for _, c := range w.classes {
		if len(c.parked) > 0 {
			classes, filters = append(classes, c), append(filters, c.filter)
		}
	}
	return classes, filters
}
