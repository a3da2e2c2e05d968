package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// The bounds of appends that are committed together, and of those that wait. The
// latter are far above what a busy service needs.
var appendLimits = scheduler.Limits{
	// Bytes cost the same in a group as alone. So a group of large messages is
	// small, and leaves messages for the next connection.
	GroupRows: 2000, GroupBytes: 256 << 10,
	// So appends to other sessions are in the next group even if one session has
	// thousands of appends.
	ShareRows: 500,
	Items:     1 << 16, Rows: 1 << 20, Bytes: 256 << 20,
	Callers: 1 << 16,
}

type (
	batch = scheduler.Batch[repo.ID, *appending]
	task  = scheduler.Task[repo.ID, *appending]
)

// appender commits appends in groups, which the scheduler forms. A group is one
// statement for many sessions, which never waits for a counter row. A session whose row
// is locked waits separately, in a statement of its own.
type appender struct {
	conns conn.Conns
	// tell says what is new, after each commit.
	tell      func(...news)
	scheduler *scheduler.Scheduler[repo.ID, *appending]
	// patient: no append waits for a row where the server's lock timeout would end
	// that, so that groups have to observe it.
	patient bool
	// making is a lock: one caller at a time creates scopes.
	making chan struct{}
	// apart bounds the callers whose turns wait for rows in a transaction of their own.
	apart chan struct{}
	// scopes are those that others hold.
	scopes *heldScopes
	// setsLevel: transactions have another level by default, so that statements which
	// check that would do nothing. It affects the speed alone, and is never reset.
	setsLevel atomic.Bool
	hints     hints
	// grouping is the number of connections that groups hold or wait for.
	grouping atomic.Int32
	// evicted is when a waiter last gave its connection up.
	mu      sync.Mutex
	evicted time.Time
}

func newAppender(conns conn.Conns, tell func(...news)) *appender {
	config := conns.Pool.Config()
	connections := int(config.MaxConns)
	p := &appender{
		conns: conns, tell: tell, patient: waitBound(connections) == 0, making: make(chan struct{}, 1),
		apart: make(chan struct{}, max(1, waitBound(connections))),
	}
	p.scopes = newHeldScopes(conns, p.apart, func() bool { return !p.patient && p.mayWait() })
	p.scheduler = scheduler.New(scheduler.Config[repo.ID, *appending]{
		Limits: appendLimits,
		Groups: groupBound(connections),
		Waits:  waitBound(connections),
		Group: func(b *batch) {
			p.grouping.Add(1)
			defer p.grouping.Add(-1)
			p.commitGroup(b)
		},
		Wait:    p.commitWaiting,
		Shares:  (*appending).shares,
		MayWait: p.mayWait,
	})
	return p
}

// waitBound is how many connections may wait for counter rows: a quarter, and none if
// a waiter and one open transaction would use the whole pool.
func waitBound(connections int) int {
	if connections < 3 {
		return 0
	}
	return max(1, connections/4)
}

// groupBound is how many groups may be under way. Their connections are needed
// for less than a millisecond at a time.
func groupBound(connections int) int {
	return min(max(1, connections-waitBound(connections)), maxGroups)
}

// maxGroups is the number above which more concurrent groups were not faster
// (docs/performance.md).
const maxGroups = 4

// mayWait reports whether the pool has a connection left for other uses, including
// open transactions, if one more waits for a counter row.
func (p *appender) mayWait() bool {
	stat := p.conns.Pool.Stat()
	return stat.AcquiredConns()-p.grouping.Load() < stat.MaxConns()-1
}

// crowdedAfter is how long a fully used pool may hand out no connection before a waiter
// gives its own up.
const crowdedAfter = 50 * time.Millisecond

// evictWhenCrowded keeps a waiter from holding the pool's last connection: transactions
// that began after it may have taken all others, and reads, groups and further
// transactions need one. One waiter at a time then gives its connection up and is
// retried with the groups. The returned function ends this.
func (p *appender) evictWhenCrowded(evict context.CancelFunc) (stop func()) {
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
		stat := p.conns.Pool.Stat()
		last := given
		given = stat.AcquireCount()
		if stat.AcquiredConns() >= stat.MaxConns() && given == last && p.mayEvict() {
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

// mayEvict allows time for the previous waiter's connection to be used.
func (p *appender) mayEvict() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.evicted) < crowdedAfter {
		return false
	}
	p.evicted = time.Now()
	return true
}

// awaitScopes waits while a scope that a turn changes is known to be held.
func (p *appender) awaitScopes(ctx context.Context, a *appending) error {
	if a.turn == nil && a.parts == nil {
		return nil
	}
	var patience time.Duration
	if a.patience > 0 && !a.skipped.IsZero() {
		patience = max(1, a.patience-time.Since(a.skipped))
	}
	switch {
	case p.scopes.await(ctx, a, patience):
		return nil
	case ctx.Err() != nil:
		return conn.Translate(ctx, ctx.Err(), conn.Unsent)
	}
	return &conn.Error{Sentinel: repo.ErrContention, Cause: conn.ErrLockTimeout}
}

// submit has an append committed and waits for its answer. If ctx ends before the
// append is sent, it is withdrawn and was not written. If ctx ends later, the outcome
// is unknown.
func (p *appender) submit(ctx context.Context, a *appending) error {
	err := p.scheduler.Submit(ctx, a.sessionID, a, a.size())
	switch {
	case err == nil:
		return a.err
	case errors.Is(err, scheduler.ErrWithdrawn) && !a.unsure:
		return conn.Translate(ctx, ctx.Err(), conn.Unsent)
	case errors.Is(err, scheduler.ErrClosed):
		return repo.ErrClosed
	case errors.Is(err, scheduler.ErrFull):
		return &conn.Error{Sentinel: repo.ErrUnavailable, Cause: err}
	default:
		return &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: ctx.Err()}
	}
}

// close waits for the appends under way. No more may be submitted.
func (p *appender) close() {
	p.scheduler.Close()
	p.scopes.close()
}

func (a *appending) size() (size scheduler.Size) {
	for _, part := range a.parts {
		of := part.size()
		size.Rows, size.Bytes = size.Rows+of.Rows, size.Bytes+of.Bytes
	}
	size.Rows += len(a.messages)
	for i := range a.messages {
		size.Bytes += rules.MessageBytes(&a.messages[i])
	}
	if a.turn != nil {
		size.Rows += len(a.turn.State.Changes) + 1
		size.Bytes += a.turn.State.Bytes()
	}
	return size
}
