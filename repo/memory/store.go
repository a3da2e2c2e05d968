package memory

import (
	"context"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/removal"
)

// Store implements repo.Store in memory. It is safe for concurrent use.
// New makes one.
type Store struct{ *handle }

// Options configure a store. The zero value is the default.
type Options struct {
	// WithoutSessionAudit switches off the audit entries that the store records by
	// itself when a session is created, imported or deleted.
	WithoutSessionAudit bool
	// CountTokens counts the tokens of each message that is appended without NewMessage.Tokens, and TokenCounter names it.
	// It must not change the message. Nil: they are not counted.
	CountTokens  func(repo.NewMessage) int64
	TokenCounter string
	// Clock is what tells the store the time: whatever it notes a time for, and when a
	// lease, a claim or a stream expires. Nil: the process's clock. It is for NewWith. A
	// shared store has the clock of the first one.
	Clock *Clock

	// view is the namespace of a view, whose names of shared scopes, leases and streams are its own.
	view string
}

// core is shared by stores that share their data and their transactions.
type core struct {
	// clock does not change. Nil: the process's.
	clock *Clock
	// mu guards the tables and all fields below except turn. It is held only for
	// single operations, which run no code of the caller's and do not wait. So it
	// costs little and needs no context.
	mu sync.Mutex
	// last is the clock's last reading.
	last time.Time
	// lastErased is the highest version of a scope of state that was deleted. Scopes
	// that are created later begin above it.
	lastErased int64
	// lastToken is the last one that was given to a lease or a stream. A transaction that is rolled
	// back does not give its tokens back.
	lastToken int64
	// swept is when streams that had expired were last removed by the way.
	swept time.Time
	// sweptPlans is the same for plans.
	sweptPlans time.Time
	// sealing: a sealer is at work.
	sealing bool
	// stores is the number of open stores.
	stores int
	// served has the turns in which claims were served from namespaces last, of so many turns.
	served map[string]int64
	turns  int64
	// leaseWaits are the callers that wait for leases, in the order in which they came.
	leaseWaits map[repo.LeaseKey][]*leaseWait
	// watches has what is waited for.
	watches map[topic]*watch

	// turn is a lock whose waiters also wait for their contexts, and get it in the
	// order of their calls. A transaction holds it from begin to end. Other writers
	// acquire it only while it is held.
	turn chan struct{}
	// released reports that the data was dropped. The holder of the turn may read it.
	released bool
}

var _ repo.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store { return NewWith(Options{}) }

// NewWith returns an empty store with options.
func NewWith(options Options) *Store {
	log := &sealedLog{
		identity: repo.NewID(), byEntry: map[repo.ID]int64{}, holds: map[heldSubject]auditlog.Hold{},
		quarantine: map[poisonKey]auditlog.Poison{},
	}
	return open(&tables{data: data{log: log}, core: &core{
		clock: options.Clock, turn: make(chan struct{}, 1), served: map[string]int64{}, watches: map[topic]*watch{},
		leaseWaits: map[repo.LeaseKey][]*leaseWait{},
	}}, options)
}

// Share returns another store on the same data, with options of its own, which is
// closed separately. The data is dropped when the last of them is closed; a store
// shared after that is closed.
func (s *Store) Share(options Options) *Store { return open(s.tables, options) }

func open(t *tables, options Options) *Store {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.released {
		return &Store{&handle{tables: t, ended: repo.ErrClosed}}
	}
	t.stores++
	return &Store{&handle{tables: t, options: options, closing: make(chan struct{})}}
}

// In returns a view of one namespace: see agentstore.Store.In.
func (s *Store) In(namespace string) repo.Store {
	below := &handle{
		tables: s.tables, options: s.options, closing: s.closing, of: s.handle,
		ended: rules.CheckNamespace(namespace),
	}
	below.options.view = namespace
	return view{&Store{below}}
}

// view ends with its store.
type view struct{ repo.Store }

func (view) Close() error { return nil }

// AuditLog implements auditlog.Keeper.
func (s *Store) AuditLog() auditlog.Store { return auditStore{s.handle} }

// Removal implements removal.Keeper.
func (s *Store) Removal() removal.Store { return remover{s.handle} }

// Ping reports whether the store is open. Errors: repo.ErrClosed; the context's.
func (s *Store) Ping(ctx context.Context) error { return s.usable(ctx) }

// Close waits for the open transaction and for the writers that wait for it, and refuses later operations. It ends
// all follows of sessions. It must not be called inside a transaction, for which it would wait. Closing twice is not
// an error.
func (s *Store) Close() error {
	t := s.tables
	t.mu.Lock()
	if s.ended == nil {
		s.ended = repo.ErrClosed
		close(s.closing)
		t.stores--
	}
	t.mu.Unlock()
	t.turn <- struct{}{}
	t.mu.Lock()
	if t.stores == 0 {
		t.released = true
		t.data = data{}
	}
	t.mu.Unlock()
	<-t.turn
	return nil
}

// takeTurn waits for the turn. Errors, without it: the context's, repo.ErrClosed.
func (c *core) takeTurn(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.released {
		<-c.turn
		return repo.ErrClosed
	}
	return nil
}

// now reads the clock, in UTC and microseconds. It never goes backwards. The caller
// holds mu.
func (c *core) now() time.Time {
	now := c.clock.read().UTC().Truncate(time.Microsecond)
	if now.Before(c.last) {
		return c.last
	}
	c.last = now
	return now
}
