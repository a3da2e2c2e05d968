package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// claimPlain is PlanClaim by plain statements, behind those of a look: see conn.Conns.Distributed. The first round trip locks and
// looks, the second one takes leases, and the third one writes and commits.
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
	picked, err := leasePicked(ctx, q.Conn, picked, params)
	if err != nil {
		return nil, &conn.Answer{Err: conn.Translate(ctx, err, conn.Reading)}
	}
	if len(picked) == 0 {
		return nil, nil
	}
	w := newPickedPlans(picked, params)
	p = &conn.Pipeline{}
	w.add(ctx, p)
	if err := p.SendAndCommit(ctx, q.Conn); err != nil {
		return nil, err
	}
	return w.rows(picked), nil
}

// leasePicked takes the leases of plans that start, and leaves out those whose lease somebody has acquired since.
func leasePicked(ctx context.Context, q *pgx.Conn, picked []db.PlanClaimPickRow, params db.PlanClaimParams) ([]db.PlanClaimPickRow, error) {
	lease := db.PlanClaimLeaseParams{LeaseNamespace: params.LeaseNamespace, Now: picked[0].Now, Until: picked[0].Until}
	for _, row := range picked {
		if row.What == pickedStart {
			lease.Ids, lease.Owners = append(lease.Ids, row.ID), append(lease.Owners, params.Owners[row.Place-1])
			lease.Tokens = append(lease.Tokens, row.Token)
		}
	}
	if len(lease.Ids) == 0 {
		return picked, nil
	}
	leased, err := queries.PlanClaimLease(ctx, q, lease)
	return slices.DeleteFunc(picked, func(row db.PlanClaimPickRow) bool {
		return row.What == pickedStart && !slices.Contains(leased, row.ID)
	}), err
}

// What is to be done with what PlanClaimPick has found.
const (
	pickedStart = "start"
	pickedError = "error"
	pickedLater = "later"
)

// pickedPlans is what a claim by plain statements writes: of plans that start, of those that have no attempt left, and of
// claims that go on.
type pickedPlans struct {
	start    db.PlanClaimStartParams
	note     db.PlanClaimNoteParams
	failed   db.PlanClaimErrorParams
	later    []pgtype.UUID
	laterAts []time.Time
	steps    db.PlanClaimHistoryParams
	told     db.PlanClaimTellParams
	started  []db.Plan
}

func newPickedPlans(picked []db.PlanClaimPickRow, params db.PlanClaimParams) *pickedPlans {
	now, until := picked[0].Now, picked[0].Until
	w := &pickedPlans{
		start: db.PlanClaimStartParams{Now: now}, failed: db.PlanClaimErrorParams{Now: now}, told: db.PlanClaimTellParams{Now: now},
		note: db.PlanClaimNoteParams{LeaseNamespace: params.LeaseNamespace, Until: until},
	}
	for _, row := range picked {
		switch row.What {
		case pickedLater:
			w.later, w.laterAts = append(w.later, row.ID), append(w.laterAts, row.At)
		case pickedError:
			w.failed.Ids, w.failed.Reasons = append(w.failed.Ids, row.ID), append(w.failed.Reasons, row.Reason)
			w.step(row, 1, repo.TransitionExpire, repo.PlanProcessing, repo.PlanErrored, params.Owners[0])
		default:
			w.begin(row, params.Owners[row.Place-1])
		}
	}
	w.note.Ids, w.note.Attempts = w.start.Ids, w.start.Attempts
	w.told.Ids, w.told.Versions, w.told.Transitions, w.told.Phases = w.steps.Ids, w.steps.Versions, w.steps.Transitions, w.steps.Phases
	w.told.FromStates, w.told.ToStates, w.told.Actors = w.steps.FromStates, w.steps.ToStates, w.steps.Actors
	return w
}

func (w *pickedPlans) begin(row db.PlanClaimPickRow, owner string) {
	more := int64(1)
	if row.State == string(repo.PlanProcessing) {
		w.step(row, more, repo.TransitionExpire, repo.PlanProcessing, repo.PlanQueued, owner)
		more++
	}
	row.Reason = ""
	w.step(row, more, repo.TransitionStart, repo.PlanQueued, repo.PlanProcessing, owner)
	w.start.Ids, w.start.Versions = append(w.start.Ids, row.ID), append(w.start.Versions, row.Version+more)
	w.start.Attempts, w.start.Tokens = append(w.start.Attempts, row.Attempt), append(w.start.Tokens, row.Token)
	n := &w.note
	n.Namespaces, n.ActionNames = append(n.Namespaces, row.Namespace), append(n.ActionNames, row.ActionName)
	n.Phases, n.Owners, n.MaxAttempts = append(n.Phases, row.Phase), append(n.Owners, owner), append(n.MaxAttempts, row.MaxAttempts)
}

// step notes a change of a plan, which gives it the version that is so many more.
func (w *pickedPlans) step(row db.PlanClaimPickRow, more int64, transition repo.Transition, from, to repo.PlanState, actor string) {
	s := &w.steps
	s.Ids, s.Versions, s.Transitions = append(s.Ids, row.ID), append(s.Versions, row.Version+more), append(s.Transitions, string(transition))
	s.Phases, s.FromStates, s.ToStates = append(s.Phases, row.Phase), append(s.FromStates, string(from)), append(s.ToStates, string(to))
	s.Actors, s.Reasons, s.CreatedAts = append(s.Actors, actor), append(s.Reasons, row.Reason), append(s.CreatedAts, row.UpdatedAt)
	w.told.Namespaces = append(w.told.Namespaces, row.Namespace)
}

// add adds the statements.
func (w *pickedPlans) add(ctx context.Context, p *conn.Pipeline) {
	if len(w.later) > 0 {
		p.Add(func(q db.DBTX) error {
			return queries.PlanClaimLater(ctx, q, db.PlanClaimLaterParams{Ids: w.later, CheckAts: w.laterAts})
		})
	}
	if len(w.start.Ids) > 0 {
		p.Add(func(q db.DBTX) (err error) {
			w.started, err = queries.PlanClaimStart(ctx, q, w.start)
			return err
		})
		p.Add(func(q db.DBTX) error { return queries.PlanClaimNote(ctx, q, w.note) })
	}
	if len(w.failed.Ids) > 0 {
		p.Add(func(q db.DBTX) error { return queries.PlanClaimError(ctx, q, w.failed) })
	}
	if len(w.steps.Ids) > 0 {
		p.Add(func(q db.DBTX) error { return queries.PlanClaimHistory(ctx, q, w.steps) })
		p.Add(func(q db.DBTX) error { return queries.PlanClaimTell(ctx, q, w.told) })
	}
}

// rows are the answer, in the order of the owners.
func (w *pickedPlans) rows(picked []db.PlanClaimPickRow) (rows []db.PlanClaimRow) {
	for _, row := range picked {
		if i := slices.IndexFunc(w.started, func(plan db.Plan) bool { return plan.ID == row.ID }); i >= 0 {
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
