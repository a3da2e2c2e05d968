package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/claim"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// Claim is not sent again if an answer was lost: it would claim more plans.
func (p *plans) Claim(ctx context.Context, asked repo.Claim) ([]repo.ClaimedPlan, error) {
	asked, err := rules.NormalizeClaim(p.view, asked)
	switch {
	case err != nil:
		return nil, err
	case asked.Wait:
		return p.claimOrWait(ctx, asked)
	}
	return p.claim(ctx, asked)
}

func (p *plans) claim(ctx context.Context, asked repo.Claim) ([]repo.ClaimedPlan, error) {
	rows, err := p.exec.claim(ctx, asked)
	if err != nil {
		return nil, err
	}
	claimed := make([]repo.ClaimedPlan, len(rows))
	for i, row := range rows {
		plan, err := convert.Plan(row.Plan)
		if err != nil {
			return nil, p.exec.unread(err)
		}
		p.learn("plan", plan.ID)
		claimed[i] = repo.ClaimedPlan{Plan: plan, Lease: row.Lease}
	}
	return claimed, nil
}

func newClaims(p *pooled) *claim.Claimer { return claim.New(p.budget) }

func (p *pooled) claim(ctx context.Context, asked repo.Claim) ([]claim.Claimed, error) {
	one, err := claim.NewClaiming(asked)
	if err != nil {
		return nil, err
	}
	err = p.submitted(ctx, "claim", one, func() error { return committerOf(p, newClaims).Make(ctx, one) })
	committerOf(p, newPlanSweeper).wake()
	if err != nil {
		return nil, err // one may still be in a group
	}
	return one.Rows, nil
}

func (b bound) claim(ctx context.Context, asked repo.Claim) ([]claim.Claimed, error) {
	return ask(ctx, b.write, func(q db.DBTX) ([]claim.Claimed, error) { return claim.InTx(ctx, q, asked) })
}
