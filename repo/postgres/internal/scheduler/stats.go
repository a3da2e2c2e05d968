package scheduler

// Stats says what a Scheduler is doing.
type Stats struct {
	// Waiting are the items that wait for a batch or for room; Locked are the ones of them whose keys are locked.
	Waiting, Locked int
	// Batches are under way.
	Batches int
	// Groups is the number of batches so far.
	Groups int64
}

// Stats returns what the Scheduler is doing.
func (s *Scheduler[K, I]) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Stats{Locked: s.apart.items + s.apart.callers, Batches: s.begun.length + s.waits, Groups: s.batches}
	now.Waiting = now.Locked + s.free.items + s.free.callers
	if s.sharing {
		now.Batches++
	}
	return now
}
