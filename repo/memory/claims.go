package memory

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
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
		t.wakeClaims()
	case before != nil && before.State == repo.PlanQueued:
		t.queue.remove(r.ID)
	}
	if before == nil || before.State != repo.PlanProcessing || r.State == repo.PlanProcessing {
		return
	}
	if claim := t.claims.get(r.ID); claim != nil {
		// Its owner may have acquired it again, after it expired: then it has another token.
		if lease := t.leases.get(repo.PlanLease(r.ID)); lease != nil && lease.Owner == claim.owner {
			t.releaseLease(lease.Key, lease.Fence)
		}
		t.claims.remove(r.ID)
		t.wakeClaims() // one that a limit kept from being claimed may be
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
		var due time.Time
		claimed, err := run(ctx, p.write, func(t *tables) ([]repo.ClaimedPlan, error) {
			if now := t.now(); now.Sub(t.sweptPlans) >= limits.ExpiredGrace {
				t.sweptPlans = now
				t.sweepPlans(limits.DefaultSweep)
			}
			claimed := t.claimPlans(claim)
			if len(claimed) == 0 && claim.Wait {
				change, due = t.claimsChange(), t.nextDue(claim)
			}
			return claimed, nil
		})
		if err != nil || change == nil {
			return claimed, err
		}
		if err := p.waitUntil(ctx, change, due); err != nil {
			return nil, err
		}
	}
}

// waitUntil waits for a change, or a time.
func (h *handle) waitUntil(ctx context.Context, change <-chan struct{}, due time.Time) (err error) {
	h.tables.clock.reach(due, func(reached <-chan struct{}) {
		select {
		case <-change:
		case <-reached:
		case <-ctx.Done():
			err = ctx.Err()
		case <-h.closing:
			err = repo.ErrClosed
		}
	})
	return err
}

// claimPlans first ends the claims that have expired.
func (t *tables) claimPlans(claim repo.Claim) []repo.ClaimedPlan {
	claimed := []repo.ClaimedPlan{}
	for _, expired := range t.expired(claim) {
		r := t.plans.get(expired.plan)
		if r.Attempt < r.MaxAttempts && (len(claimed) == claim.Limit || !t.mayGoOn(r.Plan)) {
			continue
		}
		moved, reason := rules.Expired(r.Plan)
		t.movePlan(r, moved, repo.TransitionExpire, repo.Cause{Actor: claim.Owner, Reason: reason})
		if moved.State == repo.PlanQueued {
			claimed = append(claimed, t.startClaim(claim, moved.ID))
		}
	}
	for _, r := range t.waiting(claim) {
		if len(claimed) == claim.Limit {
			break
		}
		if t.hasRoom(r.Plan) {
			claimed = append(claimed, t.startClaim(claim, r.ID))
		}
	}
	return claimed
}

// mayGoOn reports whether a claim that has expired may be taken over. One that may not is left to sweepPlans.
func (t *tables) mayGoOn(p repo.Plan) bool {
	late := !p.Deadline.IsZero() && !p.Deadline.After(t.now())
	return !late && t.room(p) >= 0 // it is counted itself
}

func (t *tables) startClaim(claim repo.Claim, id repo.ID) repo.ClaimedPlan {
	r := t.plans.get(id)
	t.turns++
	t.served[r.Namespace] = t.turns
	moved, _, _ := rules.Moved(r.Plan, repo.TransitionStart, repo.Cause{}) // a queued plan can be started
	t.movePlan(r, moved, repo.TransitionStart, repo.Cause{Actor: claim.Owner})
	lease := rules.NewClaimLease(claim, id, t.newToken(), t.now())
	t.leases.put(lease.Key, &lease)
	t.fence(lease)
	t.claims.put(id, &claimRow{plan: id, owner: claim.Owner})
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

// nextDue is when a claim, or a lease that kept a plan from being claimed, may have expired.
func (t *tables) nextDue(claim repo.Claim) time.Time {
	due := repo.MaxLeaseTTL
	now := t.now()
	nextSweep := t.sweptPlans.Add(limits.ExpiredGrace).Sub(now)
	for _, c := range t.claims.all() {
		p := t.plans.get(c.plan).Plan
		if rules.SelectsClaim(claim, p) && t.mayGoOn(p) {
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
		// One whose lease somebody holds waits for its end. What became due since the claim looked is due at once, but for
		// what a limit keeps.
		left := max(t.leaseLeft(id), rules.WaitsSince(r.Plan).Sub(t.now()))
		if rules.SelectsClaim(claim, r.Plan) && (left > 0 || t.hasRoom(r.Plan)) {
			due = min(due, left)
		}
	}
	return t.now().Add(due)
}

func shuffled(names []string) []string {
	names = slices.Clone(names)
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// waiting returns the queued plans that a claim asks for, in the order in which they are
// claimed: the namespaces take turns, in a random order.
func (t *tables) waiting(claim repo.Claim) []*planRow {
	lists := map[string][]*planRow{}
	for _, r := range t.queue.all() {
		if rules.SelectsClaim(claim, r.Plan) && t.leaseLeft(r.ID) <= 0 && rules.IsDue(r.Plan, t.now()) {
			lists[r.Namespace] = append(lists[r.Namespace], r)
		}
	}
	for _, list := range lists {
		slices.SortFunc(list, func(a, b *planRow) int { return rules.CompareWaiting(a.Plan, b.Plan) })
	}
	var order []*planRow
	turns := t.turnsOf(claim, lists)
	for turn := 0; len(lists) > 0; turn++ {
		for _, namespace := range turns {
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
