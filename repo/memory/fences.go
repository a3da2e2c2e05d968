package memory

import (
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// fence tells the session or plan that a lease names of its fence.
func (t *tables) fence(lease repo.Lease) {
	id, _ := repo.ParseID(lease.Key.Name) // or zero, which nothing has
	session, plan := t.sessions.get(id), t.plans.get(id)
	switch {
	case lease.Key.Kind == repo.LeaseOfSession && session != nil && session.fence < lease.Fence:
		t.editSession(id).fence = lease.Fence
	case lease.Key.Kind == repo.LeaseOfPlan && plan != nil && plan.fence < lease.Fence:
		t.putFence(plan, lease.Fence)
	}
}

// fenceOf returns the fence of a session that is to be changed by a write with a fence.
func (t *tables) fenceOf(r *sessionRow, fence int64) rules.Fence {
	key := repo.SessionLease(r.ID)
	r.fence = t.latest(key, r.fence, fence)
	return rules.Fence{Key: key, Latest: r.fence, Only: r.FencedOnly}
}

// checkPlan checks the fence of a write to a plan, and returns the plan's row, which may
// have learnt of it.
func (t *tables) checkPlan(r *planRow, fence int64) (*planRow, error) {
	key := repo.PlanLease(r.ID)
	latest := t.latest(key, r.fence, fence)
	if latest != r.fence {
		r = t.putFence(r, latest)
	}
	return r, rules.Fence{Key: key, Latest: latest}.Check(fence)
}

// latest returns the latest fence of a key, of which known is known. A larger one was
// given before there was anything to know of it.
func (t *tables) latest(key repo.LeaseKey, known, given int64) int64 {
	if lease := t.leases.get(key); given > known && lease != nil {
		return max(known, lease.Fence)
	}
	return known
}

// putFence stores a plan with another fence. Rows of plans are never changed.
func (t *tables) putFence(r *planRow, fence int64) *planRow {
	changed := *r
	changed.fence = fence
	t.putPlan(&changed)
	return &changed
}
