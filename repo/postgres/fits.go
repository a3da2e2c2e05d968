package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// fits bounds the bytes of the rows of a list. What is beyond limits.MaxReadBytes is not kept in memory, but for one
// row, which tells that there is a next page, and which rules.PageOf leaves out.
type fits struct{ cut bool }

// in returns a way for a query that reads a list.
func (f *fits) in(by way) way {
	return func(ctx context.Context, statements func(db.DBTX) error) error {
		return by(ctx, func(q db.DBTX) error { return statements(through{DBTX: q, rows: f.of}) })
	}
}

func (f *fits) of(rows pgx.Rows) (pgx.Rows, error) {
	f.cut = false // by a failed attempt
	return &fittingRows{Rows: rows, of: f}, nil
}

// listed reads a page of a list that was checked.
func listed[Row, Filter, Place, Entity any](
	by way, list rules.List[Filter, Place, Entity], err error, read func(way) ([]Row, error),
	entityOf func(Row) (Entity, error),
) (page repo.List[Entity], _ error) {
	var fit fits
	var rows []Row
	if err == nil {
		rows, err = read(fit.in(by))
	}
	if err != nil {
		return page, err
	}
	return fitted(fit, list, rows, entityOf)
}

// fitted is rules.PageOf for the rows that were kept.
func fitted[Row, Filter, Place, Entity any](
	fit fits, list rules.List[Filter, Place, Entity], rows []Row, entityOf func(Row) (Entity, error),
) (repo.List[Entity], error) {
	if fit.cut {
		list.Limit = len(rows) - 1
	}
	return rules.PageOf(list, rows, entityOf)
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
