package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// maxSeal bounds the entries of one seal: fn holds them in memory.
const maxSeal = 10_000

func (t *trail) Seal(ctx context.Context, limit int, fn func(repo.AuditUnsealed, repo.HashReader) (repo.AuditSeal, error)) (int, error) {
	if limit < 1 || limit > maxSeal {
		return 0, &repo.InvalidError{Field: "limit", Reason: "is not between 1 and 10,000"}
	}
	sealed, alone := 0, true
	err := t.exec.atomically(ctx, func(q db.DBTX) (err error) {
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
		if len(seal.Leaves) != len(rows) || len(seal.Hidden) != 0 && len(seal.Hidden) != len(rows) || seal.Checkpoint.Size != size+int64(len(rows)) {
			return &answer{&repo.InvalidError{Field: "seal", Reason: "does not have a leaf for each entry and a checkpoint of them all"}}
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

// nextToSeal returns the positions of up to limit entries that have no more than
// repo.MaxSealBytes of details together, but one at least; and whether there may be
// more.
func nextToSeal(ctx context.Context, q db.DBTX, limit int) (positions []int64, more bool, err error) {
	sizes, err := queries.AuditUnsealedSizes(ctx, q, int32(limit))
	if err != nil {
		return nil, false, err
	}
	total := int64(0)
	for _, row := range sizes {
		if total += row.Bytes; total > repo.MaxSealBytes && len(positions) > 0 {
			return positions, true, nil
		}
		positions = append(positions, row.Position)
	}
	return positions, len(sizes) == limit, nil
}

// keep adds what leaves of version 2 keep of their entries. Without hidden they are
// of version 1.
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

func (t *trail) Identity(ctx context.Context) (repo.ID, error) {
	var id pgtype.UUID
	err := t.exec.read(ctx, func(q db.DBTX) (err error) {
		id, err = queries.AuditIdentity(ctx, q)
		return err
	})
	if isNoRows(err) { // somebody took it away
		return repo.ID{}, &repo.NotFoundError{Kind: "audit identity"}
	}
	return id.Bytes, err
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

func (t *trail) Hashes(ctx context.Context, indexes []int64) (hashes [][32]byte, err error) {
	err = t.exec.read(ctx, func(q db.DBTX) (err error) {
		hashes, err = readHashes(ctx, q, indexes)
		return err
	})
	return hashes, err
}

func (t *trail) Leaves(ctx context.Context, from int64, limit int) ([]repo.AuditLeaf, error) {
	if err := repo.CheckSequence("from", from); err != nil {
		return nil, err
	}
	limit, err := repo.CheckLimit(limit)
	if err != nil {
		return nil, err
	}
	var rows []db.AuditLeavesRow
	err = t.exec.read(ctx, func(q db.DBTX) (err error) {
		rows, err = queries.AuditLeaves(ctx, q, from, int32(limit))
		return err
	})
	if err != nil {
		return nil, err
	}
	leaves := make([]repo.AuditLeaf, len(rows))
	for i, row := range rows {
		leaves[i] = leafOf(row)
	}
	return leaves, nil
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

func (t *trail) Leaf(ctx context.Context, entryID repo.ID) (repo.AuditLeaf, error) {
	return t.leafAt(ctx, entryID, queries.AuditLeafOf)
}

func (t *trail) FirstLeaf(ctx context.Context, entryID repo.ID) (repo.AuditLeaf, error) {
	return t.leafAt(ctx, entryID, queries.AuditFirstLeafOf)
}

// leafAt reads the leaf in the place that sequenceOf finds for an entry.
func (t *trail) leafAt(ctx context.Context, entryID repo.ID, sequenceOf func(context.Context, db.DBTX, pgtype.UUID) (int64, error)) (repo.AuditLeaf, error) {
	var rows []db.AuditLeavesRow
	err := t.exec.read(ctx, func(q db.DBTX) error {
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

func (t *trail) Checkpoint(ctx context.Context) (repo.AuditCheckpoint, error) {
	var row db.AuditCheckpoint
	err := t.exec.read(ctx, func(q db.DBTX) (err error) {
		row, err = queries.AuditCheckpointGet(ctx, q)
		return err
	})
	if isNoRows(err) {
		return repo.AuditCheckpoint{}, &repo.NotFoundError{Kind: "audit checkpoint"}
	}
	if err != nil {
		return repo.AuditCheckpoint{}, err
	}
	return checkpointOf(row), nil
}

func checkpointOf(row db.AuditCheckpoint) repo.AuditCheckpoint {
	checkpoint := repo.AuditCheckpoint{Size: row.Size, Note: row.Note, CreatedAt: row.CreatedAt.UTC()}
	copy(checkpoint.Root[:], row.Root)
	return checkpoint
}

func (t *trail) Strays(ctx context.Context, limit int) ([]repo.AuditEntry, error) {
	limit, err := repo.CheckLimit(limit)
	if err != nil {
		return nil, err
	}
	var strays []repo.AuditEntry
	place := db.AuditStraysParams{AfterID: toUUID(repo.ID{}), MaxRows: repo.MaxPageSize, AfterOccurredAt: time.Time{}}
	for {
		var rows []db.AuditStraysRow
		err := t.exec.read(ctx, func(q db.DBTX) (err error) {
			rows, err = queries.AuditStrays(ctx, q, place)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			place.AfterOccurredAt, place.AfterID = row.OccurredAt, row.ID
			if row.Known {
				continue
			}
			strays = append(strays, auditEntryOf(db.AuditEntry{
				OccurredAt: row.OccurredAt, ID: row.ID, RecordedAt: row.RecordedAt, Type: row.Type, Actor: row.Actor,
				UserName: row.UserName, PlanID: row.PlanID, SessionID: row.SessionID, Project: row.Project, Details: row.Details,
			}))
			if len(strays) == limit {
				return strays, nil
			}
		}
		if len(rows) < repo.MaxPageSize {
			return strays, nil
		}
	}
}

func (t *trail) Lost(ctx context.Context, limit int) ([]repo.AuditEntry, error) {
	limit, err := repo.CheckLimit(limit)
	if err != nil {
		return nil, err
	}
	var rows []db.AuditLostRow
	err = t.exec.read(ctx, func(q db.DBTX) (err error) {
		rows, err = queries.AuditLost(ctx, q, 0, int32(limit))
		return err
	})
	lost := make([]repo.AuditEntry, len(rows))
	for i, row := range rows {
		lost[i] = repo.AuditEntry{ID: row.EntryID.Bytes, OccurredAt: row.OccurredAt.UTC()}
	}
	return lost, err
}

func (t *trail) Waiting(ctx context.Context, limit int) (repo.AuditWaiting, error) {
	limit, err := repo.CheckCount(limit)
	if err != nil {
		return repo.AuditWaiting{}, err
	}
	var row db.AuditWaitingRow
	err = t.exec.read(ctx, func(q db.DBTX) (err error) {
		row, err = queries.AuditWaiting(ctx, q, int32(limit))
		return err
	})
	if err != nil || row.Entries == 0 {
		return repo.AuditWaiting{}, err
	}
	return repo.AuditWaiting{Entries: row.Entries, Oldest: row.Oldest.UTC()}, nil
}
