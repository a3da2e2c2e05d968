package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

func (p plans) Delete(ctx context.Context, id repo.ID, conditions ...repo.DeleteIf) error {
	only, err := rules.PlanDeleteIf(conditions)
	if err != nil {
		return err
	}
	_, err = runOn(ctx, p.write, p.plan, id, func(t *tables, r *planRow) (struct{}, error) {
		doomed := t.below(r)
		if i := slices.IndexFunc(doomed, t.heldPlan); i >= 0 {
			return struct{}{}, rules.Held(doomed[i].ID)
		}
		if err := rules.PlanDeletable(id, only, r.Version, r.UpdatedAt); err != nil {
			return struct{}{}, err
		}
		if i := slices.IndexFunc(doomed, func(r *planRow) bool {
			return rules.IsBusy(r.Plan) || !only.IdleSince.IsZero() && rules.IsOpen(r.Plan)
		}); i >= 0 {
			return struct{}{}, rules.PlanIsBusy(doomed[i].ID)
		}
		t.deletePlans(doomed)
		return struct{}{}, nil
	})
	return err
}

// below returns a plan and the plans below it, by id.
func (t *tables) below(top *planRow) []*planRow {
	found := []*planRow{top}
	for i := 0; i < len(found); i++ {
		found = append(found, t.children(found[i].ID)...)
	}
	slices.SortFunc(found, func(a, b *planRow) int { return a.ID.Compare(b.ID) })
	return found
}

func (t *tables) deletePlans(doomed []*planRow) {
	for _, r := range doomed {
		for id, session := range t.sessions.all() {
			if slices.Contains(session.planIDs, r.ID) {
				t.editSession(id).unlink(r.ID)
			}
		}
		unname(&t.planKeys, keyOfPlan(r.SessionID, r.Namespace, r.Key), r.ID)
		t.plans.remove(r.ID)
		t.recordEvent(t.now(), repo.AuditEntry{
			Type: events.EntityDeleted, Namespace: r.Namespace, PlanID: r.ID, Details: rules.DeletedDetails(r.Plan),
		})
	}
}

func (p plans) Sweep(ctx context.Context, limit int) (int, error) {
	limit, err := rules.CheckSweep(limit)
	return run(ctx, unless(err, p.write), func(t *tables) (int, error) { return t.sweepPlans(limit), nil })
}

// sweepPlans ends and deletes up to limit plans of each kind.
func (t *tables) sweepPlans(limit int) (swept int) {
	now := t.now()
	end := func(r *planRow, moved repo.Plan, reason string) {
		t.movePlan(r, moved, repo.TransitionExpire, repo.Cause{Reason: reason})
		swept++
	}
	for _, r := range first(limit, t.queue.where(func(r *planRow) bool { return rules.IsOverdue(r.Plan, now) })) {
		moved, reason := rules.Overdue(r.Plan)
		end(r, moved, reason)
	}
	for _, c := range first(limit, t.claims.where(func(c *claimRow) bool {
		return t.leaseLeft(c.plan) <= 0 && t.isOver(c, now)
	})) {
		r := t.plans.get(c.plan)
		moved, reason := rules.Expired(r.Plan)
		end(r, moved, reason)
	}
	kept := t.plans.where(func(r *planRow) bool {
		return r.Keep > 0 && r.ParentID.IsZero() && !rules.IsOpen(r.Plan) && !r.UpdatedAt.Add(r.Keep).After(now)
	})
	deleted := 0
	for _, r := range kept {
		doomed := t.below(r)
		if deleted < limit && !slices.ContainsFunc(doomed, func(r *planRow) bool {
			return rules.IsOpen(r.Plan) || t.heldPlan(r)
		}) {
			t.deletePlans(doomed)
			deleted += len(doomed)
		}
	}
	return swept + deleted
}

// isOver reports whether a claim has expired for so long that no claim takes it over. A lease that
// was released is gone, so the plan's last change stands for that.
func (t *tables) isOver(c *claimRow, now time.Time) bool {
	ended := cmp.Or(t.leaseEnd(c.plan), t.plans.get(c.plan).UpdatedAt)
	return !ended.Add(limits.ExpiredGrace).After(now)
}

func first[Row any](limit int, rows []*Row) []*Row { return rows[:min(limit, len(rows))] }
