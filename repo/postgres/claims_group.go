package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// claiming is a claim that is under way.
type claiming struct {
	claim repo.Claim
	rows  []db.PlanClaimRow
	err   error
}

type claimTask = scheduler.Task[string, *claiming]

// claimer makes claims in groups: those that ask for the same, for whichever owners, while
// a claim like them is under way are one statement. Its plans go to the owners in the
// order in which they asked. Workers of one process that claimed one by one would look at
// the same plans, at the head of the queue, and each would wait for a commit of its own.
// All stores on a pool share one.
type claimer struct {
	conns     conn.Conns
	scheduler *scheduler.Scheduler[string, *claiming]
}

// claimLimits: a group of claims is as large as the largest claim.
var claimLimits = scheduler.Limits{
	GroupRows: repo.MaxClaimedPlans, GroupBytes: 1 << 20, ShareRows: repo.MaxClaimedPlans,
	Items: 1 << 16, Rows: 1 << 20, Bytes: 256 << 20, Callers: 1 << 16,
}

func newClaimer(conns conn.Conns) *claimer {
	c := &claimer{conns: conns}
	c.scheduler = scheduler.New(scheduler.Config[string, *claiming]{
		Limits: claimLimits,
		Groups: groupBound(int(conns.Pool.Config().MaxConns)),
		Group:  func(b *scheduler.Batch[string, *claiming]) { c.claimAll(b) },
	})
	return c
}

func (c *claimer) close() { c.scheduler.Close() }

// submit makes a claim, and waits for the answer. It is not sent again.
func (c *claimer) submit(ctx context.Context, claim repo.Claim) ([]db.PlanClaimRow, error) {
	key, err := json.Marshal([]any{claim.Namespaces, claim.Phases, claim.Actions, claim.TTL, claim.MaxAttempts})
	if err != nil {
		return nil, err
	}
	one := &claiming{claim: claim}
	err = c.scheduler.Submit(ctx, string(key), one, scheduler.Size{Rows: claim.Limit, Bytes: len(key) + len(claim.Owner)})
	switch {
	case err == nil:
		return one.rows, one.err
	case errors.Is(err, scheduler.ErrWithdrawn):
		return nil, conn.Translate(ctx, ctx.Err(), conn.Unsent)
	case errors.Is(err, scheduler.ErrClosed):
		return nil, repo.ErrClosed
	case errors.Is(err, scheduler.ErrFull):
		return nil, &conn.Error{Sentinel: repo.ErrUnavailable, Cause: err}
	}
	return nil, &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: ctx.Err()}
}

// claimAll sends a statement for the claims of each key.
func (c *claimer) claimAll(b *scheduler.Batch[string, *claiming]) {
	for tasks := b.Tasks; len(tasks) > 0; {
		alike := 1
		for alike < len(tasks) && tasks[alike].Key == tasks[0].Key {
			alike++
		}
		c.claimAlike(b.Context(), tasks[:alike])
		for _, t := range tasks[:alike] {
			b.Done(t)
		}
		tasks = tasks[alike:]
	}
}

// claimAlike makes claims that ask for the same, and gives each its plans.
func (c *claimer) claimAlike(ctx context.Context, tasks []*claimTask) {
	whole := tasks[0].Item.claim
	var owners []string
	var whose []*claiming
	for _, t := range tasks {
		for range t.Item.claim.Limit {
			owners, whose = append(owners, t.Item.claim.Owner), append(whose, t.Item)
		}
	}
	var rows []db.PlanClaimRow
	err := c.conns.Run(ctx, conn.Committing, func(q db.DBTX) (err error) {
		rows, err = claimByIndex(ctx, q, claimParams(whole, owners))
		return err
	})
	for _, t := range tasks {
		t.Item.err = err
	}
	if err != nil {
		return
	}
	for _, row := range rows {
		one := whose[row.Place-1]
		one.rows = append(one.rows, row)
	}
}

// claim sends a claim again only if the database aborted it.
func (p *pooled) claim(ctx context.Context, claim repo.Claim) (rows []db.PlanClaimRow, err error) {
	err = p.retried(ctx, func() (err error) {
		rows, err = p.claimer.submit(ctx, claim)
		return err
	})
	return rows, err
}

// claim leaves the settings of the caller's transaction as they are.
func (b bound) claim(ctx context.Context, claim repo.Claim) ([]db.PlanClaimRow, error) {
	owners := make([]string, claim.Limit)
	for i := range owners {
		owners[i] = claim.Owner
	}
	return run(ctx, b.write, queries.PlanClaim, claimParams(claim, owners))
}
