package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/audit/auditlog"
	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

func (a *auditStore) Seal(ctx context.Context, limit int, fn func(auditlog.Unsealed,
	auditlog.HashReader) (auditlog.Seal, error),
) (int, error) {
	if err := rules.CheckSealLimit(limit); err != nil {
		return 0, err
	}
	sealed, alone := 0, true
	err := a.exec.atomically(ctx, func(q db.DBTX) (err error) {
		sealed = 0
		if alone, err = queries.AuditSealLock(ctx, q); err != nil || !alone {
			return err
		}
		next, more, err := nextToSeal(ctx, q, limit)
		if err != nil || len(next.Ids) == 0 {
			return err
		}
		rows, err := queries.AuditUnsealed(ctx, q, next.Ids)
		if err != nil || len(rows) != len(next.Ids) { // entries are being deleted
			return err
		}
		size, err := queries.AuditLogSize(ctx, q)
		if err != nil {
			return err
		}
		identity, err := readIdentity(ctx, q)
		if err != nil {
			return err
		}
		unsealed := auditlog.Unsealed{Size: size, Entries: convert.Each(rows, sealedEntryOf), More: more, Identity: identity}
		seal, err := fn(unsealed, func(indexes []int64) ([][32]byte, error) {
			hashes, err := readHashes(ctx, q, indexes)
			return hashes, conn.Meaning(ctx, err, conn.Reading)
		})
		if err != nil {
			return &conn.Answer{Err: err}
		}
		if err := rules.CheckSeal(unsealed, seal); err != nil {
			return &conn.Answer{Err: err}
		}
		if err := addSeal(ctx, q, size, next.Ids, seal); err != nil {
			return err
		}
		sealed = len(rows)
		return queries.AuditSealed(ctx, q, db.AuditSealedParams{RecordedAts: next.RecordedAts, Ids: next.Ids})
	})
	switch {
	case err != nil:
		return 0, err
	case !alone:
		return 0, &conn.Error{Sentinel: repo.ErrContention, Cause: errors.New("another sealer is at work")}
	}
	return sealed, nil
}

// addSeal adds the leaves of entries to a log of a size, its hashes, and its checkpoint.
func addSeal(ctx context.Context, q db.DBTX, size int64, ids []pgtype.UUID, seal auditlog.Seal) error {
	added, err := queries.AuditAddLeaves(ctx, q, db.AuditAddLeavesParams{
		FirstSequence: size, Ids: ids, Hidden: toBytes(seal.Hidden), Hashes: toBytes(seal.Leaves),
	})
	if err == nil && added != int64(len(ids)) {
		err = &conn.Answer{Err: &conn.Error{
			Sentinel: repo.ErrContention,
			Cause:    errors.New("entries were deleted while they were sealed"),
		}}
	}
	if err == nil {
		err = queries.AuditAddHashes(ctx, q, db.AuditAddHashesParams{
			FirstIndex: seal.FirstHash,
			Hashes:     toBytes(seal.Hashes),
		})
	}
	if err != nil {
		return err
	}
	return queries.AuditAddCheckpoint(ctx, q, db.AuditAddCheckpointParams{
		Size: seal.Checkpoint.Size, Root: seal.Checkpoint.Root[:], Note: seal.Checkpoint.Note,
	})
}

// nextToSeal returns up to limit entries of the queue, and whether there may be
// more. Together their details have at most auditlog.MaxSealBytes, but it returns at
// least one.
func nextToSeal(ctx context.Context, q db.DBTX, limit int) (next toSeal, more bool, err error) {
	sizes, err := queries.AuditUnsealedSizes(ctx, q, int32(limit))
	if err != nil {
		return next, false, err
	}
	total := int64(0)
	for i, row := range sizes {
		if total += row.Bytes; !rules.SealTakes(i+1, total) {
			return next, true, nil
		}
		next.Ids, next.RecordedAts = append(next.Ids, row.EntryID), append(next.RecordedAts, row.RecordedAt)
	}
	return next, len(sizes) == limit, nil
}

// toSeal are rows of the queue.
type toSeal struct {
	Ids         []pgtype.UUID
	RecordedAts []time.Time
}

func sealedEntryOf(row db.AuditEntry) auditlog.Entry {
	return auditlog.Entry{AuditEntry: auditEntryOf(row), Salts: row.Salts}
}

func (a *auditStore) Identity(ctx context.Context) (repo.ID, error) {
	return ask(ctx, a.exec.read, func(q db.DBTX) (repo.ID, error) { return readIdentity(ctx, q) })
}

func readIdentity(ctx context.Context, q db.DBTX) (id repo.ID, err error) {
	note, err := queries.AuditIdentity(ctx, q)
	if err == nil && len(note) != len(id) || conn.IsNoRows(err) { // it was changed or deleted
		return id, &conn.Answer{Err: &repo.NotFoundError{Kind: "audit identity"}}
	}
	copy(id[:], note)
	return id, err
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
		return nil, &conn.Answer{Err: &repo.NotFoundError{Kind: "audit hash"}}
	}
	hashes := make([][32]byte, len(rows))
	for i, row := range rows {
		if copy(hashes[i][:], row) != len(hashes[i]) {
			return nil, &conn.Answer{Err: &repo.NotFoundError{Kind: "audit hash"}}
		}
	}
	return hashes, nil
}

