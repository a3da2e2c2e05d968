package postgres

import (
	"context"
	"errors"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// Claim is not sent again if an answer was lost: it would claim more plans.
func (p *plans) Claim(ctx context.Context, claim repo.Claim) ([]repo.ClaimedPlan, error) {
	claim, err := rules.NormalizeClaim(p.view, claim)
	switch {
	case err != nil:
		return nil, err
	case claim.Wait:
		return p.claimOrWait(ctx, claim)
	}
	return p.claim(ctx, claim)
}

func (p *plans) claim(ctx context.Context, claim repo.Claim) ([]repo.ClaimedPlan, error) {
	rows, err := p.exec.(claims).claim(ctx, claim)
	if err != nil {
		return nil, err
	}
	claimed := make([]repo.ClaimedPlan, len(rows))
	for i, row := range rows {
		plan, err := planOf(row.plan)
		if err != nil {
			return nil, p.exec.unread(err)
		}
		p.learn("plan", plan.ID)
		claimed[i] = repo.ClaimedPlan{Plan: plan, Lease: row.lease}
	}
	return claimed, nil
}

// claimOrWait holds no connection while it waits. If the database goes away meanwhile, it
// waits until that is back.
func (p *plans) claimOrWait(ctx context.Context, claim repo.Claim) (claimed []repo.ClaimedPlan, err error) {
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
	err = pool.live.awaitPlans(ctx, pool.gate.closing, claim, func() (bool, error) {
		claimed, err = p.claim(ctx, claim)
		if looked && errors.Is(err, repo.ErrUnavailable) && ctx.Err() == nil {
			return false, nil
		}
		looked = true
		return len(claimed) > 0, err
	})
	return claimed, err
}
