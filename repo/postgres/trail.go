package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// trail is repo.AuditStore: holds and pruning here, the sink and the log in the
// files beside.
type trail struct{ exec *pooled }

// pruneBatch bounds one transaction of a prune.
const pruneBatch = 5000

func (t *trail) Prune(ctx context.Context, prune repo.AuditPrune) (repo.AuditPruned, error) {
	prune, err := prune.Normalize()
	if err != nil {
		return repo.AuditPruned{}, err
	}
	types := make([]string, len(prune.Types))
	for i, kind := range prune.Types {
		types[i] = string(kind)
	}
	var found db.AuditCountOldRow
	err = t.exec.read(ctx, func(q db.DBTX) (err error) {
		found, err = queries.AuditCountOld(ctx, q, prune.Before, types)
		return err
	})
	if err != nil {
		return repo.AuditPruned{}, err
	}
	result := repo.AuditPruned{Entries: found.Pruned, Held: found.Held, Unsealed: found.Unsealed}
	switch {
	case prune.DryRun:
		return result, nil
	case found.Pruned == 0: // an earlier prune may have left an empty month
		return result, t.dropPartitions(ctx, prune.Before)
	}
	holds, err := t.Holds(ctx)
	if err != nil {
		return repo.AuditPruned{}, err
	}
	entry, err := repo.PruneEntry(prune, holds)
	if err != nil {
		return repo.AuditPruned{}, err
	}
	// First the entry that says so: what was removed is never without one.
	if err := (&audit{t.exec}).Record(ctx, entry); err != nil {
		return repo.AuditPruned{}, err
	}
	result.Entries = 0
	var batch db.AuditPruneBatchRow
	for {
		batch, err = run(ctx, t.exec.write, queries.AuditPruneBatch, db.AuditPruneBatchParams{
			After: batch.Reached, Before: prune.Before, Types: types, ByEntry: toUUID(entry.ID), MaxRows: pruneBatch,
		})
		if err != nil {
			return result, err
		}
		result.Entries += batch.Pruned
		if batch.Pruned < pruneBatch {
			return result, t.dropPartitions(ctx, prune.Before)
		}
	}
}

// dropPartitions gives the space of emptied months back. Where readers do not let
// it, the next prune will: what had to go is gone.
func (t *trail) dropPartitions(ctx context.Context, before time.Time) error {
	for {
		dropped, err := run(ctx, t.exec.write, queries.AuditDropPartition, before)
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

func (t *trail) Hold(ctx context.Context, hold repo.AuditHold) error {
	if err := hold.Normalize(false); err != nil {
		return err
	}
	kind, subject := holdOf(hold)
	return t.exec.writeByID(ctx, func(q db.DBTX) error {
		return queries.AuditHold(ctx, q, db.AuditHoldParams{Kind: kind, Subject: toUUID(subject), Reason: hold.Reason})
	})
}

func (t *trail) Release(ctx context.Context, hold repo.AuditHold) error {
	if err := hold.Normalize(true); err != nil {
		return err
	}
	kind, subject := holdOf(hold)
	return t.exec.writeByID(ctx, func(q db.DBTX) error {
		return queries.AuditRelease(ctx, q, kind, toUUID(subject))
	})
}

func (t *trail) Holds(ctx context.Context) ([]repo.AuditHold, error) {
	var rows []db.AuditHold
	err := t.exec.read(ctx, func(q db.DBTX) (err error) {
		rows, err = queries.AuditHolds(ctx, q)
		return err
	})
	if err != nil {
		return nil, err
	}
	holds := make([]repo.AuditHold, len(rows))
	for i, row := range rows {
		holds[i] = repo.AuditHold{Reason: row.Reason, CreatedAt: row.CreatedAt.UTC()}
		if row.Kind == "plan" {
			holds[i].PlanID = row.Subject.Bytes
		} else {
			holds[i].SessionID = row.Subject.Bytes
		}
	}
	return holds, nil
}
