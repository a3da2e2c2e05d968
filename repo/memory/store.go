package memory

import (
	"context"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// Store implements repo.Store in process. It is safe for concurrent use.
// New makes one.
type Store struct {
	*core
	at       *direct
	sessions *sessions
	actions  *actions
	plans    *plans
	audit    *audit
	trail    *trail
}

// core is what the stores that share their data share.
type core struct {
	// mu guards all below. It is held for single operations, which run no
	// code of the caller's, and never across a wait. So it need not know of
	// contexts, and costs little.
	mu     sync.Mutex
	tables tables
	// last is the last time that the clock gave.
	last time.Time
	// open is whether a unit of work is.
	open bool
	// stores is how many are not closed; released says that their data is
	// gone.
	stores   int
	released bool

	// turn is a lock whose waiters heed their contexts, first come, first
	// served. A unit of work has it from begin to end. Other writers ask for
	// it only while a unit of work is open.
	turn chan struct{}
}

var _ repo.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store { return (&core{tables: newTables(), turn: make(chan struct{}, 1)}).store() }

// Share returns another store on the same data, which is closed for itself. The
// data goes with the last of them.
func (s *Store) Share() *Store { return s.store() }

func (c *core) store() *Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores++
	at := &direct{core: c}
	s := &Store{core: c, at: at}
	s.sessions, s.actions, s.plans, s.audit = &sessions{at}, &actions{at}, &plans{at}, &audit{at}
	s.trail = &trail{at, s.audit}
	return s
}

// Sessions implements repo.Repositories.
func (s *Store) Sessions() repo.Sessions { return s.sessions }

// Actions implements repo.Repositories.
func (s *Store) Actions() repo.Actions { return s.actions }

// Audit implements repo.Repositories.
func (s *Store) Audit() repo.Audit { return s.audit }

// Trail implements repo.Store.
func (s *Store) Trail() repo.AuditStore { return s.trail }

// Plans implements repo.Repositories.
func (s *Store) Plans() repo.Plans { return s.plans }

// Close waits for the unit of work that is open, and for those who wait behind
// it, and refuses later operations. It is never called from within a unit of
// work, which it would wait for. Closing twice is no error.
func (s *Store) Close() error {
	s.mu.Lock()
	if !s.at.closed {
		s.at.closed = true
		s.stores--
	}
	s.mu.Unlock()
	s.turn <- struct{}{}
	s.mu.Lock()
	if s.stores == 0 {
		s.released = true
		s.tables = tables{}
	}
	s.mu.Unlock()
	<-s.turn
	return nil
}

// waitTurn takes turn, unless ctx ends first.
func (c *core) waitTurn(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// now is the clock: UTC, microseconds, never backwards. The caller holds mu.
func (c *core) now() time.Time {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if now.Before(c.last) {
		return c.last
	}
	c.last = now
	return now
}
