package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// The bounds of appends that are committed together, and of those that wait.
// What waits is far beyond what a busy service has waiting.
var appendLimits = scheduler.Limits{
	// Bytes cost the same in a group as alone, so that a group of large messages
	// is small, and leaves some to the next connection.
	GroupRows: 2000, GroupBytes: 512 << 10,
	// Those who wait behind a session with thousands of appends are in the next
	// group all the same.
	ShareRows: 500,
	Items:     1 << 16, Rows: 1 << 20, Bytes: 256 << 20,
	Callers: 1 << 16,
}

type (
	batch = scheduler.Batch[repo.ID, *appending]
	task  = scheduler.Task[repo.ID, *appending]
)

// appender commits appends in groups: the scheduler says which and when, and
// here is how. A group is one statement over many sessions, which waits for no
// counter row. A session whose row somebody has locked waits apart, in a
// statement of its own.
type appender struct {
	link      link
	scheduler *scheduler.Scheduler[repo.ID, *appending]
	// grouping is the number of connections that groups have, or wait for.
	grouping atomic.Int32
	// evicted is when a waiter last gave its connection up.
	mu      sync.Mutex
	evicted time.Time
}

func newAppender(link link) *appender {
	p := &appender{link: link}
	connections := int(link.pool.Config().MaxConns)
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
		MayWait: p.mayWait,
	})
	return p
}

// waitBound is how many connections may wait for counter rows: a quarter, and
// none of a pool so small that a waiter and one open transaction have it whole.
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

// maxGroups is where more groups at once were no faster (docs/performance.md).
const maxGroups = 4

// mayWait reports whether the pool has a connection left for the others when one
// more waits for a counter row: open transactions have connections too.
func (p *appender) mayWait() bool {
	stat := p.link.pool.Stat()
	return stat.AcquiredConns()-p.grouping.Load() < stat.MaxConns()-1
}

// crowdedAfter is how long a pool whose connections are all taken may give none to
// anybody before a waiter gives its own up.
const crowdedAfter = 50 * time.Millisecond

// evictWhenCrowded sees to it that a waiter does not keep the pool's last
// connection: transactions that began after it may have taken all others, and
// reads, groups and further transactions need one. One waiter at a time then gives
// its own up, and is tried with the groups. It returns what ends that.
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
		stat := p.link.pool.Stat()
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

// mayEvict leaves the connection of the waiter before time to be of use.
func (p *appender) mayEvict() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.evicted) < crowdedAfter {
		return false
	}
	p.evicted = time.Now()
	return true
}

// submit has an append committed and waits for its answer. If ctx ends before it
// is sent, it is withdrawn: surely not written. If ctx ends after, the outcome is
// unknown.
func (p *appender) submit(ctx context.Context, a *appending) (db.MessageAppendRow, error) {
	err := p.scheduler.Submit(ctx, a.sessionID, a, a.size())
	switch {
	case err == nil:
		return a.row, a.err
	case errors.Is(err, scheduler.ErrWithdrawn) && !a.unsure:
		return db.MessageAppendRow{}, translate(ctx, ctx.Err(), unsent)
	case errors.Is(err, scheduler.ErrClosed):
		return db.MessageAppendRow{}, repo.ErrClosed
	case errors.Is(err, scheduler.ErrFull):
		return db.MessageAppendRow{}, &storeError{repo.ErrUnavailable, err}
	default:
		return db.MessageAppendRow{}, &storeError{repo.ErrUnknownOutcome, ctx.Err()}
	}
}

// close waits for what is under way. Nothing may be submitted any more.
func (p *appender) close() { p.scheduler.Close() }

func (a *appending) size() (size scheduler.Size) {
	size.Rows = len(a.messages)
	for i := range a.messages {
		m := &a.messages[i]
		size.Bytes += len(m.Content) + len(m.Metadata) + len(m.Payload)
	}
	return size
}
