package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// auditStore is auditlog.Store: the sink, pruning and holds here, the log in the
// file beside. It is not for transactions: its tables are the committed ones.
type auditStore struct{ *handle }

type sink struct {
	*handle
	closed error
}

func (a auditStore) Sink(ctx context.Context) (auditlog.Sink, error) {
	if err := a.usable(ctx); err != nil {
		return nil, err
	}
	return &sink{handle: a.handle}, nil
}

func (s *sink) Record(ctx context.Context, entries []repo.AuditEntry) (auditlog.Recorded, error) {
	if s.closed != nil {
		return auditlog.Recorded{}, s.closed
	}
	return audit{s.handle}.record(ctx, entries)
}

func (s *sink) Quarantine(ctx context.Context, poison auditlog.Poison) error {
	return exec(ctx, unless(s.closed, s.write), func(t *tables) error {
		poison.Document = bytes.Clone(poison.Document)
		t.log.quarantine[poisonKey{poison.ID, string(poison.Document)}] = poison
		return nil
	})
}

func (s *sink) Close() error {
	s.closed = repo.ErrClosed
	return nil
}

func (a auditStore) Prune(ctx context.Context, prune auditlog.Prune) (auditlog.Pruned, error) {
	prune, err := rules.NormalizePrune(prune)
	return run(ctx, unless(err, a.write), func(t *tables) (auditlog.Pruned, error) {
		result, doomed := t.prunable(prune)
		if prune.DryRun || len(doomed) == 0 {
			return result, nil
		}
		entry, err := rules.PruneEntry(prune, slices.Collect(maps.Values(t.log.holds)))
		if err != nil {
			return auditlog.Pruned{}, err
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
func (t *tables) prunable(prune auditlog.Prune) (result auditlog.Pruned, doomed []repo.ID) {
	bounds := auditlog.PruneDetails{Before: prune.Before, Types: prune.Types}
	for id, e := range t.entries.all() {
		if !rules.Covers(bounds, e.OccurredAt, auditlog.Kept{Type: e.Type}) {
			continue
		}
		_, sealed := t.log.byEntry[id]
		switch {
		case t.log.held(e):
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

// held reports whether a hold keeps an entry.
func (l *sealedLog) held(e *auditlog.Entry) bool {
	_, plan := l.holds[heldSubject{plan: e.PlanID}]
	_, session := l.holds[heldSubject{session: e.SessionID}]
	return plan || session
}

func subject(hold auditlog.Hold) heldSubject { return heldSubject{hold.PlanID, hold.SessionID} }

func (a auditStore) Hold(ctx context.Context, hold auditlog.Hold) error {
	return exec(ctx, unless(rules.CheckHold(hold, false), a.write), func(t *tables) error {
		if _, held := t.log.holds[subject(hold)]; !held {
			hold.CreatedAt = t.now()
			t.log.holds[subject(hold)] = hold
		}
		return nil
	})
}

func (a auditStore) Release(ctx context.Context, hold auditlog.Hold) error {
	return exec(ctx, unless(rules.CheckHold(hold, true), a.write), func(t *tables) error {
		delete(t.log.holds, subject(hold))
		return nil
	})
}

func (a auditStore) Holds(ctx context.Context) ([]auditlog.Hold, error) {
	return run(ctx, a.read, func(t *tables) ([]auditlog.Hold, error) {
		holds := slices.AppendSeq([]auditlog.Hold{}, maps.Values(t.log.holds))
		// Holds of plans first, each by id: the other id is zero.
		slices.SortFunc(holds, func(a, b auditlog.Hold) int {
			return cmp.Or(a.SessionID.Compare(b.SessionID), a.PlanID.Compare(b.PlanID))
		})
		return holds, nil
	})
}

// Doctor implements auditlog.Store.
func (a auditStore) Doctor(ctx context.Context) ([]auditlog.Finding, error) {
	return nil, a.usable(ctx)
}
