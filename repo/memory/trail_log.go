package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-df90f812/agentstore/repo"
)

// maxSeal bounds the entries of one seal, as PostgreSQL's store does.
const maxSeal = 10_000

// Seal runs fn without the lock: it may read hashes. That nobody else seals
// meanwhile is what sealing is for.
func (t *trail) Seal(ctx context.Context, limit int, fn func(repo.AuditUnsealed, repo.HashReader) (repo.AuditSeal, error)) (int, error) {
	if limit < 1 || limit > maxSeal {
		return 0, &repo.InvalidError{Field: "limit", Reason: "is not between 1 and 10,000"}
	}
	unsealed, err := t.beginSeal(ctx, limit)
	if err != nil {
		return 0, err
	}
	defer func() {
		t.at.mu.Lock()
		defer t.at.mu.Unlock()
		if log := t.at.tables.log; log != nil { // the store may have been closed
			log.sealing = false
		}
	}()
	if len(unsealed.Entries) == 0 {
		return 0, nil
	}
	seal, err := fn(unsealed, func(indexes []int64) ([][32]byte, error) { return t.Hashes(ctx, indexes) })
	if err != nil {
		return 0, err
	}
	if len(seal.Leaves) != len(unsealed.Entries) || len(seal.Hidden) != 0 && len(seal.Hidden) != len(seal.Leaves) || seal.Checkpoint.Size != unsealed.Size+int64(len(unsealed.Entries)) {
		return 0, &repo.InvalidError{Field: "seal", Reason: "does not have a leaf for each entry and a checkpoint of them all"}
	}
	v, err := t.at.write(ctx)
	if err != nil {
		return 0, err
	}
	defer t.at.unlock()
	log := t.at.tables.log
	if seal.FirstHash != int64(len(log.hashes)) {
		return 0, &repo.InvalidError{Field: "seal.first_hash", Reason: "is not the next one"}
	}
	for i, entry := range unsealed.Entries {
		sequence := int64(len(log.leaves))
		leaf := repo.AuditLeaf{Sequence: sequence, EntryID: entry.ID, OccurredAt: entry.OccurredAt, Hash: seal.Leaves[i], Version: 1}
		if len(seal.Hidden) > 0 {
			leaf.Version = 2
			leaf.Kept = repo.AuditKept{Type: entry.Type, PlanID: entry.PlanID, SessionID: entry.SessionID, Hidden: seal.Hidden[i]}
		}
		log.byEntry[keyOf(entry.AuditEntry)] = sequence
		if first, there := log.first[entry.ID]; !there || entry.OccurredAt.Before(log.leaves[first].OccurredAt) {
			log.first[entry.ID] = sequence
		}
		log.leaves = append(log.leaves, leaf)
	}
	log.hashes = append(log.hashes, seal.Hashes...)
	checkpoint := seal.Checkpoint
	checkpoint.Note = slices.Clone(checkpoint.Note)
	checkpoint.CreatedAt = v.now()
	log.checkpoint = &checkpoint
	log.unsealed = slices.Clone(log.unsealed[len(unsealed.Entries):])
	return len(unsealed.Entries), nil
}

func (t *trail) beginSeal(ctx context.Context, limit int) (repo.AuditUnsealed, error) {
	v, err := t.at.read(ctx)
	if err != nil {
		return repo.AuditUnsealed{}, err
	}
	defer t.at.unlock()
	log := t.at.tables.log
	if log.sealing {
		return repo.AuditUnsealed{}, fmt.Errorf("%w: another sealer is at work", repo.ErrContention)
	}
	log.sealing = true
	unsealed := repo.AuditUnsealed{Size: int64(len(log.leaves)), Identity: log.identity, VersionOne: t.versionOne(ctx)}
	if log.checkpoint != nil {
		unsealed.Latest = *log.checkpoint
	}
	total := 0
	for i, key := range log.unsealed {
		entry := *v.entries().get(key)
		if total += len(entry.Details); i == limit || i > 0 && total > repo.MaxSealBytes {
			unsealed.More = true
			break
		}
		entry.AuditEntry = copyEntry(entry.AuditEntry)
		unsealed.Entries = append(unsealed.Entries, entry)
	}
	return unsealed, nil
}

func (t *trail) versionOne(ctx context.Context) func() (int64, error) {
	return func() (count int64, err error) {
		if _, err := t.at.read(ctx); err != nil {
			return 0, err
		}
		defer t.at.unlock()
		for _, leaf := range t.at.tables.log.leaves {
			if leaf.Version == 1 {
				count++
			}
		}
		return count, nil
	}
}

func (t *trail) Identity(ctx context.Context) (repo.ID, error) {
	if _, err := t.at.read(ctx); err != nil {
		return repo.ID{}, err
	}
	defer t.at.unlock()
	return t.at.tables.log.identity, nil
}

