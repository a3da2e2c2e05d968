package commit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed-df90f812/agentstore/observe"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// seen is what an observer is told of a write. A group may still work on it when its caller has left.
type seen struct {
	caller          context.Context
	begun           time.Time
	sent, done      atomic.Int64 // nanoseconds since begun; zero: not yet
	group, attempts atomic.Int32
}

// Observed has the observer, if there is one, see a write that the operation submits, perhaps several
// times.
func Observed(ctx context.Context, to observe.Observer, kind string, item Item, operation func() error) error {
	if to == nil {
		return operation()
	}
	return observed(ctx, to, kind, item, operation)
}

func observed(ctx context.Context, to observe.Observer, kind string, item Item, operation func() error) error {
	s := &seen{caller: ctx, begun: time.Now()}
	item.progress().seen = s
	err := operation()
	write := observe.Write{Kind: kind, Group: int(s.group.Load()), Attempts: int(s.attempts.Load())}
	if write.Result = observe.ResultOf(err); conn.IsNoRows(err) {
		write.Result = observe.ResultOf(repo.ErrNotFound)
	}
	sent, done := s.sent.Load(), s.done.Load()
	if done == 0 { // it was withdrawn, or its answer has not come
		done = int64(time.Since(s.begun))
	}
	if write.Wait = time.Duration(done); sent > 0 {
		write.Wait, write.Commit = time.Duration(sent), time.Duration(done-sent)
	}
	to.Write(ctx, write)
	return err
}

func (s *seen) answered() {
	if s != nil {
		s.done.Store(int64(time.Since(s.begun)))
	}
}

// seeSent notes that tasks are being sent.
func (g *Group[K, I]) seeSent(tasks []*Task[K, I]) {
	if g.committer.budget.conns.Observer == nil {
		return
	}
	for _, t := range tasks {
		if s := t.Item.progress().seen; s != nil {
			s.sent.CompareAndSwap(0, max(1, int64(time.Since(s.begun))))
			s.group.Store(int32(len(tasks)))
			s.attempts.Add(1)
		}
	}
}

// callers yields the contexts of the callers whose writes are in the group.
func (g *Group[K, I]) callers(yield func(context.Context) bool) {
	for _, t := range g.Tasks {
		if s := t.Item.progress().seen; s != nil && !yield(s.caller) {
			return
		}
	}
}

// commit makes a group.
func (c *Committer[K, I]) commit(g *Group[K, I]) {
	to := c.budget.conns.Observer
	if to == nil {
		c.config.Commit(g)
		return
	}
	group := observe.Group{Kind: c.config.Kind, Size: len(g.Tasks), Waits: g.Waits, Begun: time.Now(), Callers: g.callers}
	g.ctx = to.BeginGroup(g.ctx, group)
	c.config.Commit(g)
	to.EndGroup(g.ctx, group, observe.ResultOf(g.last))
}

// Context is the batch's, with what the observer has put into the group's.
func (g *Group[K, I]) Context() context.Context { return valued{g.Batch.Context(), g.ctx} }

type valued struct {
	context.Context
	values context.Context
}

func (v valued) Value(key any) any { return v.values.Value(key) }

// Stats says what a Committer is doing. Nil: nothing.
func (c *Committer[K, I]) Stats() (kind string, now scheduler.Stats) {
	if c == nil {
		return "", now
	}
	return c.config.Kind, c.scheduler.Stats()
}
