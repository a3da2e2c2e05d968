package postgres

import (
	"context"
	"encoding/json"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// claiming is a claim that is under way.
type claiming struct {
	commit.Progress

	claim repo.Claim
	// alike is what it asks for. Those that ask for the same share a statement.
	alike string
	rows  []claimedRow
}

// Size implements commit.Item.
func (c *claiming) Size() scheduler.Size {
	return scheduler.Size{Rows: c.claim.Limit, Bytes: len(c.alike) + len(c.claim.Owner)}
}

// claimer makes claims in groups: those that ask for the same, for whichever owners, while
// a claim like them is under way are one statement. Its plans go to the owners in the
// order in which they asked. Workers of one process that claimed one by one would look at
// the same plans, at the head of the queue, and each would wait for a commit of its own.
type claimer struct {
	*commit.Committer[string, *claiming]

	heads queueHeads
}

// claimLimits: a group of claims is as large as the largest claim.
var claimLimits = scheduler.Limits{
	GroupRows: limits.MaxClaimedPlans, GroupBytes: 1 << 20, ShareRows: limits.MaxClaimedPlans,
	Items: 1 << 16, Rows: 1 << 20, Bytes: 256 << 20, Callers: 1 << 16,
}

func newClaimer(p *pooled) *claimer {
	c := &claimer{}
	c.Committer = commit.New(p.budget, commit.Config[string, *claiming]{Kind: "claim", Limits: claimLimits, Once: true, Unordered: true, Commit: c.claimAll})
	return c
}

func (c *claimer) close() { c.Close() }

// claim makes a claim together with others, and waits for the answer.
func (p *pooled) claim(ctx context.Context, claim repo.Claim) ([]claimedRow, error) {
	alike, err := json.Marshal([]any{claim.Namespaces, claim.AllNamespaces, claim.Phases, claim.Actions, claim.TTL})
	if err != nil {
		return nil, err
	}
	one := &claiming{claim: claim, alike: string(alike)}
	err = p.submitted(ctx, "claim", one, func() error { return committerOf(p, newClaimer).Submit(ctx, one.alike, one) })
	committerOf(p, newPlanSweeper).wake()
	if err != nil {
		return nil, err // one may still be in a group
	}
	return one.rows, nil
}

// claim has nothing to do with claims elsewhere.
func (b bound) claim(ctx context.Context, claim repo.Claim) ([]claimedRow, error) {
	owners := make([]string, claim.Limit)
	for i := range owners {
		owners[i] = claim.Owner
	}
	return ask(ctx, b.write, func(q db.DBTX) ([]claimedRow, error) {
		return claimPlans(ctx, q, claim, owners, &queueHeads{}, "")
	})
}

// claims is an executor that makes claims.
type claims interface {
	claim(ctx context.Context, claim repo.Claim) ([]claimedRow, error)
}

var (
	_ claims = (*pooled)(nil)
	_ claims = bound{}
)

type claimTask = commit.Task[string, *claiming]

// claimAll sends a statement for the claims of each key.
func (c *claimer) claimAll(g *commit.Group[string, *claiming]) {
	for tasks := g.Tasks; len(tasks) > 0; {
		alike := 1
		for alike < len(tasks) && tasks[alike].Key == tasks[0].Key {
			alike++
		}
		g.Run(tasks[:alike], func(ctx context.Context, q db.DBTX, tasks []*claimTask) (func(), func(*claimTask) bool, error) {
			var owners []string
			var whose []*claiming
			for _, t := range tasks {
				for range t.Item.claim.Limit {
					owners, whose = append(owners, t.Item.claim.Owner), append(whose, t.Item)
				}
			}
			rows, err := claimPlans(ctx, q, tasks[0].Item.claim, owners, &c.heads, tasks[0].Key)
			return func() {
				for _, row := range rows {
					one := whose[row.place]
					one.rows = append(one.rows, row)
				}
				for _, t := range tasks {
					g.Done(t, nil)
				}
			}, nil, err
		})
		tasks = tasks[alike:]
	}
}
