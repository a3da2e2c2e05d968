package scheduler

import "sync"

// Budget bounds the groups that several schedulers have under way together. A scheduler that is
// refused gets the next place that is free, in the order of the refusals, so that none starves
// another. It is safe for concurrent use.
type Budget struct {
	mu     sync.Mutex
	places int
	// refused are functions that give a place to a scheduler that was refused, and report
	// whether it still has use for it.
	refused []func() bool
}

// NewBudget returns a budget of places.
func NewBudget(places int) *Budget { return &Budget{places: places} }

// take takes a place. If there is none it reports false, and grant is called once with a place,
// later and by another goroutine.
func (b *Budget) take(grant func() bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.places > 0 {
		b.places--
		return true
	}
	b.refused = append(b.refused, grant)
	return false
}

// give gives a place back. It must be called without a scheduler's lock.
func (b *Budget) give() {
	for granted := false; !granted; {
		grant := b.next()
		granted = grant == nil || grant()
	}
}

// next returns the function of the first refusal. Nil: there is none, and the place is free.
func (b *Budget) next() (grant func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.refused) == 0 {
		b.places++
		return nil
	}
	grant, b.refused = b.refused[0], b.refused[1:]
	return grant
}

// place takes a place for a group of the budget's. If it is refused, it gets one later.
func (s *Scheduler[K, I]) place() bool {
	switch {
	case s.config.Budget == nil:
		return true
	case s.granted > 0:
		s.granted--
		return true
	case s.refused:
		return false
	}
	s.refused = !s.config.Budget.take(s.grant)
	return !s.refused
}

// mayPlace reports whether place is worth a try.
func (s *Scheduler[K, I]) mayPlace() bool { return !s.refused || s.granted > 0 }

// grant takes a place that was refused before, unless there is nothing to begin by now.
func (s *Scheduler[K, I]) grant() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = false
	if (s.turns.length == 0 || !s.mayGroup()) && !s.mayShare() {
		s.awaitLate()
		return false
	}
	s.granted++
	s.begin()
	return true
}

// giveBack gives the places back for which there was no use.
func (s *Scheduler[K, I]) giveBack(places int) {
	for range places {
		s.config.Budget.give()
	}
}