func (t *trail) Hashes(ctx context.Context, indexes []int64) ([][32]byte, error) {
	if _, err := t.at.read(ctx); err != nil {
		return nil, err
	}
	defer t.at.unlock()
	hashes := make([][32]byte, len(indexes))
	for i, index := range indexes {
		if index < 0 || index >= int64(len(t.at.tables.log.hashes)) {
			return nil, &repo.NotFoundError{Kind: "audit hash"}
		}
		hashes[i] = t.at.tables.log.hashes[index]
	}
	return hashes, nil
}

func (t *trail) Leaves(ctx context.Context, from int64, limit int) ([]repo.AuditLeaf, error) {
	if err := repo.CheckSequence("from", from); err != nil {
		return nil, err
	}
	limit, err := repo.CheckLimit(limit)
	if err != nil {
		return nil, err
	}
	v, err := t.at.read(ctx)
	if err != nil {
		return nil, err
	}
	defer t.at.unlock()
	count := int64(len(t.at.tables.log.leaves))
	from = min(from, count)
	leaves := slices.Clone(t.at.tables.log.leaves[from:min(from+int64(limit), count)])
	for i := range leaves {
		leaves[i].Entry = entryOf(v, leaves[i])
	}
	return leaves, nil
}

func entryOf(v view, leaf repo.AuditLeaf) *repo.SealedEntry {
	stored := v.entries().get(entryKey{leaf.OccurredAt.UnixMicro(), leaf.EntryID})
	if stored == nil {
		return nil
	}
	entry := *stored
	entry.AuditEntry = copyEntry(entry.AuditEntry)
	return &entry
}

func (t *trail) Leaf(ctx context.Context, entryID repo.ID) (repo.AuditLeaf, error) {
	v, err := t.at.read(ctx)
	if err != nil {
		return repo.AuditLeaf{}, err
	}
	defer t.at.unlock()
	sequence, sealed := t.at.tables.log.first[entryID]
	if !sealed {
		return repo.AuditLeaf{}, &repo.NotFoundError{Kind: "audit leaf", ID: entryID}
	}
	leaf := t.at.tables.log.leaves[sequence]
	leaf.Entry = entryOf(v, leaf)
	return leaf, nil
}

func (t *trail) FirstLeaf(ctx context.Context, entryID repo.ID) (repo.AuditLeaf, error) {
	v, err := t.at.read(ctx)
	if err != nil {
		return repo.AuditLeaf{}, err
	}
	defer t.at.unlock()
	at := slices.IndexFunc(t.at.tables.log.leaves, func(leaf repo.AuditLeaf) bool { return leaf.EntryID == entryID })
	if at < 0 {
		return repo.AuditLeaf{}, &repo.NotFoundError{Kind: "audit leaf", ID: entryID}
	}
	leaf := t.at.tables.log.leaves[at]
	leaf.Entry = entryOf(v, leaf)
	return leaf, nil
}

func (t *trail) Checkpoint(ctx context.Context) (repo.AuditCheckpoint, error) {
	if _, err := t.at.read(ctx); err != nil {
		return repo.AuditCheckpoint{}, err
	}
	defer t.at.unlock()
	if t.at.tables.log.checkpoint == nil {
		return repo.AuditCheckpoint{}, &repo.NotFoundError{Kind: "audit checkpoint"}
	}
	checkpoint := *t.at.tables.log.checkpoint
	checkpoint.Note = slices.Clone(checkpoint.Note)
	return checkpoint, nil
}

// Strays and Lost find nothing: no way leads past this package.
func (t *trail) Strays(ctx context.Context, limit int) ([]repo.AuditEntry, error) {
	return t.none(ctx, limit)
}

// Lost is Strays' comment.
func (t *trail) Lost(ctx context.Context, limit int) ([]repo.AuditEntry, error) {
	return t.none(ctx, limit)
}

func (t *trail) none(ctx context.Context, limit int) ([]repo.AuditEntry, error) {
	if _, err := repo.CheckLimit(limit); err != nil {
		return nil, err
	}
	if _, err := t.at.read(ctx); err != nil {
		return nil, err
	}
	t.at.unlock()
	return nil, nil
}

func (t *trail) Waiting(ctx context.Context, limit int) (repo.AuditWaiting, error) {
	limit, err := repo.CheckCount(limit)
	if err != nil {
		return repo.AuditWaiting{}, err
	}
	v, err := t.at.read(ctx)
	if err != nil {
		return repo.AuditWaiting{}, err
	}
	defer t.at.unlock()
	unsealed := t.at.tables.log.unsealed
	if len(unsealed) == 0 {
		return repo.AuditWaiting{}, nil
	}
	waiting := repo.AuditWaiting{
		Entries: int64(min(len(unsealed), limit)),
		Oldest:  v.entries().get(unsealed[0]).RecordedAt,
	}
	return waiting, nil
}
