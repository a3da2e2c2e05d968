package memory

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// claimRow is the claim of a plan that is processing.
type claimRow struct {
	plan        repo.ID
	owner       string
	maxAttempts int
}

// putPlan stores a plan, and keeps the queue and the claims in step with it.
func (t *tables) putPlan(r *planRow) {
	before := t.plans.get(r.ID)
	t.plans.put(r.ID, r)
	switch {
	case r.State == repo.StateQueued:
		t.queue.put(r.ID, r)
		t.wakeClaims()
	case before != nil && before.State == repo.StateQueued:
		t.queue.remove(r.ID)
	}
	if before == nil || before.State != repo.StateProcessing || r.State == repo.StateProcessing {
		return
	}
	if claim := t.claims.get(r.ID); claim != nil {
		// Its owner may have acquired it again, after it expired: then it has another token.
		if lease := t.leases.get(repo.PlanLease(r.ID)); lease != nil && lease.Owner == claim.owner {
			t.releaseLease(lease.Key, lease.Token)
		}
		t.claims.remove(r.ID)
	}
}

// wakeClaims wakes the claims that wait. Changes in a transaction are seen when it is
// committed.
func (t *tables) wakeClaims() {
	if t.base == nil && t.queued != nil {
		close(t.queued)
		t.queued = nil
	}
}

// claimsChange returns a channel that is closed when a claim may find something new.
func (t *tables) claimsChange() <-chan struct{} {
	if t.queued == nil {
		t.queued = make(chan struct{})
	}
	return t.queued
}

func (p plans) Claim(ctx context.Context, claim repo.Claim) ([]repo.ClaimedPlan, error) {
	claim, err := rules.NormalizeClaim(claim)
	if err != nil {
		return nil, err
	}
	if claim.Wait && p.tables.base != nil {
		return nil, rules.CannotWait()
	}
	for {
		var change <-chan struct{}
		var due time.Duration
		claimed, err := run(ctx, p.write, func(t *tables) ([]repo.ClaimedPlan, error) {
			claimed := t.claimPlans(claim)
			if len(claimed) == 0 && claim.Wait {
				change, due = t.claimsChange(), t.nextDue(claim)
			}
			return claimed, nil
		})
		if err != nil || change == nil {
			return claimed, err
		}
		if err := p.waitForPlans(ctx, change, due); err != nil {
			return nil, err
		}
	}
}

func (p plans) waitForPlans(ctx context.Context, change <-chan struct{}, due time.Duration) error {
	timer := time.NewTimer(due)
	defer timer.Stop()
	select {
	case <-change:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.closing:
		return repo.ErrClosed
	}
	return nil
}

// claimPlans first ends the claims that have expired.
func (t *tables) claimPlans(claim repo.Claim) []repo.ClaimedPlan {
	claimed := []repo.ClaimedPlan{}
	for _, expired := range t.expired(claim) {
		r := t.plans.get(expired.plan)
		if r.Attempt < expired.maxAttempts && len(claimed) == claim.Limit {
			continue
		}
		moved, reason := rules.Expired(r.Plan, expired.owner, expired.maxAttempts)
		t.movePlan(r, moved, repo.TransitionExpire, repo.Cause{Actor: claim.Owner, Reason: reason})
		if moved.State == repo.StateQueued {
			claimed = append(claimed, t.startClaim(claim, moved.ID))
		}
	}
	for _, r := range t.waiting(claim) {
		if len(claimed) == claim.Limit {
			break
		}
		claimed = append(claimed, t.startClaim(claim, r.ID))
	}
	return claimed
}

func (t *tables) startClaim(claim repo.Claim, id repo.ID) repo.ClaimedPlan {
	r := t.plans.get(id)
	moved, _, _ := rules.Moved(r.Plan, repo.TransitionStart, repo.Cause{}) // a queued plan can be started
	t.movePlan(r, moved, repo.TransitionStart, repo.Cause{Actor: claim.Owner})
	lease := rules.NewClaimLease(claim, id, t.newToken(), t.now())
	t.leases.put(lease.Key, &lease)
	t.fence(lease)
	t.claims.put(id, &claimRow{plan: id, owner: claim.Owner, maxAttempts: claim.MaxAttempts})
	return repo.ClaimedPlan{Plan: planOf(t.plans.get(id)), Lease: lease}
}

// expired returns the claims that a claim asks for and that have expired: first those whose
// leases were released, then the others in the order in which they ended.
func (t *tables) expired(claim repo.Claim) []*claimRow {
	found := t.claims.where(func(c *claimRow) bool {
		return t.leaseLeft(c.plan) <= 0 && rules.SelectsClaim(claim, t.plans.get(c.plan).Plan)
	})
	end := func(c *claimRow) (at time.Time) {
		if lease := t.leases.get(repo.PlanLease(c.plan)); lease != nil {
			at = lease.ExpiresAt
		}
		return at
	}
	slices.SortFunc(found, func(a, b *claimRow) int { return cmp.Or(end(a).Compare(end(b)), a.plan.Compare(b.plan)) })
	return found
}

// leaseLeft is how long the lease of a plan lasts, whoever has it.
func (t *tables) leaseLeft(plan repo.ID) time.Duration {
	lease := t.leases.get(repo.PlanLease(plan))
	if lease == nil {
		return 0
	}
	return lease.ExpiresAt.Sub(t.now())
}

// nextDue is how long it takes until a claim may have expired.
func (t *tables) nextDue(claim repo.Claim) time.Duration {
	due := repo.MaxLeaseTTL
	for _, c := range t.claims.all() {
		if rules.SelectsClaim(claim, t.plans.get(c.plan).Plan) {
			due = min(due, t.leaseLeft(c.plan))
		}
	}
	return due
}

// waiting returns the queued plans that a claim asks for, in the order in which they are
// claimed: the namespaces take turns, in a random order.
func (t *tables) waiting(claim repo.Claim) []*planRow {
	lists := map[string][]*planRow{}
	for _, r := range t.queue.all() {
		if rules.SelectsClaim(claim, r.Plan) && t.leaseLeft(r.ID) <= 0 {
			lists[r.Namespace] = append(lists[r.Namespace], r)
		}
	}
	for _, list := range lists {
		slices.SortFunc(list, func(a, b *planRow) int { return rules.CompareWaiting(a.Plan, b.Plan) })
	}
	var order []*planRow
	turns := rand.Perm(len(claim.Namespaces))
	for turn := 0; len(lists) > 0; turn++ {
		for _, i := range turns {
			namespace := claim.Namespaces[i]
			switch list := lists[namespace]; {
			case turn < len(list):
				order = append(order, list[turn])
			default:
				delete(lists, namespace)
			}
		}
	}
	return order
}