func (a *auditStore) Hashes(ctx context.Context, indexes []int64) ([][32]byte, error) {
	return run(ctx, a.exec.read, readHashes, indexes)
}

func (a *auditStore) Leaves(ctx context.Context, from int64, limit int) ([]auditlog.Leaf, error) {
	limit, err := rules.CheckPage("from", from, limit)
	if err != nil {
		return nil, err
	}
	rows, err := run(ctx, a.exec.read, queries.AuditLeaves, db.AuditLeavesParams{
		FromSequence: from,
		MaxRows:      int32(limit),
	})
	if err != nil {
		return nil, err
	}
	return convert.Each(rows, leafOf), nil
}

func leafOf(row db.AuditLeavesRow) auditlog.Leaf {
	l := row.AuditLeaf
	leaf := auditlog.Leaf{
		Sequence: l.Sequence, EntryID: l.EntryID.Bytes, OccurredAt: l.OccurredAt.UTC(),
		PrunedBy: convert.OptionalID(l.PrunedBy),
		Kept: auditlog.Kept{
			RecordedAt: l.RecordedAt.UTC(), Type: l.Type, Namespace: convert.FromNullable(l.Namespace),
			PlanID: convert.OptionalID(l.PlanID), SessionID: convert.OptionalID(l.SessionID),
		},
	}
	copy(leaf.Kept.Hidden[:], l.Hidden)
	copy(leaf.Hash[:], l.Hash)
	if row.ID.Valid {
		entry := sealedEntryOf(db.AuditEntry{
			ID: row.ID, OccurredAt: *row.OccurredAt, RecordedAt: *row.RecordedAt, Type: *row.Type, Namespace: row.Namespace,
			PlanID:    row.PlanID,
			SessionID: row.SessionID, Actor: row.Actor, UserName: row.UserName, Project: row.Project, Details: row.Details,
			Salts: row.Salts,
		})
		leaf.Entry = &entry
	}
	return leaf
}

func (a *auditStore) Leaf(ctx context.Context, entryID repo.ID) (auditlog.Leaf, error) {
	var rows []db.AuditLeavesRow
	err := a.exec.read(ctx, func(q db.DBTX) error {
		sequence, err := queries.AuditLeafOf(ctx, q, convert.UUID(entryID))
		if err != nil {
			return err
		}
		rows, err = queries.AuditLeaves(ctx, q, db.AuditLeavesParams{FromSequence: sequence, MaxRows: 1})
		return err
	})
	if conn.IsNoRows(err) || err == nil && len(rows) == 0 {
		return auditlog.Leaf{}, &repo.NotFoundError{Kind: "audit leaf", ID: entryID}
	}
	if err != nil {
		return auditlog.Leaf{}, err
	}
	return leafOf(rows[0]), nil
}

func (a *auditStore) Checkpoint(ctx context.Context) (auditlog.Checkpoint, error) {
	row, err := ask(ctx, a.exec.read, func(q db.DBTX) (db.AuditCheckpoint, error) {
		return queries.AuditCheckpointGet(ctx, q)
	})
	if err != nil {
		return auditlog.Checkpoint{}, conn.OrMissing(err, &repo.NotFoundError{Kind: "audit checkpoint"})
	}
	return checkpointOf(row), nil
}

func checkpointOf(row db.AuditCheckpoint) auditlog.Checkpoint {
	checkpoint := auditlog.Checkpoint{Size: row.Size, Note: row.Note, CreatedAt: row.CreatedAt.UTC()}
	copy(checkpoint.Root[:], row.Root)
	return checkpoint
}

func (a *auditStore) Strays(ctx context.Context, limit int) ([]repo.ID, error) {
	limit, err := rules.CheckLimit(limit)
	if err != nil {
		return nil, err
	}
	var strays []repo.ID
	place := db.AuditStraysParams{AfterID: convert.UUID(repo.ID{}), MaxRows: repo.MaxPageSize}
	for {
		rows, err := run(ctx, a.exec.read, queries.AuditStrays, place)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			place.AfterOccurredAt, place.AfterID = row.OccurredAt, row.ID
			if row.Known {
				continue
			}
			strays = append(strays, row.ID.Bytes)
			if len(strays) == limit {
				return strays, nil
			}
		}
		if len(rows) < repo.MaxPageSize {
			return strays, nil
		}
	}
}

func (a *auditStore) Lost(ctx context.Context, limit int) ([]repo.ID, error) {
	limit, err := rules.CheckLimit(limit)
	if err != nil {
		return nil, err
	}
	rows, err := run(ctx, a.exec.read, queries.AuditLost, int32(limit))
	return convert.Each(rows, func(id pgtype.UUID) repo.ID { return id.Bytes }), err
}

func (a *auditStore) Waiting(ctx context.Context, limit int) (auditlog.Waiting, error) {
	limit, err := rules.CheckCount(limit)
	if err != nil {
		return auditlog.Waiting{}, err
	}
	row, err := run(ctx, a.exec.read, queries.AuditWaiting, int32(limit))
	if err != nil || row.Entries == 0 {
		return auditlog.Waiting{}, err
	}
	return auditlog.Waiting{Entries: row.Entries, Oldest: row.Oldest.UTC(), Age: ageOf(row)}, nil
}

func ageOf(row db.AuditWaitingRow) time.Duration {
	return time.Duration(row.AgeSeconds * float64(time.Second))
}
