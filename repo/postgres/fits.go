package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
)

// fits bounds the bytes of the rows of a list. What is beyond limits.MaxReadBytes is not kept in memory, but for one row, which tells
// that there is a next page, and which rules.PageOf leaves out.
type fits struct{ cut bool }

// in returns a way for a query that reads a list.
func (f *fits) in(by way) way {
	return func(ctx context.Context, statements func(db.DBTX) error) error {
		return by(ctx, func(q db.DBTX) error { return statements(fitting{q, f}) })
	}
}

// limit is that of a page of which so many rows were read.
func (f *fits) limit(limit, rows int) int {
	if f.cut {
		return rows - 1
	}
	return limit
}

type fitting struct {
	db.DBTX
	of *fits
}

func (f fitting) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := f.DBTX.Query(ctx, sql, args...)
	f.of.cut = false
	return &fittingRows{Rows: rows, of: f.of}, err
}

type fittingRows struct {
	pgx.Rows
	of          *fits
	rows, bytes int
}

func (r *fittingRows) Next() bool {
	if r.rows > 1 && r.bytes >= limits.MaxReadBytes {
		r.of.cut = true
		r.Close()
		return false
	}
	if !r.Rows.Next() {
		return false
	}
	r.rows++
	for _, value := range r.RawValues() {
		r.bytes += len(value)
	}
	return true
}
