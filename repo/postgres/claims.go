package postgres

import (
	"context"
	"errors"

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
	rows, err := p.exec.(claims).claim(ctx, asked)
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

// claimOrWait holds no connection while it waits. If the database goes away meanwhile, it
// waits until that is back.
func (p *plans) claimOrWait(ctx context.Context, asked repo.Claim) (claimed []repo.ClaimedPlan, err error) {
	pool, ok := p.exec.(*pooled)
	if !ok {
		return nil, rules.CannotWait()
	}
	if err := pool.enter(ctx); err != nil {
		return nil, err
	}
	// Not inside of the gate: Close ends those who wait, and does not wait for them.
	pool.gate.leave()
	looked := false
	err = pool.live.awaitPlans(ctx, pool.gate.closing, asked, func() (bool, error) {
		claimed, err = p.claim(ctx, asked)
		if looked && errors.Is(err, repo.ErrUnavailable) && ctx.Err() == nil {
			return false, nil
		}
		looked = true
		return len(claimed) > 0, err
	})
	return claimed, err
}

// claims is an executor that makes claims.
type claims interface {
	claim(ctx context.Context, asked repo.Claim) ([]claim.Claimed, error)
}

var (
	_ claims = (*pooled)(nil)
	_ claims = bound{}
)

// committedClaims is the committer of claims.
type committedClaims struct{ *claim.Claimer }

func newCommittedClaims(p *pooled) committedClaims { return committedClaims{claim.New(p.budget)} }

func (c committedClaims) close() { c.Close() }

func (p *pooled) claim(ctx context.Context, asked repo.Claim) ([]claim.Claimed, error) {
	one, err := claim.NewClaiming(asked)
	if err != nil {
		return nil, err
	}
	err = p.submitted(ctx, "claim", one, func() error { return committerOf(p, newCommittedClaims).Make(ctx, one) })
	committerOf(p, newPlanSweeper).wake()
	if err != nil {
		return nil, err // one may still be in a group
	}
	return one.Rows, nil
}

func (b bound) claim(ctx context.Context, asked repo.Claim) ([]claim.Claimed, error) {
	return ask(ctx, b.write, func(q db.DBTX) ([]claim.Claimed, error) { return claim.InTx(ctx, q, asked) })
}
