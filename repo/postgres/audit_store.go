package postgres

import (
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// auditStore implements auditlog.Store. The sink is in audit_sink.go, the log in
// audit_log.go.
type auditStore struct{ exec *pooled }

// These bound one transaction of a prune: holds wait for it, and it keeps rows locked.
const (
	pruneRows  = 1000
	prunePause = 50 * time.Millisecond
)

func (a *auditStore) Prune(ctx context.Context, prune auditlog.Prune) (pruned auditlog.Pruned, err error) {
	prune, err = rules.NormalizePrune(prune)
	if err != nil {
		return pruned, err
	}
	var holds []auditlog.Hold
	if !prune.DryRun { // which needs no more than to read
		err = a.exec.atomically(ctx, func(q db.DBTX) (err error) {
			if err = queries.AuditPruneBegin(ctx, q); err == nil {
				holds, err = readHolds(ctx, q)
			}
			return err
		})
		if err != nil {
			return pruned, err
		}
	}
	types := append([]string{}, prune.Types...)
	next := db.AuditPrunableParams{AfterID: convert.UUID(repo.ID{}), Before: prune.Before, Types: types}
	for {
		page, err := run(ctx, a.exec.read, queries.AuditPrunable, next)
		if err != nil {
			return pruned, err
		}
		if page.Pruned > 0 && !prune.DryRun {
			break
		}
		count(&pruned, page)
		if page.Found < pruneRows {
			return pruned, nil
		}
		next.AfterOccurredAt, next.AfterID = page.ReachedOccurredAt, page.ReachedID
	}
	entry, err := rules.PruneEntry(prune, holds)
	if err != nil {
		return pruned, err
	}
	// The entry is recorded first, so that no removal is without one.
	if err := (&audit{base{exec: a.exec}}).Record(ctx, entry); err != nil {
		return pruned, err
	}
	batch := db.AuditPruneBatchParams{
		AfterOccurredAt: next.AfterOccurredAt, AfterID: next.AfterID,
		ByEntry: convert.UUID(entry.ID), MaxRows: pruneRows,
	}
	for {
		began := time.Now()
		done, err := a.pruneBatch(ctx, batch)
		if err != nil {
			return pruned, err
		}
		count(&pruned, db.AuditPrunableRow(done))
		if done.Found < int64(batch.MaxRows) {
			return pruned, nil
		}
		batch.AfterOccurredAt, batch.AfterID = done.ReachedOccurredAt, done.ReachedID
		batch.MaxRows = nextRows(batch.MaxRows, time.Since(began))
	}
}

// pruneBatch removes one batch in a transaction of its own.
func (a *auditStore) pruneBatch(ctx context.Context, batch db.AuditPruneBatchParams) (done db.AuditPruneBatchRow,
	err error,
) {
	err = a.exec.atomically(ctx, func(q db.DBTX) (err error) {
		if err = queries.AuditPruneBegin(ctx, q); err == nil {
			done, err = queries.AuditPruneBatch(ctx, q, batch)
		}
		return err
	})
	return done, err
}

func count(pruned *auditlog.Pruned, page db.AuditPrunableRow) {
	pruned.Entries += page.Pruned
	pruned.Held += page.Held
	pruned.Unsealed += page.Unsealed
}

// nextRows returns the rows of the next batch, after one of so many rows took so long.
func nextRows(rows int32, took time.Duration) int32 {
	switch {
	case took > prunePause:
		return max(rows/2, pruneRows/100)
	case took < prunePause/2:
		return min(rows*2, pruneRows)
	}
	return rows
}

func holdOf(hold auditlog.Hold) (kind string, subject repo.ID) {
	if hold.PlanID.IsZero() {
		return "session", hold.SessionID
	}
	return "plan", hold.PlanID
}

func (a *auditStore) Hold(ctx context.Context, hold auditlog.Hold) error {
	if err := rules.CheckHold(hold, false); err != nil {
		return err
	}
	kind, subject := holdOf(hold)
	return a.exec.writeByID(ctx, func(q db.DBTX) error {
		return queries.AuditHold(ctx, q, db.AuditHoldParams{Kind: kind, Subject: convert.UUID(subject), Reason: hold.Reason})
	})
}

func (a *auditStore) Release(ctx context.Context, hold auditlog.Hold) error {
	if err := rules.CheckHold(hold, true); err != nil {
		return err
	}
	kind, subject := holdOf(hold)
	return a.exec.writeByID(ctx, func(q db.DBTX) error {
		return queries.AuditRelease(ctx, q, db.AuditReleaseParams{Kind: kind, Subject: convert.UUID(subject)})
	})
}

func (a *auditStore) Holds(ctx context.Context) ([]auditlog.Hold, error) {
	return ask(ctx, a.exec.read, func(q db.DBTX) ([]auditlog.Hold, error) { return readHolds(ctx, q) })
}

func readHolds(ctx context.Context, q db.DBTX) ([]auditlog.Hold, error) {
	rows, err := queries.AuditHolds(ctx, q)
	return convert.Each(rows, func(row db.AuditHold) auditlog.Hold {
		hold := auditlog.Hold{Reason: row.Reason, CreatedAt: row.CreatedAt.UTC()}
		if row.Kind == "plan" {
			hold.PlanID = row.Subject.Bytes
		} else {
			hold.SessionID = row.Subject.Bytes
		}
		return hold
	}), err
}
