package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/rules"
)

func (a *auditStore) Seal(ctx context.Context, limit int, fn func(repo.AuditUnsealed, repo.HashReader) (repo.AuditSeal, error)) (int, error) {
	if err := rules.CheckSealLimit(limit); err != nil {
		return 0, err
	}
	sealed, alone := 0, true
	err := a.exec.atomically(ctx, func(q db.DBTX) (err error) {
		sealed = 0
		if alone, err = queries.AuditSealLock(ctx, q); err != nil || !alone {
			return err
		}
		positions, more, err := nextToSeal(ctx, q, limit)
		if err != nil || len(positions) == 0 {
			return err
		}
		rows, err := queries.AuditUnsealed(ctx, q, positions)
		if err != nil || len(rows) == 0 {
			return err
		}
		size, err := queries.AuditLogSize(ctx, q)
		if err != nil {
			return err
		}
		unsealed := repo.AuditUnsealed{
			Size: size, Entries: make([]repo.SealedEntry, len(rows)), More: more,
			VersionOne: func() (int64, error) {
				count, err := queries.AuditVersionOne(ctx, q)
				return count, translate(ctx, err, reading)
			},
		}
		identity, err := queries.AuditIdentity(ctx, q)
		if err != nil {
			return err
		}
		unsealed.Identity = identity.Bytes
		latest, err := queries.AuditCheckpointGet(ctx, q)
		if err != nil && !isNoRows(err) {
			return err
		}
		unsealed.Latest = checkpointOf(latest)
		leaves := db.AuditAddLeavesParams{FirstSequence: size}
		positions = positions[:len(rows)]
		for i, row := range rows {
			positions[i] = row.Position
			leaves.OccurredAts = append(leaves.OccurredAts, row.OccurredAt)
			leaves.EntryIds = append(leaves.EntryIds, row.ID)
			unsealed.Entries[i] = repo.SealedEntry{
				AuditEntry: auditEntryOf(db.AuditEntry{
					OccurredAt: row.OccurredAt, ID: row.ID, RecordedAt: row.RecordedAt, Type: row.Type, Actor: row.Actor,
					UserName: row.UserName, PlanID: row.PlanID, SessionID: row.SessionID, Project: row.Project, Details: row.Details,
				}),
				Nonce: row.Nonce.Bytes,
			}
		}
		seal, err := fn(unsealed, func(indexes []int64) ([][32]byte, error) {
			hashes, err := readHashes(ctx, q, indexes)
			return hashes, meaning(ctx, err, reading)
		})
		if err != nil {
			return &answer{err}
		}
		if err := rules.CheckSeal(unsealed, seal); err != nil {
			return &answer{err}
		}
		leaves.Hashes = toBytes(seal.Leaves)
		keep(&leaves, unsealed.Entries, seal.Hidden)
		if err := queries.AuditAddLeaves(ctx, q, leaves); err != nil {
			return err
		}
		if err := queries.AuditAddHashes(ctx, q, seal.FirstHash, toBytes(seal.Hashes)); err != nil {
			return err
		}
		if err := queries.AuditAddCheckpoint(ctx, q, db.AuditAddCheckpointParams{
			Size: seal.Checkpoint.Size, Root: seal.Checkpoint.Root[:], Note: seal.Checkpoint.Note,
		}); err != nil {
			return err
		}
		sealed = len(rows)
		return queries.AuditSealed(ctx, q, positions)
	})
	switch {
	case err != nil:
		return 0, err
	case !alone:
		return 0, &storeError{repo.ErrContention, errors.New("another sealer is at work")}
	}
	return sealed, nil
}

// nextToSeal returns the positions of up to limit entries, and whether there may be
// more. Together their details have at most repo.MaxSealBytes, but it returns at
// least one.
func nextToSeal(ctx context.Context, q db.DBTX, limit int) (positions []int64, more bool, err error) {
	sizes, err := queries.AuditUnsealedSizes(ctx, q, int32(limit))
	if err != nil {
		return nil, false, err
	}
	total := int64(0)
	for _, row := range sizes {
		if total += row.Bytes; !rules.SealTakes(len(positions)+1, total) {
			return positions, true, nil
		}
		positions = append(positions, row.Position)
	}
	return positions, len(sizes) == limit, nil
}

