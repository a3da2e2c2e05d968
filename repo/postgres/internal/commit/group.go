package commit

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// Group is a number of writes that are made together.
type Group[K comparable, I Item] struct {
	*scheduler.Batch[K, I]
	// Waits: the group is of one key, and waits for what others lock.
	Waits bool

	committer *Committer[K, I]
	// ctx is the batch's, or ends earlier if a group that waits must give up its connection.
	ctx context.Context
	// locked are the keys of which a row was found locked. Their further writes in the group have
	// to wait, too.
	locked map[K]bool
	// last is the error of the last attempt.
	last error
}

// Task is a write that is in a group.
type Task[K comparable, I Item] = scheduler.Task[K, I]

// Send sends tasks as one transaction, and returns what gives each of them its answer, which is
// called when the connection is free again. An error says that nothing was written, unless it is
// repo.ErrUnknownOutcome: then the tasks of which carried is true, or all if that is nil, may be
// written.
type Send[K comparable, I Item] func(ctx context.Context, q db.DBTX, tasks []*Task[K, I]) (answer func(),
	carried func(*Task[K, I]) bool, err error)

// Run makes attempts at tasks until one succeeds, or each has its answer or is locked.
func (g *Group[K, I]) Run(tasks []*Task[K, I], send Send[K, I]) {
	for attempt := 1; len(tasks) > 0; attempt++ {
		answer, err := g.attempt(tasks, send)
		switch {
		case err == nil:
			answer()
			return
		case conn.IsRejection(err) && len(tasks) > 1:
			g.runEach(tasks, send)
			return
		case conn.IsPassing(err) && !conn.IsRejection(err) && g.ctx.Err() == nil &&
			g.committer.budget.conns.Pause(g.ctx, attempt):
		case g.ctx.Err() != nil && g.Context().Err() == nil:
			return // it gives up its connection: the key is locked
		default:
			for _, t := range tasks {
				if t.Returned() {
					continue // it was not sent
				}
				g.Done(t, conn.Settled(conn.AfterDoubt(t.Item.progress().Unsure, err)))
			}
			return
		}
	}
}

// runEach sends each task separately, because one of them has aborted the transaction of all.
func (g *Group[K, I]) runEach(tasks []*Task[K, I], send Send[K, I]) {
	for _, t := range tasks {
		if !g.locked[t.Key] {
			g.Run([]*Task[K, I]{t}, send)
		}
	}
}

func (g *Group[K, I]) attempt(tasks []*Task[K, I], send Send[K, I]) (answer func(), err error) {
	var sent []*Task[K, I]
	var carried func(*Task[K, I]) bool
	err = g.committer.budget.conns.Run(g.ctx, conn.Committing, func(q db.DBTX) (err error) {
		for _, t := range tasks {
			if t.Item.progress().take() {
				sent = append(sent, t)
			} else {
				g.Return(t) // its caller has gone, and is told that nothing was sent
			}
		}
		g.seeSent(sent)
		if answer = func() {}; len(sent) == 0 {
			return nil
		}
		answer, carried, err = send(g.ctx, q, sent)
		return err
	})
	g.last = err
	if g.committer.config.Once {
		return answer, err
	}
	unsure := false
	for _, t := range sent {
		if errors.Is(err, repo.ErrUnknownOutcome) && t.Item.progress().isTaken() && (carried == nil || carried(t)) {
			t.Item.Doubt()
		}
		unsure = unsure || t.Item.progress().Unsure
	}
	return answer, conn.AfterDoubt(unsure, err)
}

// Done gives a write its answer.
func (g *Group[K, I]) Done(t *Task[K, I], err error) {
	p := t.Item.progress()
	p.err = err
	p.seen.answered()
	g.Batch.Done(t)
}

// Made tells writes that they were made.
func (g *Group[K, I]) Made(tasks ...*Task[K, I]) {
	for _, t := range tasks {
		g.Done(t, nil)
	}
}

// Return leaves a write to a later group. Nothing of it was sent.
func (g *Group[K, I]) Return(t *Task[K, I]) {
	t.Item.progress().at.CompareAndSwap(taken, queued)
	g.Batch.Return(t)
}

// Locked leaves a write to later groups, since a row of it is locked elsewhere. Without waits for
// such rows, the write fails after patience, if that is not zero.
func (g *Group[K, I]) Locked(t *Task[K, I], patience time.Duration) {
	if g.locked == nil {
		g.locked = map[K]bool{}
	}
	g.locked[t.Key] = true
	p := t.Item.progress()
	if waits := g.committer.config.Waits && g.committer.budget.Waits > 0; !waits && p.IsOver(patience) {
		g.Done(t, conn.Settled(conn.AfterDoubt(p.Unsure, &conn.Error{
			Sentinel: repo.ErrContention,
			Cause:    conn.ErrLockTimeout,
		})))
		return
	}
	p.Skip()
	p.at.CompareAndSwap(taken, queued)
}

// IsOver reports whether a row has been found locked for longer than patience, if that is not
// zero.
func (p *Progress) IsOver(patience time.Duration) bool {
	return patience > 0 && !p.skipped.IsZero() && time.Since(p.skipped) >= patience
}

// answerTime bounds the wait for the answer to the statement of a group that gives up its
// connection.
const answerTime = 5 * time.Second

// GiveUp has the server cancel the statement of a group that waits, when it must give up its
// connection, or its callers have gone: the server's answer says whether something was written, and
// the connection stays open. It returns the statement's context, and a function to be called with its error.
//
// The request has done all that it does when the server has closed the connection by which it came. Until then it
// may cancel the next statement: a server signals the process, which answers at once, and then its group.
func (g *Group[K, I]) GiveUp(pg *pgx.Conn) (ctx context.Context, stop func(error)) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(g.ctx))
	ended, arrived := make(chan struct{}), false
	unless := context.AfterFunc(g.ctx, func() {
		defer close(ended)
		timed, free := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer free()
		arrived = pg.PgConn().CancelRequest(timed) == nil
		select {
		case <-ctx.Done():
		case <-timed.Done():
			cancel()
		}
	})
	return ctx, func(err error) {
		cancel()
		if unless() {
			return
		}
		<-ended
		if !arrived || !conn.HasCode(err, conn.QueryCanceled) {
			_ = pg.Close(ctx)
		}
	}
}
