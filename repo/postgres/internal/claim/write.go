package claim

import (
	"context"
	"slices"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// Claimed is a plan that was claimed for an owner, by the owner's place in the claim.
type Claimed struct {
	Plan  db.Plan
	Lease repo.Lease
	place int
}

// claimWrites are the arguments of the statements that write what a claim has chosen.
type claimWrites struct {
	lease  db.PlanClaimLeaseParams
	start  db.PlanClaimStartParams
	note   db.PlanClaimNoteParams
	failed db.PlanClaimErrorParams
	steps  db.PlanClaimHistoryParams
}

// write writes what was chosen, and commits. An owner gets no plan if its plan's lease was acquired by another
// caller meanwhile.
func (c *choosing) write(ctx context.Context, owners []string) (rows []Claimed, err error) {
	if len(c.Taken)+len(c.ended)+len(c.held.Ids) == 0 {
		return nil, nil
	}
	now, until := c.now, c.now.Add(c.claim.TTL)
	w := &claimWrites{
		lease:  db.PlanClaimLeaseParams{LeaseNamespace: convert.LeaseNamespace, Now: now, Until: until},
		start:  db.PlanClaimStartParams{LeaseNamespace: convert.LeaseNamespace, Now: now},
		note:   db.PlanClaimNoteParams{LeaseNamespace: convert.LeaseNamespace, Until: until},
		failed: db.PlanClaimErrorParams{Now: now},
	}
	for _, one := range c.ended {
		w.add(one, c.locked[one.Plan], owners[0])
	}
	for i, one := range c.Taken {
		w.add(one, c.locked[one.Plan], owners[i])
	}
	var started []db.Plan
	p := w.statements(ctx, &started)
	if len(c.held.Ids) > 0 {
		p.Add(func(q db.DBTX) error { return queries.PlanClaimLater(ctx, q, c.held) })
	}
	if c.own == nil {
		err = p.Send(ctx, c.q)
	} else {
		err = p.SendAndCommit(ctx, c.own)
	}
	if err != nil {
		return nil, err
	}
	for place, one := range c.Taken {
		if i := slices.IndexFunc(started, func(plan db.Plan) bool { return plan.ID.Bytes == one.Plan }); i >= 0 {
			rows = append(rows, Claimed{started[i], convert.Lease(repo.PlanLease(one.Plan), db.LeaseGetRow{
				Owner: owners[place], Fence: c.locked[one.Plan].Fence, AcquiredAt: now, ExpiresAt: until,
			}), place})
		}
	}
	return rows, nil
}

// add adds what becomes of a plan that is locked.
func (w *claimWrites) add(one rules.Candidate, row db.PlanClaimLockRow, owner string) {
	if one.Expired {
		moved, reason := rules.Expired(repo.Plan{
			Stage: repo.Stage{Phase: one.Phase, State: repo.PlanProcessing}, Version: row.Version, Attempt: int(row.Attempt),
			MaxAttempts: int(row.MaxAttempts),
		})
		row.Version, row.Attempt = moved.Version, int32(moved.Attempt)
		w.step(row, repo.TransitionExpire, repo.PlanProcessing, moved.State, owner, reason)
		if moved.State == repo.PlanErrored {
			w.failed.Ids, w.failed.Reasons = append(w.failed.Ids, row.ID), append(w.failed.Reasons, reason)
			return
		}
	}
	row.Version++
	w.step(row, repo.TransitionStart, repo.PlanQueued, repo.PlanProcessing, owner, "")
	w.start.Ids, w.start.Versions = append(w.start.Ids, row.ID), append(w.start.Versions, row.Version)
	w.start.Attempts, w.start.Fences = append(w.start.Attempts, row.Attempt), append(w.start.Fences, row.Fence)
	w.note.Owners, w.note.Bytes = append(w.note.Owners, owner), append(w.note.Bytes, int32(one.Bytes))
}

// step adds a change, which gives its plan the version of row.
func (w *claimWrites) step(row db.PlanClaimLockRow, transition repo.Transition, from, to repo.PlanState, actor,
	reason string,
) {
	s := &w.steps
	s.Ids, s.Versions, s.Transitions = append(s.Ids, row.ID), append(s.Versions, row.Version),
		append(s.Transitions, string(transition))
	s.FromStates, s.ToStates = append(s.FromStates, string(from)), append(s.ToStates, string(to))
	s.Actors, s.Reasons = append(s.Actors, actor), append(s.Reasons, reason)
}

func (w *claimWrites) statements(ctx context.Context, started *[]db.Plan) *conn.Pipeline {
	p := &conn.Pipeline{}
	if len(w.start.Ids) > 0 {
		w.lease.Ids, w.lease.Owners, w.lease.Fences = w.start.Ids, w.note.Owners, w.start.Fences
		w.note.Ids, w.note.Versions = w.start.Ids, w.start.Versions
		p.Add(func(q db.DBTX) error { return queries.PlanClaimLease(ctx, q, w.lease) })
		p.Add(func(q db.DBTX) (err error) {
			*started, err = queries.PlanClaimStart(ctx, q, w.start)
			return err
		})
		p.Add(func(q db.DBTX) error { return queries.PlanClaimNote(ctx, q, w.note) })
	}
	if len(w.failed.Ids) > 0 {
		p.Add(func(q db.DBTX) error { return queries.PlanClaimError(ctx, q, w.failed) })
	}
	if s := w.steps; len(s.Ids) > 0 {
		p.Add(func(q db.DBTX) error { return queries.PlanClaimHistory(ctx, q, s) })
		p.Add(func(q db.DBTX) error {
			return queries.PlanClaimTell(ctx, q, db.PlanClaimTellParams{
				Ids: s.Ids, Versions: s.Versions, Transitions: s.Transitions, FromStates: s.FromStates, ToStates: s.ToStates,
				Actors: s.Actors, Now: w.lease.Now,
			})
		})
	}
	return p
}
