package follow

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
)

// Fake time: the tests with times run in bubbles of synctest.

// takeaway is what waiting callers take from: things of kinds.
type takeaway struct {
	t       *testing.T
	ctx     context.Context // bounds the whole test
	waiters *Waiters[string]
	looks   atomic.Int64
	polls   atomic.Int64

	mu     sync.Mutex
	things map[string]int
}

// newTakeaway makes a store whose poll comes after interval.
func newTakeaway(t *testing.T, interval time.Duration) *takeaway {
	t.Helper()
	s := &takeaway{t: t, ctx: await.Context(t), things: map[string]int{}}
	s.waiters = NewWaiters(WaitersConfig[string]{
		Poll: func(_ context.Context, kinds []string) ([]bool, error) {
			s.polls.Add(1)
			some := make([]bool, len(kinds))
			s.mu.Lock()
			defer s.mu.Unlock()
			for i, kind := range kinds {
				some[i] = s.things[kind] > 0
			}
			return some, nil
		},
		Passes:   func(error) bool { return true },
		Interval: func() time.Duration { return interval },
	})
	t.Cleanup(s.waiters.Close)
	return s
}

func aboutKind(kind string) (about [16]byte) {
	copy(about[:], kind)
	return about
}

// add adds things without a hint.
func (s *takeaway) add(kind string, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.things[kind] += count
}

func (s *takeaway) left(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.things[kind]
}

// take waits until it has one thing.
func (s *takeaway) take(ctx context.Context, stop <-chan struct{}, kind string) error {
	return s.waiters.Await(ctx, stop, kind, kind, [][16]byte{aboutKind(kind), aboutKind("all")}, func() (bool, error) {
		s.looks.Add(1)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.things[kind] == 0 {
			return false, nil
		}
		s.things[kind]--
		return true, nil
	})
}

// parked waits until so many wait.
func (s *takeaway) parked(count int) {
	s.t.Helper()
	await.For(s.t, "all to be parked", func() bool {
		s.waiters.mu.Lock()
		defer s.waiters.mu.Unlock()
		parked := 0
		for _, c := range s.waiters.classes {
			parked += len(c.parked)
		}
		return parked == count
	})
}

// begin has so many wait for one thing each, and returns what waits for them.
func (s *takeaway) begin(count int, kind string) (wait func()) {
	var running sync.WaitGroup
	for range count {
		running.Go(func() {
			if err := s.take(s.ctx, nil, kind); err != nil {
				s.t.Error(err)
			}
		})
	}
	return running.Wait
}

// One hint about many things wakes, in the end, as many as there are things, and one about
// one thing only a few.
func TestWaitersWakeOneAnother(t *testing.T) {
	s := newTakeaway(t, time.Hour)
	wait := s.begin(50, "a")
	s.parked(50)
	s.add("a", 1)
	s.waiters.Tell(aboutKind("a"))
	s.parked(49)
	if looks := s.looks.Load(); looks > 50+4 {
		t.Errorf("%d looks for one thing", looks)
	}
	s.add("a", 49)
	s.waiters.Tell(aboutKind("a"))
	wait()
	if left := s.left("a"); left != 0 {
		t.Errorf("%d are left", left)
	}
	if len(s.waiters.classes) > 0 {
		t.Error("classes are left")
	}
}

// A hint wakes one of each class that it concerns, and no other.
func TestWaitersClasses(t *testing.T) {
	s := newTakeaway(t, time.Hour)
	waitA, waitB := s.begin(2, "a"), s.begin(2, "b")
	s.parked(4)
	s.waiters.Tell(aboutKind("c"))
	if looks := s.looks.Load(); looks != 4 {
		t.Errorf("%d looks", looks)
	}
	s.add("b", 2)
	s.waiters.Tell(aboutKind("all"))
	waitB()
	s.parked(2)
	s.add("a", 2)
	s.waiters.Tell(aboutKind("a"))
	waitA()
}

