package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// Claim is not sent again if an answer was lost: it would claim more plans.
func (p *plans) Claim(ctx context.Context, claim repo.Claim) ([]repo.ClaimedPlan, error) {
	claim, err := rules.NormalizeClaim(claim)
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
		plan, err := planOf(claimedDetail(row))
		if err != nil {
			return nil, p.exec.unread(err)
		}
		claimed[i] = repo.ClaimedPlan{Plan: plan, Lease: leaseOf(repo.PlanLease(plan.ID), db.LeaseGetRow{
			Owner: claim.Owner, Token: row.Token, AcquiredAt: row.AcquiredAt, ExpiresAt: row.ExpiresAt,
		})}
	}
	return claimed, nil
}

// lanes are what a claim asks for: combinations of a namespace, a phase, a priority, and an
// action or "" for any.
type lanes struct {
	places                      []int32
	priorities                  []int16
	namespaces, phases, actions []string
}

// lanesOf gives the namespaces their places by lot, so that each has the same chance to be
// the first.
func lanesOf(claim repo.Claim) (l lanes) {
	actions := claim.Actions
	if len(actions) == 0 {
		actions = []string{""}
	}
	namespaces := slices.Clone(claim.Namespaces)
	rand.Shuffle(len(namespaces), func(i, j int) { namespaces[i], namespaces[j] = namespaces[j], namespaces[i] })
	for place, namespace := range namespaces {
		for _, phase := range claim.Phases {
			for _, action := range actions {
				for priority := range int16(limits.MaxPriority + 1) {
					l.places = append(l.places, int32(place))
					l.namespaces = append(l.namespaces, namespace)
					l.phases = append(l.phases, string(phase))
					l.priorities = append(l.priorities, priority)
					l.actions = append(l.actions, action)
				}
			}
		}
	}
	return l
}

// claimedDetail returns the plan with the columns that the claim has changed. The view's
// row has them as they were when the statement began.
func claimedDetail(row db.PlanClaimRow) db.Plan {
	plan := row.Plan
	plan.State, plan.Version, plan.Attempt, plan.UpdatedAt = string(repo.PlanProcessing), row.Version, row.Attempt, row.UpdatedAt
	plan.Phase, plan.ReversionCount = row.Phase, row.ReversionCount
	plan.LastCompletedStep, plan.LastCheckpointID = row.LastCompletedStep, row.LastCheckpointID
	plan.NotBefore, plan.ErrorMessage, plan.ErrorDetails, plan.CancelledAt, plan.CancelReason = nil, nil, nil, nil, nil
	return plan
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