// keep sets what leaves of version 2 keep of their entries. If hidden is empty, the
// leaves are of version 1.
func keep(leaves *db.AuditAddLeavesParams, entries []repo.SealedEntry, hidden [][32]byte) {
	n := len(entries)
	leaves.Types, leaves.Hidden = make([]string, n), make([][]byte, n)
	leaves.PlanIds, leaves.SessionIds = make([]pgtype.UUID, n), make([]pgtype.UUID, n)
	for i := range entries {
		leaves.PlanIds[i], leaves.SessionIds[i] = toUUID(repo.ID{}), toUUID(repo.ID{})
		leaves.Hidden[i] = []byte{}
		if len(hidden) > 0 {
			leaves.Types[i], leaves.Hidden[i] = string(entries[i].Type), hidden[i][:]
			leaves.PlanIds[i], leaves.SessionIds[i] = toUUID(entries[i].PlanID), toUUID(entries[i].SessionID)
		}
	}
}

func (a *auditStore) Identity(ctx context.Context) (repo.ID, error) {
	id, err := ask(ctx, a.exec.read, func(q db.DBTX) (pgtype.UUID, error) { return queries.AuditIdentity(ctx, q) })
	return id.Bytes, orMissing(err, &repo.NotFoundError{Kind: "audit identity"}) // somebody deleted it
}

func toBytes(hashes [][32]byte) [][]byte {
	raw := make([][]byte, len(hashes))
	for i := range hashes {
		raw[i] = hashes[i][:]
	}
	return raw
}

func readHashes(ctx context.Context, q db.DBTX, indexes []int64) ([][32]byte, error) {
	rows, err := queries.AuditHashes(ctx, q, indexes)
	if err != nil {
		return nil, err
	}
	if len(rows) != len(indexes) {
		return nil, &answer{&repo.NotFoundError{Kind: "audit hash"}}
	}
	hashes := make([][32]byte, len(rows))
	for i, row := range rows {
		if copy(hashes[i][:], row) != len(hashes[i]) {
			return nil, &answer{&repo.NotFoundError{Kind: "audit hash"}}
		}
	}
	return hashes, nil
}

func (a *auditStore) Hashes(ctx context.Context, indexes []int64) ([][32]byte, error) {
	return run(ctx, a.exec.read, readHashes, indexes)
}

func (a *auditStore) Leaves(ctx context.Context, from int64, limit int) ([]repo.AuditLeaf, error) {
	limit, err := rules.CheckPage("from", from, limit)
	if err != nil {
		return nil, err
	}
	rows, err := run2(ctx, a.exec.read, queries.AuditLeaves, from, int32(limit))
	if err != nil {
		return nil, err
	}
	return each(rows, leafOf), nil
}

func leafOf(row db.AuditLeavesRow) repo.AuditLeaf {
	leaf := repo.AuditLeaf{
		Sequence: row.Sequence, EntryID: row.EntryID.Bytes, OccurredAt: row.OccurredAt.UTC(), PrunedBy: fromOptionalUUID(row.PrunedBy),
		Version: int(row.Version),
		Kept: repo.AuditKept{
			Type: repo.EventType(fromNullable(row.LeafType)), PlanID: fromOptionalUUID(row.LeafPlanID), SessionID: fromOptionalUUID(row.LeafSessionID),
		},
	}
	copy(leaf.Kept.Hidden[:], row.Hidden)
	copy(leaf.Hash[:], row.Hash)
	if row.ID.Valid {
		leaf.Entry = &repo.SealedEntry{
			AuditEntry: auditEntryOf(db.AuditEntry{
				OccurredAt: row.OccurredAt, ID: row.ID, RecordedAt: *row.RecordedAt, Type: *row.Type, Actor: row.Actor,
				UserName: row.UserName, PlanID: row.PlanID, SessionID: row.SessionID, Project: row.Project, Details: row.Details,
			}),
			Nonce: row.Nonce.Bytes,
		}
	}
	return leaf
}

