package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// auditStore implements repo.AuditStore. The sink is in audit_sink.go, the log in
// audit_log.go.
type auditStore struct{ exec *pooled }

// pruneBatch bounds the entries that one transaction of a prune removes.
const pruneBatch = 5000

func (a *auditStore) Prune(ctx context.Context, prune repo.AuditPrune) (repo.AuditPruned, error) {
	prune, err := rules.NormalizePrune(prune)
	if err != nil {
		return repo.AuditPruned{}, err
	}
	types := make([]string, len(prune.Types))
	for i, kind := range prune.Types {
		types[i] = string(kind)
	}
	found, err := run2(ctx, a.exec.read, queries.AuditCountOld, prune.Before, types)
	if err != nil {
		return repo.AuditPruned{}, err
	}
	result := repo.AuditPruned{Entries: found.Pruned, Held: found.Held, Unsealed: found.Unsealed}
	switch {
	case prune.DryRun:
		return result, nil
	case found.Pruned == 0: // an earlier prune may have left an empty month
		return result, a.dropPartitions(ctx, prune.Before)
	}
	holds, err := a.Holds(ctx)
	if err != nil {
		return repo.AuditPruned{}, err
	}
	entry, err := rules.PruneEntry(prune, holds)
	if err != nil {
		return repo.AuditPruned{}, err
	}
	entry.OccurredAt = entry.ID.Timestamp() // the batches find the entry by its time and id
	// The entry is recorded first, so that no removal is without one.
	if err := (&audit{a.exec}).Record(ctx, entry); err != nil {
		return repo.AuditPruned{}, err
	}
	result.Entries = 0
	var batch db.AuditPruneBatchRow
	for {
		batch, err = run(ctx, a.exec.write, queries.AuditPruneBatch, db.AuditPruneBatchParams{
			After: batch.Reached, Before: prune.Before, Types: types,
			ByEntry: toUUID(entry.ID), ByOccurredAt: entry.OccurredAt, MaxRows: pruneBatch,
		})
		if err != nil {
			return result, err
		}
		result.Entries += batch.Pruned
		if batch.Pruned < pruneBatch {
			return result, a.dropPartitions(ctx, prune.Before)
		}
	}
}

// dropPartitions drops the partitions that have become empty. If readers hold a lock
// it leaves that to the next prune, since the entries themselves are removed already.
func (a *auditStore) dropPartitions(ctx context.Context, before time.Time) error {
	for {
		dropped, err := run(ctx, a.exec.write, queries.AuditDropPartition, before)
		if errors.Is(err, repo.ErrContention) {
			return nil
		}
		if err != nil || !dropped {
			return err
		}
	}
}

func holdOf(hold repo.AuditHold) (kind string, subject repo.ID) {
	if hold.PlanID.IsZero() {
		return "session", hold.SessionID
	}
	return "plan", hold.PlanID
}

func (a *auditStore) Hold(ctx context.Context, hold repo.AuditHold) error {
	if err := rules.CheckHold(hold, false); err != nil {
		return err
	}
	kind, subject := holdOf(hold)
	return a.exec.writeByID(ctx, func(q db.DBTX) error {
		return queries.AuditHold(ctx, q, db.AuditHoldParams{Kind: kind, Subject: toUUID(subject), Reason: hold.Reason})
	})
}

func (a *auditStore) Release(ctx context.Context, hold repo.AuditHold) error {
	if err := rules.CheckHold(hold, true); err != nil {
		return err
	}
	kind, subject := holdOf(hold)
	return a.exec.writeByID(ctx, func(q db.DBTX) error {
		return queries.AuditRelease(ctx, q, kind, toUUID(subject))
	})
}

func (a *auditStore) Holds(ctx context.Context) ([]repo.AuditHold, error) {
	rows, err := ask(ctx, a.exec.read, func(q db.DBTX) ([]db.AuditHold, error) { return queries.AuditHolds(ctx, q) })
	if err != nil {
		return nil, err
	}
	return each(rows, func(row db.AuditHold) repo.AuditHold {
		hold := repo.AuditHold{Reason: row.Reason, CreatedAt: row.CreatedAt.UTC()}
		if row.Kind == "plan" {
			hold.PlanID = row.Subject.Bytes
		} else {
			hold.SessionID = row.Subject.Bytes
		}
		return hold
	}), nil
}
