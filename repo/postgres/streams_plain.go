package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// appendPlain is StreamAppendMany by plain statements: see conn.Conns.Distributed. The first round trip locks and looks, the second
// one writes and commits.
func appendPlain(ctx context.Context, q db.DBTX, params db.StreamAppendManyParams) ([]db.StreamAppendManyRow, error) {
	pg := q.(conn.Alone).Conn
	defer conn.RollbackOpen(ctx, pg)
	rows, short, err := lookAtStreams(ctx, pg, params)
	if err != nil {
		return nil, &conn.Answer{Err: conn.Translate(ctx, err, conn.Reading)}
	}
	var insert db.StreamPartInsertParams
	for i, owner := range params.Owners {
		if row := &rows[owner-1]; row.Stored {
			insert.StreamIds = append(insert.StreamIds, params.StreamIds[owner-1])
			insert.Sequences = append(insert.Sequences, row.NextSequence+params.PlacesInStream[i])
			insert.Datas = append(insert.Datas, params.Datas[i])
		}
	}
	if len(insert.StreamIds)+len(short) > 0 {
		p := &conn.Pipeline{}
		if len(insert.StreamIds) > 0 {
			p.Add(func(q db.DBTX) error {
				inserted, err := queries.StreamPartInsert(ctx, q, insert)
				return conn.Whole(inserted, len(insert.StreamIds), err)
			})
		}
		if len(short) > 0 {
			p.Add(func(q db.DBTX) error { return queries.StreamExtend(ctx, q, short) })
		}
		p.Exec(ctx, "commit")
		if err := p.Send(ctx, pg); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(rows, func(row db.StreamAppendManyRow) bool { return row.Status == "" }), nil
}

// lookAtStreams begins the transaction, and locks the streams that nobody has locked. It returns a row for each stream, without a
// status if it does not exist, and those whose life has to be extended. To be stored is what fits.
func lookAtStreams(ctx context.Context, pg *pgx.Conn, params db.StreamAppendManyParams) (rows []db.StreamAppendManyRow, short []pgtype.UUID, err error) {
	var locked []pgtype.UUID
	var seen []db.StreamLookRow
	p := &conn.Pipeline{}
	p.Exec(ctx, "begin isolation level read committed")
	p.Add(func(q db.DBTX) (err error) {
		locked, err = queries.StreamLockKnown(ctx, q, params.StreamIds)
		return err
	})
	p.Add(func(q db.DBTX) (err error) {
		seen, err = queries.StreamLook(ctx, q, params.StreamIds)
		return err
	})
	if err := p.Send(ctx, pg); err != nil {
		return nil, nil, err
	}
	rows = make([]db.StreamAppendManyRow, len(params.StreamIds))
	for _, row := range seen {
		i := slices.Index(params.StreamIds, row.ID)
		held := !slices.Contains(locked, row.ID)
		rows[i] = db.StreamAppendManyRow{
			Place: int64(i) + 1, Held: held, Fence: row.Fence, Status: row.Status, NextSequence: row.NextSequence, Expired: row.Expired, LockTimeout: row.LockTimeout,
			Stored: !held && !row.Expired && row.Status == string(repo.StreamOpen) && row.Fence == params.Fences[i] && row.NextSequence == params.FirstSequences[i],
		}
		if rows[i].Stored && row.IsShort {
			short = append(short, row.ID)
		}
	}
	return rows, short, nil
}