// A hint that comes while the only waiting caller looks is not lost.
func TestWaitersHintMeanwhile(t *testing.T) {
	s := newTakeaway(t, time.Hour)
	looks := 0
	err := s.waiters.Await(s.ctx, nil, "a", "a", [][16]byte{aboutKind("a")}, func() (bool, error) {
		if looks++; looks == 1 {
			s.waiters.Tell(aboutKind("a"))
		}
		return looks == 2, nil
	})
	if err != nil || looks != 2 {
		t.Errorf("%d looks, %v", looks, err)
	}
}

// A caller that was woken and gives up, or whose look fails, leaves the hint to the next one.
func TestWaitersPassHintsOn(t *testing.T) {
	for _, failure := range []error{errors.New("failed"), context.Canceled} {
		s := newTakeaway(t, time.Hour)
		first := make(chan error, 1)
		looks := 0
		go func() {
			first <- s.waiters.Await(s.ctx, nil, "a", "a", [][16]byte{aboutKind("a")}, func() (bool, error) {
				if looks++; looks == 1 {
					return false, nil
				}
				return false, failure
			})
		}()
		s.parked(1)
		wait := s.begin(1, "a")
		s.parked(2)
		s.add("a", 1)
		s.waiters.Tell(aboutKind("a"))
		wait()
		if err := <-first; !errors.Is(err, failure) {
			t.Errorf("the first ended with %v", err)
		}
	}
}

// What no hint is about is found by the poll, which runs only while a caller waits.
func TestWaitersPoll(t *testing.T) {
	s := newTakeaway(t, time.Millisecond)
	wait := s.begin(3, "a")
	s.parked(3)
	before := s.looks.Load()
	polls := s.polls.Load()
	await.For(s.t, "polls", func() bool { return s.polls.Load() > polls+3 })
	if looks := s.looks.Load(); looks != before {
		t.Errorf("%d looks for nothing", looks-before)
	}
	s.add("a", 3)
	wait()
	await.For(s.t, "the end of the poll", func() bool {
		s.waiters.mu.Lock()
		defer s.waiters.mu.Unlock()
		return !s.waiters.polling
	})
	wait = s.begin(1, "a")
	s.add("a", 1)
	wait()
	slow := newTakeaway(t, time.Hour)
	wait = slow.begin(1, "a")
	slow.parked(1)
	slow.add("a", 1)
	slow.waiters.Poke()
	wait()
}

func TestWaitersEnd(t *testing.T) {
	s := newTakeaway(t, time.Hour)
	ctx, cancel := context.WithCancel(s.ctx)
	stop := make(chan struct{})
	ended := make(chan error, 3)
	go func() { ended <- s.take(ctx, nil, "a") }()
	s.parked(1)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	go func() { ended <- s.take(s.ctx, stop, "a") }()
	go func() { ended <- s.take(s.ctx, nil, "a") }()
	s.parked(2)
	close(stop)
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("ended with %v", err)
	}
	s.waiters.Close()
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("ended with %v", err)
	}
	if err := s.take(s.ctx, nil, "a"); !errors.Is(err, ErrClosed) {
		t.Errorf("ended with %v", err)
	}
}

// Callers that wait in order take in the order in which they came, also one that has looked in vain,
// and before one that comes later.
func TestWaitersOrdered(t *testing.T) {
	s := newTakeaway(t, time.Hour)
	s.waiters.config.Ordered = true
	const count = 20
	took := make(chan int, count)
	var running sync.WaitGroup
	for i := range count {
		running.Go(func() {
			if err := s.take(s.ctx, nil, "a"); err != nil {
				t.Error(err)
			}
			took <- i
		})
		s.parked(i + 1)
	}
	s.waiters.Tell(aboutKind("a")) // in vain
	await.For(s.t, "a look", func() bool { return s.looks.Load() >= 2 })
	s.parked(count)
	for i := range count {
		s.add("a", 1)
		s.waiters.Tell(aboutKind("a"))
		if got := <-took; got != i {
			t.Errorf("%d was before %d", got, i)
		}
	}
	running.Wait()
	if looks := s.looks.Load(); looks > 2*count+2 {
		t.Errorf("%d looks", looks)
	}
}
