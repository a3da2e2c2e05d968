package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// way is one of an executor's ways to run statements: read, write or writeByID.
type way func(ctx context.Context, statements func(db.DBTX) error) error

// run runs one query in a way and returns what it answers.
func run[Argument, Answer any](
	ctx context.Context, way way, query func(context.Context, db.DBTX, Argument) (Answer, error), argument Argument,
) (answer Answer, err error) {
	err = way(ctx, func(q db.DBTX) (err error) {
		answer, err = query(ctx, q, argument)
		return err
	})
	return answer, err
}

// pageOf makes a page of rows, of which one more than limit was asked for: if it is
// there, there is a next page, which begins at the cursor after the last value.
func pageOf[Row, Value any](
	rows []Row, limit int, valueOf func(Row) (Value, error), cursorAfter func(Value) repo.Cursor,
) (values []Value, next repo.Cursor, err error) {
	values = make([]Value, min(len(rows), limit))
	for i := range values {
		if values[i], err = valueOf(rows[i]); err != nil {
			return nil, "", err
		}
	}
	if len(rows) > limit {
		next = cursorAfter(values[limit-1])
	}
	return values, next, nil
}

// each makes a value of each row.
func each[Row, Value any](rows []Row, valueOf func(Row) Value) []Value {
	values := make([]Value, len(rows))
	for i, row := range rows {
		values[i] = valueOf(row)
	}
	return values
}
