package claim

import (
	"context"
	"encoding/json"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// Claiming is a claim that is under way.
type Claiming struct {
	commit.Progress

	claim repo.Claim
	// alike is what it asks for. Claims that ask for the same share a statement.
	alike string
	Rows  []Claimed
}

// Size implements commit.Item.
func (c *Claiming) Size() scheduler.Size {
	return scheduler.Size{Rows: c.claim.Limit, Bytes: len(c.alike) + len(c.claim.Owner)}
}

// Claimer makes claims in groups: while a claim is under way, further claims that ask for the same,
// for any owners, are gathered into one statement. Its plans go to the owners in the order in which
// they asked. Workers of one process that claimed one by one would look at the same plans, at the
// head of the queue, and each would wait for a commit of its own.
type Claimer struct {
	*commit.Committer[string, *Claiming]

	heads queueHeads
}

// claimLimits: a group of claims is as large as the largest claim.
var claimLimits = scheduler.Limits{
	GroupRows: limits.MaxClaimedPlans, GroupBytes: 1 << 20, ShareRows: limits.MaxClaimedPlans,
	Items: 1 << 16, Rows: 1 << 20, Bytes: 256 << 20, Callers: 1 << 16,
}

// New returns a claimer. The caller must close it.
func New(budget *commit.Budget) *Claimer {
	c := &Claimer{}
	c.Committer = commit.New(budget, commit.Config[string, *Claiming]{
		Kind: "claim", Limits: claimLimits, Once: true,
		Unordered: true, Commit: c.claimAll,
	})
	return c
}

// NewClaiming returns a claim that was checked.
func NewClaiming(claim repo.Claim) (*Claiming, error) {
	alike, err := json.Marshal([]any{claim.Namespaces, claim.AllNamespaces, claim.Phases, claim.Actions, claim.TTL})
	return &Claiming{claim: claim, alike: string(alike)}, err
}

// Make makes a claim together with others, and waits for the answer.
func (c *Claimer) Make(ctx context.Context, one *Claiming) error {
	return c.Submit(ctx, one.alike, one)
}

// InTx has nothing to do with claims elsewhere.
func InTx(ctx context.Context, q db.DBTX, claim repo.Claim) ([]Claimed, error) {
	owners := make([]string, claim.Limit)
	for i := range owners {
		owners[i] = claim.Owner
	}
	return claimPlans(ctx, q, claim, owners, &queueHeads{}, "")
}

type claimTask = commit.Task[string, *Claiming]

// claimAll sends a statement for the claims of each key.
func (c *Claimer) claimAll(g *commit.Group[string, *Claiming]) {
	for tasks := g.Tasks; len(tasks) > 0; {
		alike := 1
		for alike < len(tasks) && tasks[alike].Key == tasks[0].Key {
			alike++
		}
		g.Run(tasks[:alike], func(ctx context.Context, q db.DBTX, tasks []*claimTask) (func(), func(*claimTask) bool, error) {
			var owners []string
			var whose []*Claiming
			for _, t := range tasks {
				for range t.Item.claim.Limit {
					owners, whose = append(owners, t.Item.claim.Owner), append(whose, t.Item)
				}
			}
			rows, err := claimPlans(ctx, q, tasks[0].Item.claim, owners, &c.heads, tasks[0].Key)
			return func() {
				for _, row := range rows {
					one := whose[row.place]
					one.Rows = append(one.Rows, row)
				}
				g.Made(tasks...)
			}, nil, err
		})
		tasks = tasks[alike:]
	}
}
