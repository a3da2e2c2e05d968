package memory

import (
	"context"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Store is repo.Store in process. It is safe for concurrent use. New makes one.
type Store struct {
	sessions *sessions

	// mu guards all below. It is held for single operations, which run no
	// code of the caller's, and never across a wait. So it need not know of
	// contexts, and costs little.
	mu     sync.Mutex
	tables tables
	// last is the last time that the clock gave.
	last time.Time
	// open is whether a unit of work is.
	open bool
	// closed refuses operations; released says that their data is gone.
	closed, released bool

	// turn is a lock whose waiters heed their contexts, first come, first
	// served. A unit of work has it from begin to end. Other writers ask for
	// it only while a unit of work is open.
	turn chan struct{}
}

var _ repo.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	s := &Store{tables: newTables(), turn: make(chan struct{}, 1)}
	s.sessions = &sessions{&direct{s}}
	return s
}

// Sessions is repo.Repositories'.
func (s *Store) Sessions() repo.Sessions { return s.sessions }

// Close waits for the unit of work that is open, and for those who wait behind
// it, refuses later operations and lets go of the data. It is never called from
// within a unit of work, which it would wait for.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.turn <- struct{}{}
	s.mu.Lock()
	s.released = true
	s.tables = tables{}
	s.mu.Unlock()
	<-s.turn
	return nil
}

// waitTurn takes turn, unless ctx ends first.
func (s *Store) waitTurn(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// now is the clock: UTC, microseconds, never backwards. The caller holds mu.
func (s *Store) now() time.Time {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if now.Before(s.last) {
		return s.last
	}
	s.last = now
	return now
}
