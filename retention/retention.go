// Package retention removes what is older than its owner promised: idle sessions, finished plans, expired streams, and
// sealed entries of the audit trail. It is built on the contract of package repo alone, and works with every store.
package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/pages"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/removal"
)

// Policy says what is removed, and at which age. The zero value removes nothing but expired streams and the rest of
// deleted sessions.
type Policy struct {
	// Sessions has, by namespace, how long after its last message a session is deleted.
	Sessions map[string]time.Duration
	// Plans has, by namespace, how long after its end a plan without a parent is deleted, with the plans below it.
	Plans map[string]time.Duration
	// Turns is the age at which records of turns are removed: a turn that is repeated after that is added again. Zero:
	// never. Turns and Audit are of the whole store: a view refuses them.
	Turns time.Duration
	// Audit is the age at which sealed entries of the audit trail are pruned. Zero: never. On PostgreSQL only the owner of
	// the tables can.
	Audit time.Duration
	// Actor and Reason are recorded with a prune.
	Actor, Reason string
	// DryRun counts, and removes nothing.
	DryRun bool
	// Progress, if set, is called with the report so far after each page and batch.
	Progress func(Report)
	// Wait, if set, is called before each batch: it returns when the database has time for one. Run itself pauses after
	// each batch for as long as that took, and makes batches smaller that take more than 50 ms.
	Wait func(context.Context) error
}

// Report counts what a run has removed; in a dry run, what it would.
type Report struct {
	Sessions int64 `json:"sessions"`
	Messages int64 `json:"messages"` // of these sessions
	// messages of these sessions that forks have; a dry run of the whole store counts them as Messages
	Kept    int64 `json:"kept"`
	Plans   int64 `json:"plans"` // without the plans below them
	Rows    int64 `json:"rows"`  // removed of sessions that were deleted, now or earlier
	Turns   int64 `json:"turns"` // records of turns
	Streams int64 `json:"streams"`
	Entries int64 `json:"audit_entries"`
	Held    int64 `json:"held"` // sessions, plans, records of turns and entries that a legal hold keeps
	// InUse counts sessions and plans that are in use (docs/retention.md), or were used when they were to be deleted: they
	// stay.
	InUse int64 `json:"in_use"`
}

// batchRows is the most that one transaction removes, and batchTime what it should take.
const (
	batchRows = 1000
	batchTime = 50 * time.Millisecond
)

const pageSessions = 200

type run struct {
	Policy
	store  repo.Store
	now    time.Time
	report Report
	rows   int // of the next batch
}

// Run removes what the policy says, until nothing is left to be removed. Of several at the same time one works, and the
// others return a LeaseConflictError. It may be ended at any time: the next run goes on. Ages are by the store's clock
// or this machine's, whichever is behind when it begins: neither makes anything older by being wrong alone.
//
// Errors: InvalidError; repo.LeaseConflictError; the store's, and the context's, with the report so far.
func Run(ctx context.Context, store repo.Store, policy Policy) (Report, error) {
	r := &run{Policy: policy, store: store, now: time.Now(), rows: batchRows}
	if err := r.check(); err != nil {
		return Report{}, err
	}
	lease, err := repo.HoldLease(ctx, store, repo.NewLease{
		Key:   repo.LeaseKey{Kind: "retention", Name: "run"},
		Owner: repo.NewID().String(),
	})
	if err != nil {
		return Report{}, err
	}
	// The store has set the times that are compared, by its own clock. What that says is taken for granted unless it is
	// ahead.
	if at := lease.Lease().AcquiredAt; at.Before(r.now) {
		r.now = at
	}
	held := lease.Context()
	err = r.run(held)                                                                 //nolint:contextcheck // which ends with ctx
	if cause := context.Cause(held); err != nil && cause != nil && ctx.Err() == nil { //nolint:contextcheck // it is a child of ctx
		err = cause
	}
	return r.report, errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
}

