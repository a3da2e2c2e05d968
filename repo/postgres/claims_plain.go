package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// claimPlain is PlanClaim by plain statements, behind those of a look: see conn.Conns.Distributed. The first round trip locks and
// looks, the second one writes and commits.
func claimPlain(ctx context.Context, q conn.Alone, look []func(db.DBTX) error, params db.PlanClaimParams) ([]db.PlanClaimRow, error) {
	defer conn.RollbackOpen(ctx, q.Conn)
	var picked []db.PlanClaimPickRow
	p := &conn.Pipeline{}
	p.Exec(ctx, "begin isolation level read committed")
	p.Steps = append(p.Steps, look...)
	p.Add(func(q db.DBTX) (err error) {
		picked, err = queries.PlanClaimPick(ctx, q, db.PlanClaimPickParams(params))
		return err
	})
	if err := p.Send(ctx, q.Conn); err != nil {
		return nil, &conn.Answer{Err: conn.Translate(ctx, err, conn.Reading)}
	}
	if len(picked) == 0 {
		return nil, nil
	}
	w := newPickedPlans(picked, params)
	p = &conn.Pipeline{}
	w.add(ctx, p)
	p.Exec(ctx, "commit")
	if err := p.Send(ctx, q.Conn); err != nil {
		return nil, err
	}
	return w.rows(picked), nil
}

// pickedPlans is what a claim by plain statements writes: of plans that start, of those that have no attempt left, and of
// claims that go on.
type pickedPlans struct {
	start    db.PlanClaimStartParams
	lease    db.PlanClaimLeaseParams
	failed   db.PlanClaimErrorParams
	later    []pgtype.UUID
	laterAts []time.Time
	steps    db.PlanClaimHistoryParams
	started  []db.Plan
}

func newPickedPlans(picked []db.PlanClaimPickRow, params db.PlanClaimParams) *pickedPlans {
	w := &pickedPlans{}
	w.lease.LeaseNamespace, w.lease.Now, w.lease.Until = params.LeaseNamespace, picked[0].Now, picked[0].Until
	w.start.Now, w.failed.Now = picked[0].Now, picked[0].Now
	processing, queued := string(repo.PlanProcessing), string(repo.PlanQueued)
	for _, row := range picked {
		switch row.What {
		case "later":
			w.later, w.laterAts = append(w.later, row.ID), append(w.laterAts, row.At)
		case "error":
			w.failed.Ids, w.failed.Reasons = append(w.failed.Ids, row.ID), append(w.failed.Reasons, row.Reason)
			w.step(row.ID, row.Version+1, repo.TransitionExpire, processing, string(repo.PlanErrored), params.Owners[0], row.Reason)
		default:
			owner := params.Owners[row.Place-1]
			if row.State == processing {
				row.Version++
				w.step(row.ID, row.Version, repo.TransitionExpire, processing, queued, owner, row.Reason)
			}
			row.Version++
			w.step(row.ID, row.Version, repo.TransitionStart, queued, processing, owner, "")
			w.start.Ids, w.start.Versions = append(w.start.Ids, row.ID), append(w.start.Versions, row.Version)
			w.start.Attempts, w.start.Tokens = append(w.start.Attempts, row.Attempt), append(w.start.Tokens, row.Token)
			w.lease.Owners = append(w.lease.Owners, owner)
		}
	}
	w.lease.Ids, w.lease.Tokens = w.start.Ids, w.start.Tokens
	return w
}

func (w *pickedPlans) step(id pgtype.UUID, version int64, transition repo.Transition, from, to, actor, reason string) {
	s := &w.steps
	s.Ids, s.Versions, s.Transitions = append(s.Ids, id), append(s.Versions, version), append(s.Transitions, string(transition))
	s.FromStates, s.ToStates = append(s.FromStates, from), append(s.ToStates, to)
	s.Actors, s.Reasons = append(s.Actors, actor), append(s.Reasons, reason)
}

// add adds the statements.
func (w *pickedPlans) add(ctx context.Context, p *conn.Pipeline) {
	whole := func(given int, write func(db.DBTX) (int64, error)) {
		if given == 0 {
			return
		}
		p.Add(func(q db.DBTX) error {
			rows, err := write(q)
			return conn.Whole(rows, given, err)
		})
	}
	whole(len(w.later), func(q db.DBTX) (int64, error) { return queries.PlanClaimLater(ctx, q, w.later, w.laterAts) })
	whole(len(w.start.Ids), func(q db.DBTX) (int64, error) { return queries.PlanClaimLease(ctx, q, w.lease) })
	whole(len(w.start.Ids), func(q db.DBTX) (rows int64, err error) {
		w.started, err = queries.PlanClaimStart(ctx, q, w.start)
		return int64(len(w.started)), err
	})
	whole(len(w.start.Ids), func(q db.DBTX) (int64, error) {
		return queries.PlanClaimNote(ctx, q, db.PlanClaimNoteParams{
			LeaseNamespace: w.lease.LeaseNamespace, Ids: w.start.Ids, Owners: w.lease.Owners, Until: w.lease.Until,
		})
	})
	whole(len(w.failed.Ids), func(q db.DBTX) (int64, error) { return queries.PlanClaimError(ctx, q, w.failed) })
	whole(len(w.steps.Ids), func(q db.DBTX) (int64, error) { return queries.PlanClaimHistory(ctx, q, w.steps) })
	whole(len(w.steps.Ids), func(q db.DBTX) (int64, error) {
		s := w.steps
		return queries.PlanClaimTell(ctx, q, db.PlanClaimTellParams{
			Ids: s.Ids, Versions: s.Versions, Transitions: s.Transitions, FromStates: s.FromStates, ToStates: s.ToStates, Actors: s.Actors, Now: w.start.Now,
		})
	})
}

// rows are the answer, in the order of the owners.
func (w *pickedPlans) rows(picked []db.PlanClaimPickRow) (rows []db.PlanClaimRow) {
	for _, row := range picked {
		if i := slices.IndexFunc(w.started, func(plan db.Plan) bool { return plan.ID == row.ID && row.What == "start" }); i >= 0 {
			plan := w.started[i]
			rows = append(rows, db.PlanClaimRow{
				Plan: plan, Phase: plan.Phase, Version: plan.Version, Attempt: plan.Attempt, UpdatedAt: plan.UpdatedAt,
				ReversionCount: plan.ReversionCount, LastCompletedStep: plan.LastCompletedStep, LastCheckpointID: plan.LastCheckpointID,
				Token: row.Token, Place: row.Place, AcquiredAt: row.Now, ExpiresAt: row.Until, FirstSince: row.At,
			})
		}
	}
	return rows
}
