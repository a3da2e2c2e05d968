package commit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// Budget is how the connections of a pool are shared by what a store does by itself: by groups,
// which have one for a millisecond, and by waits for rows, which have one for long. All
// committers of a pool, and all callers that wait apart, have one Budget.
//
//	connections                     1    2    3    4    8   16   50
//	groups at once, of all kinds    1    2    2    3    6   12   38
//	keys that wait for rows         0    0    1    1    2    4   12
//	callers that wait apart         0    0    1    1    2    4   12
//
// Renewals of leases are not among them: they have a connection outside of the pool, and a Budget of
// their own, and so has the listener.
//
// A pool of one or two has no waits: a wait and an open transaction would use the whole pool. A
// wait needs more than its place: a connection must be left for others (MayWait), and it gives
// its own up when the pool hands out none (evictWhenCrowded).
type Budget struct {
	// Waits bounds the keys that wait for rows, and Apart the callers whose writes wait in a
	// transaction of their own.
	Waits int
	Apart chan struct{}

	groups *scheduler.Budget
	conns  conn.Conns
	// using is the number of connections that groups hold or wait for.
	using atomic.Int32
	// evicted is when a wait last gave its connection up.
	mu      sync.Mutex
	evicted time.Time
}

// NewBudget returns the budget of a pool.
func NewBudget(conns conn.Conns) *Budget {
	size := int(conns.Pool.Config().MaxConns)
	waits := 0
	if size >= 3 {
		waits = max(1, size/4)
	}
	return &Budget{
		Waits: waits, Apart: make(chan struct{}, waits), groups: scheduler.NewBudget(max(1, size-waits)),
		conns: conns,
	}
}

// Use notes that a group holds a connection, or waits for one, until the returned function is
// called.
func (b *Budget) Use() (done func()) {
	b.using.Add(1)
	return func() { b.using.Add(-1) }
}

// MayWait reports whether the pool has a connection left for other uses, including
// open transactions, if one more waits for a row.
func (b *Budget) MayWait() bool {
	stat := b.conns.Pool.Stat()
	return stat.AcquiredConns()-b.using.Load() < stat.MaxConns()-1
}

// crowdedAfter is how long a fully used pool may hand out no connection before a wait gives
// up its own.
const crowdedAfter = 50 * time.Millisecond

// evictWhenCrowded keeps a wait from holding the pool's last connection: transactions that
// began after it may have taken all others, and reads, groups and further transactions need
// one. One wait at a time then gives its connection up and is retried with the groups. The
// returned function ends this.
func (b *Budget) evictWhenCrowded(evict context.CancelFunc) (stop func()) {
	var timer *time.Timer
	var mu sync.Mutex
	mu.Lock()
	defer mu.Unlock()
	stopped, given := false, int64(-1)
	timer = time.AfterFunc(crowdedAfter, func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		stat := b.conns.Pool.Stat()
		last := given
		given = stat.AcquireCount()
		if stat.AcquiredConns() >= stat.MaxConns() && given == last && b.mayEvict() {
			evict()
			return
		}
		timer.Reset(crowdedAfter)
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		stopped = true
	}
}

// mayEvict allows time for the previous one's connection to be used.
func (b *Budget) mayEvict() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.evicted) < crowdedAfter {
		return false
	}
	b.evicted = time.Now()
	return true
}
