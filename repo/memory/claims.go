package memory

import (
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// claimRow is the claim of a plan that is processing.
type claimRow struct {
	plan  repo.ID
	owner string
}

// putPlan stores a plan, and keeps the queue and the claims in step with it.
func (t *tables) putPlan(r *planRow) {
	before := t.plans.get(r.ID)
	t.plans.put(r.ID, r)
	switch {
	case r.State == repo.PlanQueued:
		t.queue.put(r.ID, r)
		t.wake(topic{claims: true})
	case before != nil && before.State == repo.PlanQueued:
		t.queue.remove(r.ID)
	}
	if before == nil || before.State != repo.PlanProcessing || r.State == repo.PlanProcessing {
		return
	}
	if claim := t.claims.get(r.ID); claim != nil {
		// Its owner may have acquired it again, after it expired: then it has another fence.
		if lease := t.leases.get(repo.PlanLease(r.ID)); lease != nil && lease.Owner == claim.owner {
			t.releaseLease(lease.Key, lease.Fence)
		}
		t.claims.remove(r.ID)
		t.wake(topic{claims: true}) // a plan that a limit held back may be claimed
	}
}

func (p plans) Claim(ctx context.Context, claim repo.Claim) ([]repo.ClaimedPlan, error) {
	claim, err := rules.NormalizeClaim(p.options.view, claim)
	if err == nil && claim.Wait && p.tables.base != nil {
		err = rules.CannotWait()
	}
	for {
		var watch *watch
		var due time.Time
		claimed, err := run(ctx, unless(err, p.write), func(t *tables) ([]repo.ClaimedPlan, error) {
			if now := t.now(); now.Sub(t.sweptPlans) >= limits.ExpiredGrace {
				t.sweptPlans = now
				t.sweepPlans(limits.DefaultSweep)
			}
			claimed := t.claimPlans(claim)
			if len(claimed) == 0 && claim.Wait {
				watch, due = t.watch(topic{claims: true}), t.nextDue(claim)
			}
			return claimed, nil
		})
		if err != nil || watch == nil {
			return claimed, err
		}
		if err := p.await(ctx, watch, due); err != nil {
			return nil, err
		}
	}
}

// claimPlans first ends the claims that have expired in their last attempt.
func (t *tables) claimPlans(claim repo.Claim) []repo.ClaimedPlan {
	choice := rules.Choice{Most: claim.Limit}
	for _, expired := range t.claims.where(func(c *claimRow) bool {
		return t.leaseLeft(c.plan) <= 0 && asks(claim, t.plans.get(c.plan).Plan)
	}) {
		switch r := t.plans.get(expired.plan); {
		case r.Attempt >= r.MaxAttempts:
			t.endClaim(claim, r)
		case !t.isLate(r.Plan): // a late one is left to sweepPlans
			choice.Candidates = append(choice.Candidates, candidate(r.Plan, t.leaseEnd(r.ID)))
		}
	}
	for _, r := range t.queue.all() {
		if asks(claim, r.Plan) && t.leaseLeft(r.ID) <= 0 && rules.IsDue(r.Plan, t.now()) {
			choice.Candidates = append(choice.Candidates, candidate(r.Plan, rules.WaitsSince(r.Plan)))
		}
	}
	choice.Turns, choice.Rooms = t.turnsOf(claim, choice.Candidates), t.rooms()
	order, most := choice.Pick()
	claimed := make([]repo.ClaimedPlan, 0, most)
	for _, one := range order[:most] {
		if one.Expired {
			t.endClaim(claim, t.plans.get(one.Plan))
		}
		claimed = append(claimed, t.startClaim(claim, one.Plan))
	}
	return claimed
}

func asks(claim repo.Claim, p repo.Plan) bool {
	return rules.SelectsClaim(claim, p.Namespace, p.Phase, p.Action.String())
}

// candidate returns a plan as one that a claim may take.
func candidate(p repo.Plan, since time.Time) rules.Candidate {
	return rules.Candidate{
		Plan: p.ID, Phase: p.Phase, Namespace: p.Namespace, Action: p.Action.String(), Priority: p.Priority, Since: since,
		Expired: p.State == repo.PlanProcessing, Bytes: rules.PlanBytes(p),
	}
}

// endClaim ends a claim that has expired.
func (t *tables) endClaim(claim repo.Claim, r *planRow) {
	moved, reason := rules.Expired(r.Plan)
	t.movePlan(r, moved, repo.TransitionExpire, repo.Cause{Actor: claim.Owner, Reason: reason})
}

func (t *tables) isLate(p repo.Plan) bool { return !p.Deadline.IsZero() && !p.Deadline.After(t.now()) }

func (t *tables) startClaim(claim repo.Claim, id repo.ID) repo.ClaimedPlan {
	r := t.plans.get(id)
	t.turns++
	t.served[r.Namespace] = t.turns
	moved, _, _ := rules.Moved(r.Plan, repo.TransitionStart, repo.Cause{}) // a queued plan can be started
	t.movePlan(r, moved, repo.TransitionStart, repo.Cause{Actor: claim.Owner})
	lease := rules.NewClaimLease(claim, id, t.newFence(), t.now())
	t.leases.put(lease.Key, &lease)
	t.fence(lease)
	t.claims.put(id, &claimRow{plan: id, owner: claim.Owner})
	return repo.ClaimedPlan{Plan: planOf(t.plans.get(id)), Lease: lease}
}

// leaseEnd is when the lease of a plan ends, or has ended. The zero time: it was released.
func (t *tables) leaseEnd(plan repo.ID) time.Time {
	if lease := t.leases.get(repo.PlanLease(plan)); lease != nil {
		return lease.ExpiresAt
	}
	return time.Time{}
}

// leaseLeft is how long the lease of a plan lasts, of any holder.
func (t *tables) leaseLeft(plan repo.ID) time.Duration {
	if end := t.leaseEnd(plan); !end.IsZero() {
		return end.Sub(t.now())
	}
	return 0
}

// nextDue is when a claim, or a lease that kept a plan from being claimed, may have expired.
func (t *tables) nextDue(claim repo.Claim) time.Time {
	due := repo.MaxLeaseTTL
	now := t.now()
	nextSweep := t.sweptPlans.Add(limits.ExpiredGrace).Sub(now)
	rooms := t.rooms()
	for _, c := range t.claims.all() {
		p := t.plans.get(c.plan).Plan
		if asks(claim, p) && !t.isLate(p) && rooms.Allow(candidate(p, now)) {
			due = min(due, t.leaseLeft(c.plan))
		} else { // once a sweep has ended it, a limit may allow another one
			due = min(due, max(t.leaseLeft(c.plan)+limits.ExpiredGrace, nextSweep))
		}
	}
	for id, r := range t.queue.all() {
		if !r.Deadline.IsZero() {
			due = min(due, max(r.Deadline.Sub(now), nextSweep))
		}
		if rules.IsOverdue(r.Plan, now) {
			continue
		}
		// A plan whose lease is held waits for its end. What became due since the claim looked is due at once, but for
		// what a limit keeps.
		left := max(t.leaseLeft(id), rules.WaitsSince(r.Plan).Sub(t.now()))
		if asks(claim, r.Plan) && (left > 0 || rooms.Allow(candidate(r.Plan, now))) {
			due = min(due, left)
		}
	}
	return t.now().Add(due)
}
