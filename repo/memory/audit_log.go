package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// sealedLog is the log of the audit trail, with its holds and its quarantine.
type sealedLog struct {
	identity repo.ID
	leaves   []auditlog.Leaf // without their entries
	// byEntry has the place of each entry's leaf.
	byEntry    map[repo.ID]int64
	hashes     [][32]byte
	checkpoint auditlog.Checkpoint // the last one; its Size is 0 when there is none
	holds      map[heldSubject]auditlog.Hold
	quarantine map[poisonKey]auditlog.Poison
}

// poisonKey is an entry's id and document: several entries in quarantine may have one
// id.
type poisonKey struct {
	id       repo.ID
	document string
}

// Seal runs fn without the lock: it may read hashes. sealing keeps other
// calls from sealing meanwhile.
func (a auditStore) Seal(ctx context.Context, limit int, fn func(auditlog.Unsealed, auditlog.HashReader) (auditlog.Seal,
	error),
) (int, error) {
	unsealed, err := a.beginSeal(ctx, limit)
	if err != nil {
		return 0, err
	}
	defer a.endSeal()
	if len(unsealed.Entries) == 0 {
		return 0, nil
	}
	seal, err := fn(unsealed, func(indexes []int64) ([][32]byte, error) { return a.Hashes(ctx, indexes) })
	if err != nil {
		return 0, err
	}
	return run(ctx, unless(rules.CheckSeal(unsealed, seal), a.write), func(t *tables) (int, error) {
		log := t.log
		if seal.FirstHash != int64(len(log.hashes)) {
			return 0, &repo.InvalidError{Field: "seal.first_hash", Reason: "is not the next one"}
		}
		for i, entry := range unsealed.Entries {
			sequence := int64(len(log.leaves))
			leaf := auditlog.Leaf{
				Sequence: sequence, EntryID: entry.ID, OccurredAt: entry.OccurredAt, Hash: seal.Leaves[i],
				Kept: auditlog.Kept{
					RecordedAt: entry.RecordedAt, Type: entry.Type, Namespace: entry.Namespace,
					PlanID: entry.PlanID, SessionID: entry.SessionID, Hidden: seal.Hidden[i],
				},
			}
			log.byEntry[entry.ID] = sequence
			log.leaves = append(log.leaves, leaf)
		}
		log.hashes = append(log.hashes, seal.Hashes...)
		log.checkpoint = copyOf(&seal.Checkpoint)
		log.checkpoint.CreatedAt = t.now()
		t.unsealed = slices.Clone(t.unsealed[len(unsealed.Entries):])
		return len(unsealed.Entries), nil
	})
}

func (a auditStore) beginSeal(ctx context.Context, limit int) (auditlog.Unsealed, error) {
	return run(ctx, unless(rules.CheckSealLimit(limit), a.read), func(t *tables) (auditlog.Unsealed, error) {
		if t.sealing {
			return auditlog.Unsealed{}, fmt.Errorf("%w: another sealer is at work", repo.ErrContention)
		}
		t.sealing = true
		unsealed := auditlog.Unsealed{Size: int64(len(t.log.leaves)), Identity: t.log.identity}
		total := int64(0)
		for i, id := range t.unsealed {
			entry := t.entry(id)
			if total += int64(len(entry.Details)); i == limit || !rules.SealTakes(i+1, total) {
				unsealed.More = true
				break
			}
			unsealed.Entries = append(unsealed.Entries, *entry)
		}
		return unsealed, nil
	})
}

func (a auditStore) endSeal() {
	a.tables.mu.Lock()
	defer a.tables.mu.Unlock()
	a.tables.sealing = false
}

func (a auditStore) Identity(ctx context.Context) (repo.ID, error) {
	return run(ctx, a.read, func(t *tables) (repo.ID, error) { return t.log.identity, nil })
}

func (a auditStore) Hashes(ctx context.Context, indexes []int64) ([][32]byte, error) {
	return run(ctx, a.read, func(t *tables) ([][32]byte, error) {
		hashes := make([][32]byte, len(indexes))
		for i, index := range indexes {
			if index < 0 || index >= int64(len(t.log.hashes)) {
				return nil, &repo.NotFoundError{Kind: "audit hash"}
			}
			hashes[i] = t.log.hashes[index]
		}
		return hashes, nil
	})
}

// entry returns a copy of an entry, or nil.
func (t *tables) entry(id repo.ID) *auditlog.Entry {
	if entry := t.entries.get(id); entry != nil {
		return new(copyOf(entry))
	}
	return nil
}

// leaf returns the leaf at a place, with its entry.
func (t *tables) leaf(at int64) auditlog.Leaf {
	leaf := t.log.leaves[at]
	leaf.Entry = t.entry(leaf.EntryID)
	return leaf
}

func (a auditStore) Leaves(ctx context.Context, from int64, limit int) ([]auditlog.Leaf, error) {
	limit, err := rules.CheckPage("from", from, limit)
	return run(ctx, unless(err, a.read), func(t *tables) ([]auditlog.Leaf, error) {
		first := min(from, int64(len(t.log.leaves)))
		leaves := make([]auditlog.Leaf, min(int64(limit), int64(len(t.log.leaves))-first))
		for i := range leaves {
			leaves[i] = t.leaf(first + int64(i))
		}
		return leaves, nil
	})
}

func (a auditStore) Leaf(ctx context.Context, entryID repo.ID) (auditlog.Leaf, error) {
	return run(ctx, a.read, func(t *tables) (auditlog.Leaf, error) {
		at, found := t.log.byEntry[entryID]
		if !found {
			return auditlog.Leaf{}, &repo.NotFoundError{Kind: "audit leaf", ID: entryID}
		}
		return t.leaf(at), nil
	})
}

func (a auditStore) Checkpoint(ctx context.Context) (auditlog.Checkpoint, error) {
	return run(ctx, a.read, func(t *tables) (auditlog.Checkpoint, error) {
		if t.log.checkpoint.Size == 0 {
			return auditlog.Checkpoint{}, &repo.NotFoundError{Kind: "audit checkpoint"}
		}
		return copyOf(&t.log.checkpoint), nil
	})
}

// Strays and Lost find nothing: no way leads past this package.
func (a auditStore) Strays(ctx context.Context, limit int) ([]repo.ID, error) {
	if _, err := rules.CheckLimit(limit); err != nil {
		return nil, err
	}
	return nil, a.usable(ctx)
}

// Lost is as Strays.
func (a auditStore) Lost(ctx context.Context, limit int) ([]repo.ID, error) {
	return a.Strays(ctx, limit)
}

func (a auditStore) Waiting(ctx context.Context, limit int) (auditlog.Waiting, error) {
	limit, err := rules.CheckCount(limit)
	return run(ctx, unless(err, a.read), func(t *tables) (waiting auditlog.Waiting, err error) {
		if len(t.unsealed) > 0 {
			waiting.Entries = int64(min(len(t.unsealed), limit))
			waiting.Oldest = t.entries.get(t.unsealed[0]).RecordedAt
			waiting.Age = t.now().Sub(waiting.Oldest)
		}
		return waiting, nil
	})
}
