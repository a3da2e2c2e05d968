package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

// trail is repo.AuditStore: the sink, pruning and holds here, the log in the file
// beside.
type trail struct {
	at    *direct
	audit *audit
}

// sealedLog is the log, and what waits to be sealed. Store.mu guards it.
type sealedLog struct {
	identity repo.ID
	unsealed []entryKey
	leaves   []repo.AuditLeaf // without their entries
	byEntry  map[entryKey]int64
	// first has the leaf of the earliest entry with an id.
	first      map[repo.ID]int64
	hashes     [][32]byte
	checkpoint *repo.AuditCheckpoint
	holds      map[repo.ID]repo.AuditHold
	quarantine map[repo.ID]repo.AuditPoison
	// sealing: a sealer is at work.
	sealing bool
}

func newSealedLog() *sealedLog {
	return &sealedLog{
		identity: repo.NewID(), byEntry: map[entryKey]int64{}, first: map[repo.ID]int64{},
		holds: map[repo.ID]repo.AuditHold{}, quarantine: map[repo.ID]repo.AuditPoison{},
	}
}

type sink struct {
	trail  *trail
	closed bool
}

func (t *trail) Sink(ctx context.Context) (repo.AuditSink, error) {
	if _, err := t.at.read(ctx); err != nil {
		return nil, err
	}
	t.at.unlock()
	return &sink{trail: t}, nil
}

func (s *sink) Record(ctx context.Context, entries []repo.AuditEntry) (repo.AuditRecorded, error) {
	if s.closed {
		return repo.AuditRecorded{}, repo.ErrClosed
	}
	return s.trail.audit.record(ctx, entries)
}

func (s *sink) Quarantine(ctx context.Context, poison repo.AuditPoison) error {
	if s.closed {
		return repo.ErrClosed
	}
	if _, err := s.trail.at.write(ctx); err != nil {
		return err
	}
	defer s.trail.at.unlock()
	poison.Document = bytes.Clone(poison.Document)
	s.trail.at.tables.log.quarantine[poison.ID] = poison
	return nil
}

func (s *sink) Close() error {
	s.closed = true
	return nil
}

func (t *trail) Prune(ctx context.Context, prune repo.AuditPrune) (repo.AuditPruned, error) {
	prune, err := prune.Normalize()
	if err != nil {
		return repo.AuditPruned{}, err
	}
	v, err := t.at.write(ctx)
	if err != nil {
		return repo.AuditPruned{}, err
	}
	defer t.at.unlock()
	log := t.at.tables.log
	var result repo.AuditPruned
	var doomed []entryKey
	v.entries().each(func(id entryKey, e *repo.SealedEntry) {
		if !e.OccurredAt.Before(prune.Before) || len(prune.Types) > 0 && !slices.Contains(prune.Types, e.Type) ||
			e.Type == repo.EventAuditPruned || e.Type == repo.EventAuditGap {
			return
		}
		_, planHeld := log.holds[e.PlanID]
		_, sessionHeld := log.holds[e.SessionID]
		_, sealed := log.byEntry[id]
		switch {
		case planHeld || sessionHeld:
			result.Held++
		case !sealed:
			result.Unsealed++
		default:
			result.Entries++
			doomed = append(doomed, id)
		}
	})
	if prune.DryRun || len(doomed) == 0 {
		return result, nil
	}
	holds := make([]repo.AuditHold, 0, len(log.holds))
	for _, hold := range log.holds {
		holds = append(holds, hold)
	}
	entry, err := repo.PruneEntry(prune, holds)
	if err != nil {
		return repo.AuditPruned{}, err
	}
	entry.OccurredAt = v.now()
	entry.RecordedAt = entry.OccurredAt
	v.entries().put(keyOf(entry), &repo.SealedEntry{AuditEntry: entry, Nonce: repo.NewID()})
	v.queue(keyOf(entry))
	for _, id := range doomed {
		v.entries().remove(id)
		log.leaves[log.byEntry[id]].PrunedBy = entry.ID
	}
	return result, nil
}

func subject(hold repo.AuditHold) repo.ID {
	if hold.PlanID.IsZero() {
		return hold.SessionID
	}
	return hold.PlanID
}

func (t *trail) Hold(ctx context.Context, hold repo.AuditHold) error {
	if err := hold.Normalize(false); err != nil {
		return err
	}
	v, err := t.at.write(ctx)
	if err != nil {
		return err
	}
	defer t.at.unlock()
	if _, held := t.at.tables.log.holds[subject(hold)]; !held {
		hold.CreatedAt = v.now()
		t.at.tables.log.holds[subject(hold)] = hold
	}
	return nil
}

func (t *trail) Release(ctx context.Context, hold repo.AuditHold) error {
	if err := hold.Normalize(true); err != nil {
		return err
	}
	if _, err := t.at.write(ctx); err != nil {
		return err
	}
	defer t.at.unlock()
	delete(t.at.tables.log.holds, subject(hold))
	return nil
}

func (t *trail) Holds(ctx context.Context) ([]repo.AuditHold, error) {
	if _, err := t.at.read(ctx); err != nil {
		return nil, err
	}
	defer t.at.unlock()
	holds := make([]repo.AuditHold, 0, len(t.at.tables.log.holds))
	for _, hold := range t.at.tables.log.holds {
		holds = append(holds, hold)
	}
	// Those of plans first, each by id.
	slices.SortFunc(holds, func(a, b repo.AuditHold) int {
		if a.PlanID.IsZero() != b.PlanID.IsZero() {
			return strings.Compare(fmt.Sprint(a.PlanID.IsZero()), fmt.Sprint(b.PlanID.IsZero()))
		}
		return subject(a).Compare(subject(b))
	})
	return holds, nil
}