func (r *run) check() error {
	for field, ages := range map[string]map[string]time.Duration{"sessions": r.Sessions, "plans": r.Plans} {
		for namespace, age := range ages {
			if age <= 0 {
				return &repo.InvalidError{Field: fmt.Sprintf("%s[%q]", field, namespace), Reason: "is not above 0"}
			}
		}
	}
	_, turns := r.store.(removal.Keeper)
	_, log := r.store.(auditlog.Keeper)
	for _, of := range []struct {
		field string
		age   time.Duration
		kept  bool
	}{{"turns", r.Turns, turns}, {"audit", r.Audit, log}} {
		switch {
		case of.age < 0:
			return &repo.InvalidError{Field: of.field, Reason: "is below 0"}
		case of.age > 0 && !of.kept:
			return &repo.InvalidError{
				Field:  of.field,
				Reason: "is set, but the store is a view, or another that cannot remove them: run it on the whole store",
			}
		}
	}
	return nil
}

func (r *run) run(ctx context.Context) error {
	// Before the sessions, with which they would go uncounted.
	if err := r.turns(ctx); err != nil {
		return err
	}
	for _, namespace := range slices.Sorted(maps.Keys(r.Sessions)) {
		if err := r.sessions(ctx, namespace, r.now.Add(-r.Sessions[namespace])); err != nil {
			return err
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(r.Plans)) {
		if err := r.plans(ctx, namespace, r.now.Add(-r.Plans[namespace])); err != nil {
			return err
		}
	}
	if !r.DryRun {
		if err := r.rest(ctx); err != nil {
			return err
		}
	}
	return r.audit(ctx)
}

// turns removes records of turns.
func (r *run) turns(ctx context.Context) error {
	if r.Turns == 0 {
		return nil
	}
	keeper := r.store.(removal.Keeper) //nolint:forcetypeassert // checked before
	for from, more := (time.Time{}), true; more; {
		if err := r.batch(ctx, func() error {
			removed, held, next, err := keeper.Removal().RemoveTurns(ctx, from, r.now.Add(-r.Turns), r.rows, r.DryRun)
			r.report.Turns += removed
			r.report.Held += held
			from, more = next, !next.IsZero()
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) sessions(ctx context.Context, namespace string, since time.Time) error {
	filter := repo.SessionFilter{Namespace: namespace, AnyOwner: true, IdleSince: since}
	list := func(page repo.Page) (repo.List[repo.Session], error) {
		return r.store.Sessions().List(ctx, filter, page)
	}
	return pages.Each(pageSessions, list, func(found []repo.Session) error {
		if r.DryRun {
			return r.countSessions(ctx, found, since)
		}
		for len(found) > 0 {
			n := removal.Batch(found, r.rows)
			if err := r.batch(ctx, func() error { return r.deleteSessions(ctx, found[:n], since) }); err != nil {
				return err
			}
			found = found[n:]
		}
		return nil
	})
}

func (r *run) countSessions(ctx context.Context, sessions []repo.Session, since time.Time) error {
	keeper, is := r.store.(removal.Keeper)
	if !is { // a view
		return r.deleteSessions(ctx, sessions, since)
	}
	messages, ids := map[repo.ID]int64{}, make([]repo.ID, len(sessions))
	for i, s := range sessions {
		ids[i], messages[s.ID] = s.ID, s.MessageCount
	}
	judged, err := keeper.Removal().Judge(ctx, ids)
	for _, s := range judged {
		switch {
		case s.Held:
			r.report.Held++
		case s.InUse:
			r.report.InUse++
		default:
			r.report.Sessions++
			r.report.Messages += messages[s.ID] - s.Inherited
		}
	}
	return err
}

func (r *run) deleteSessions(ctx context.Context, sessions []repo.Session, since time.Time) error {
	all := make([]removal.Deletion, len(sessions))
	for i, s := range sessions {
		all[i] = removal.Deletion{ID: s.ID, If: repo.DeleteIf{
			Version: s.Version, IdleSince: since,
			Messages: &s.MessageCount,
		}}
	}
	if !r.DryRun {
		removal.Delete(ctx, r.store, all)
	}
	var err error
	for _, d := range all {
		if r.DryRun {
			d.Err = r.wouldDelete(ctx, func(ctx context.Context, tx repo.Repositories) (err error) {
				d.Deleted, err = tx.Sessions().Delete(ctx, d.ID, d.If)
				return err
			})
		}
		if d.Err != nil {
			err = cmp.Or(err, r.stays(d.Err))
			continue
		}
		r.report.Sessions++
		r.report.Messages += d.Deleted.Messages
		r.report.Kept += d.Deleted.Kept
	}
	return err
}

// stays counts what could not be deleted for what is stored. Others may have deleted it.
func (r *run) stays(err error) error {
	var refused *repo.RefusedError
	switch {
	case errors.As(err, &refused) && refused.Kind == "hold":
		r.report.Held++
	case errors.Is(err, repo.ErrConflict), errors.Is(err, repo.ErrContention):
		r.report.InUse++
	case !errors.Is(err, repo.ErrNotFound):
		return err
	}
	return nil
}

// plans deletes the plans that were applied or cancelled.
func (r *run) plans(ctx context.Context, namespace string, before time.Time) error {
	for _, state := range []repo.PlanState{repo.PlanApplied, repo.PlanCancelled} {
		filter := repo.PlanFilter{Namespace: namespace, State: state}
		err := pages.Items(func(page repo.Page) (repo.List[repo.Plan], error) {
			return r.store.Plans().List(ctx, filter,
				page)
		}, func(p repo.Plan) error {
			if !p.ParentID.IsZero() || !p.UpdatedAt.Before(before) {
				return nil
			}
			return r.batch(ctx, func() error {
				if err := r.deletePlan(ctx, p, before); err != nil {
					return r.stays(err)
				}
				r.report.Plans++
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

var errDryRun = errors.New("a dry run")

// deletePlan deletes a plan, in a dry run in a transaction that is rolled back: what is below it may be held, or have
// work.
func (r *run) deletePlan(ctx context.Context, p repo.Plan, before time.Time) error {
	only := repo.DeleteIf{Version: p.Version, IdleSince: before}
	if !r.DryRun {
		return r.store.Plans().Delete(ctx, p.ID, only)
	}
	return r.wouldDelete(ctx, func(ctx context.Context, tx repo.Repositories) error {
		return tx.Plans().Delete(ctx, p.ID,
			only)
	})
}

// wouldDelete calls a deletion in a transaction that is rolled back.
func (r *run) wouldDelete(ctx context.Context, remove func(context.Context, repo.Repositories) error) error {
	err := r.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error {
		return cmp.Or(remove(ctx, tx),
			errDryRun)
	})
	if errors.Is(err, errDryRun) {
		return nil
	}
	return err
}

// rest removes what deletions and expiries have left.
func (r *run) rest(ctx context.Context) error {
	for more := true; more; {
		if err := r.batch(ctx, func() (err error) {
			var removed int64
			removed, more, err = r.store.Sessions().RemoveDeleted(ctx, r.rows)
			r.report.Rows += removed
			return err
		}); err != nil {
			return err
		}
	}
	for more := true; more; {
		if err := r.batch(ctx, func() error {
			streams, parts, err := r.store.Streams().RemoveExpired(ctx, r.rows)
			r.report.Streams += streams
			more = streams+parts > 0
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) audit(ctx context.Context) error {
	if r.Audit == 0 {
		return nil
	}
	keeper := r.store.(auditlog.Keeper) //nolint:forcetypeassert // checked before
	prune := auditlog.Prune{Before: r.now.Add(-r.Audit), DryRun: r.DryRun, Actor: r.Actor, Reason: r.Reason}
	pruned, err := keeper.AuditLog().Prune(ctx, prune)
	r.report.Entries += pruned.Entries
	r.report.Held += pruned.Held
	return err
}

// batch runs one transaction, or in a view some small ones, and pauses for as long as that took: a busy server makes it
// take longer, and so the pauses.
func (r *run) batch(ctx context.Context, do func() error) error {
	if r.Wait != nil {
		if err := r.Wait(ctx); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := do(); err != nil {
		return err
	}
	took := time.Since(began)
	switch {
	case took > batchTime:
		r.rows = max(r.rows/2, 10)
	case took < batchTime/2:
		r.rows = min(r.rows*2, batchRows)
	}
	if r.Progress != nil {
		r.Progress(r.report)
	}
	select {
	case <-time.After(took):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