func (a *auditStore) Leaf(ctx context.Context, entryID repo.ID) (repo.AuditLeaf, error) {
	return a.leafAt(ctx, entryID, queries.AuditLeafOf)
}

func (a *auditStore) FirstLeaf(ctx context.Context, entryID repo.ID) (repo.AuditLeaf, error) {
	return a.leafAt(ctx, entryID, queries.AuditFirstLeafOf)
}

// leafAt reads the leaf at the sequence that sequenceOf finds for an entry.
func (a *auditStore) leafAt(ctx context.Context, entryID repo.ID, sequenceOf func(context.Context, db.DBTX, pgtype.UUID) (int64, error)) (repo.AuditLeaf, error) {
	var rows []db.AuditLeavesRow
	err := a.exec.read(ctx, func(q db.DBTX) error {
		sequence, err := sequenceOf(ctx, q, toUUID(entryID))
		if err != nil || sequence < 0 {
			return err
		}
		rows, err = queries.AuditLeaves(ctx, q, sequence, 1)
		return err
	})
	if isNoRows(err) || err == nil && len(rows) == 0 {
		return repo.AuditLeaf{}, &repo.NotFoundError{Kind: "audit leaf", ID: entryID}
	}
	if err != nil {
		return repo.AuditLeaf{}, err
	}
	return leafOf(rows[0]), nil
}

func (a *auditStore) Checkpoint(ctx context.Context) (repo.AuditCheckpoint, error) {
	row, err := ask(ctx, a.exec.read, func(q db.DBTX) (db.AuditCheckpoint, error) { return queries.AuditCheckpointGet(ctx, q) })
	if err != nil {
		return repo.AuditCheckpoint{}, orMissing(err, &repo.NotFoundError{Kind: "audit checkpoint"})
	}
	return checkpointOf(row), nil
}

func checkpointOf(row db.AuditCheckpoint) repo.AuditCheckpoint {
	checkpoint := repo.AuditCheckpoint{Size: row.Size, Note: row.Note, CreatedAt: row.CreatedAt.UTC()}
	copy(checkpoint.Root[:], row.Root)
	return checkpoint
}

func (a *auditStore) Strays(ctx context.Context, limit int) ([]repo.AuditEntry, error) {
	limit, err := rules.CheckLimit(limit)
	if err != nil {
		return nil, err
	}
	var strays []repo.AuditEntry
	place := db.AuditStraysParams{AfterID: toUUID(repo.ID{}), MaxRows: repo.MaxPageSize, AfterOccurredAt: time.Time{}}
	for {
		rows, err := run(ctx, a.exec.read, queries.AuditStrays, place)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			place.AfterOccurredAt, place.AfterID = row.AuditEntry.OccurredAt, row.AuditEntry.ID
			if row.Known {
				continue
			}
			strays = append(strays, auditEntryOf(row.AuditEntry))
			if len(strays) == limit {
				return strays, nil
			}
		}
		if len(rows) < repo.MaxPageSize {
			return strays, nil
		}
	}
}

func (a *auditStore) Lost(ctx context.Context, limit int) ([]repo.AuditEntry, error) {
	limit, err := rules.CheckLimit(limit)
	if err != nil {
		return nil, err
	}
	rows, err := run2(ctx, a.exec.read, queries.AuditLost, 0, int32(limit))
	return each(rows, func(row db.AuditLostRow) repo.AuditEntry {
		return repo.AuditEntry{ID: row.EntryID.Bytes, OccurredAt: row.OccurredAt.UTC()}
	}), err
}

func (a *auditStore) Waiting(ctx context.Context, limit int) (repo.AuditWaiting, error) {
	limit, err := rules.CheckCount(limit)
	if err != nil {
		return repo.AuditWaiting{}, err
	}
	row, err := run(ctx, a.exec.read, queries.AuditWaiting, int32(limit))
	if err != nil || row.Entries == 0 {
		return repo.AuditWaiting{}, err
	}
	return repo.AuditWaiting{Entries: row.Entries, Oldest: row.Oldest.UTC(), Age: ageOf(row)}, nil
}

func ageOf(row db.AuditWaitingRow) time.Duration {
	return time.Duration(row.AgeSeconds * float64(time.Second))
}
