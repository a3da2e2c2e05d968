package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

// auditStore is repo.AuditStore: the sink, pruning and holds here, the log in the
// file beside. It is not for transactions: its tables are the committed ones.
type auditStore struct{ *handle }

type sink struct {
	*handle
	closed bool
}

func (a auditStore) Sink(ctx context.Context) (repo.AuditSink, error) {
	if err := a.usable(ctx); err != nil {
		return nil, err
	}
	return &sink{handle: a.handle}, nil
}

func (s *sink) Record(ctx context.Context, entries []repo.AuditEntry) (repo.AuditRecorded, error) {
	if s.closed {
		return repo.AuditRecorded{}, repo.ErrClosed
	}
	return audit{s.handle}.record(ctx, entries)
}

func (s *sink) Quarantine(ctx context.Context, poison repo.AuditPoison) error {
	if s.closed {
		return repo.ErrClosed
	}
	return exec(ctx, s.write, func(t *tables) error {
		poison.Document = bytes.Clone(poison.Document)
		t.log.quarantine[poisonKey{poison.ID, string(poison.Document)}] = poison
		return nil
	})
}

func (s *sink) Close() error {
	s.closed = true
	return nil
}

func (a auditStore) Prune(ctx context.Context, prune repo.AuditPrune) (repo.AuditPruned, error) {
	prune, err := rules.NormalizePrune(prune)
	if err != nil {
		return repo.AuditPruned{}, err
	}
	return run(ctx, a.write, func(t *tables) (repo.AuditPruned, error) {
		result, doomed := t.prunable(prune)
		if prune.DryRun || len(doomed) == 0 {
			return result, nil
		}
		entry, err := rules.PruneEntry(prune, slices.Collect(maps.Values(t.log.holds)))
		if err != nil {
			return repo.AuditPruned{}, err
		}
		entry.OccurredAt = t.now()
		entry.RecordedAt = entry.OccurredAt
		t.record(entry)
		for _, id := range doomed {
			t.entries.remove(id)
			t.log.leaves[t.log.byEntry[id]].PrunedBy = entry.ID
		}
		return result, nil
	})
}

// prunable counts what a prune is for, and returns what of it may be removed.
func (t *tables) prunable(prune repo.AuditPrune) (result repo.AuditPruned, doomed []repo.ID) {
	bounds := repo.AuditPruneDetails{Before: prune.Before, Types: prune.Types}
	for id, e := range t.entries.all() {
		if !rules.Covers(bounds, e.OccurredAt, repo.AuditKept{Type: e.Type}) {
			continue
		}
		_, planHeld := t.log.holds[heldSubject{plan: e.PlanID}]
		_, sessionHeld := t.log.holds[heldSubject{session: e.SessionID}]
		_, sealed := t.log.byEntry[id]
		switch {
		case planHeld || sessionHeld:
			result.Held++
		case !sealed:
			result.Unsealed++
		default:
			result.Entries++
			doomed = append(doomed, id)
		}
	}
	return result, doomed
}

// heldSubject is what a hold names: a plan or a session, which may have the same id.
type heldSubject struct{ plan, session repo.ID }

func subject(hold repo.AuditHold) heldSubject { return heldSubject{hold.PlanID, hold.SessionID} }

func (a auditStore) Hold(ctx context.Context, hold repo.AuditHold) error {
	if err := rules.CheckHold(hold, false); err != nil {
		return err
	}
	return exec(ctx, a.write, func(t *tables) error {
		if _, held := t.log.holds[subject(hold)]; !held {
			hold.CreatedAt = t.now()
			t.log.holds[subject(hold)] = hold
		}
		return nil
	})
}

func (a auditStore) Release(ctx context.Context, hold repo.AuditHold) error {
	if err := rules.CheckHold(hold, true); err != nil {
		return err
	}
	return exec(ctx, a.write, func(t *tables) error {
		delete(t.log.holds, subject(hold))
		return nil
	})
}

func (a auditStore) Holds(ctx context.Context) ([]repo.AuditHold, error) {
	return run(ctx, a.read, func(t *tables) ([]repo.AuditHold, error) {
		holds := slices.AppendSeq([]repo.AuditHold{}, maps.Values(t.log.holds))
		// Those of plans first, each by id: the other id is zero.
		slices.SortFunc(holds, func(a, b repo.AuditHold) int {
			return cmp.Or(a.SessionID.Compare(b.SessionID), a.PlanID.Compare(b.PlanID))
		})
		return holds, nil
	})
}
