package commit

import (
	"context"
	"errors"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// Config says how a Committer works. K is what groups writes that wait for each other: a session,
// a stream, a plan.
type Config[K comparable, I Item] struct {
	scheduler.Limits
	// Kind is observe.Group's.
	Kind string
	// Waits: rows that are locked elsewhere are waited for, within the Budget. Otherwise their
	// writes are only tried again.
	Waits bool
	// Unordered: see scheduler.Config.
	Unordered bool
	// Once: a write must not be sent again after its answer was lost.
	Once bool
	// Shares: see scheduler.Config.
	Shares func(I) bool
	// Commit has a group's tasks made, by Group.Run.
	Commit func(*Group[K, I])
}

// Committer is safe for concurrent use. New makes one.
type Committer[K comparable, I Item] struct {
	config    Config[K, I]
	budget    *Budget
	scheduler *scheduler.Scheduler[K, I]
}

// maxGroups bounds the groups of a committer that are under way, with one that is stuck.
const maxGroups = 2

// settleTime is for how long a caller whose context has ended waits to learn what has become of a write that was sent.
// Then the server is told to cancel it, if its group has no other waiting caller.
const settleTime = time.Second

// New returns a Committer. The caller must close it.
func New[K comparable, I Item](budget *Budget, config Config[K, I]) *Committer[K, I] {
	c := &Committer[K, I]{config: config, budget: budget}
	waits := 0
	if config.Waits {
		waits = budget.Waits
	}
	c.scheduler = scheduler.New(scheduler.Config[K, I]{
		Limits: config.Limits, Budget: budget.groups, Groups: maxGroups, Waits: waits,
		Group: c.group, Wait: c.wait, Shares: config.Shares, Unordered: config.Unordered, MayWait: budget.MayWait,
		Sent: func(item I) bool { return !item.progress().giveUp() }, Settle: settleTime,
	})
	return c
}

// Submit has a write made in a group, and waits for the answer. If ctx ends before it is sent, it
// is not made. If ctx ends later, the group goes on for the others, or is about to commit: so
// Submit waits for the answer, for a second at most, and returns that. Only then the outcome is
// unknown.
//
// Errors: the feature's, repo.ErrUnknownOutcome, repo.ErrClosed,
// repo.ErrUnavailable if too many callers wait, and ctx's.
func (c *Committer[K, I]) Submit(ctx context.Context, key K, item I) error {
	p := item.progress()
	p.at.Store(queued)
	err := c.scheduler.Submit(ctx, key, item, item.Size())
	switch {
	case err == nil && ctx.Err() != nil && isGivenUp(p.err):
		return conn.Settled(conn.AfterDoubt(p.Unsure, conn.Translate(ctx, ctx.Err(), conn.Unsent)))
	case err == nil:
		return p.err
	case errors.Is(err, scheduler.ErrClosed):
		return repo.ErrClosed
	case errors.Is(err, scheduler.ErrFull):
		return &conn.Error{Sentinel: repo.ErrUnavailable, Cause: err}
	case !errors.Is(err, scheduler.ErrWithdrawn) && !p.giveUp(), p.Unsure:
		return &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: ctx.Err()}
	}
	return conn.Translate(ctx, ctx.Err(), conn.Unsent)
}

// isGivenUp reports whether an error says that nothing was written because the callers of a group have gone: to each it
// is the error of its own context.
func isGivenUp(err error) bool {
	return !errors.Is(err, repo.ErrUnknownOutcome) && (conn.HasCode(err, conn.QueryCanceled) ||
		errors.Is(err, context.Canceled))
}

// Close waits for the groups under way. Nothing may be submitted any more.
func (c *Committer[K, I]) Close() { c.scheduler.Close() }

func (c *Committer[K, I]) group(b *scheduler.Batch[K, I]) {
	defer c.budget.Use()()
	c.commit(&Group[K, I]{Batch: b, committer: c, ctx: b.Context()})
}

func (c *Committer[K, I]) wait(b *scheduler.Batch[K, I]) {
	ctx, cancel := context.WithCancel(b.Turn())
	defer cancel()
	defer c.budget.evictWhenCrowded(cancel)()
	c.commit(&Group[K, I]{Batch: b, committer: c, ctx: ctx, Waits: true})
}
