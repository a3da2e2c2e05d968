package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
)

// way is one of an executor's ways to run statements: read, write or writeByID.
type way func(ctx context.Context, statements func(db.DBTX) error) error

// run runs one query and returns its answer. A query with several arguments takes a struct.
func run[Argument, Answer any](
	ctx context.Context, way way, query func(context.Context, db.DBTX, Argument) (Answer, error), argument Argument,
) (Answer, error) {
	return ask(ctx, way, func(q db.DBTX) (Answer, error) { return query(ctx, q, argument) })
}

// ask is like run, for any function that queries.
func ask[Answer any](ctx context.Context, way way, query func(db.DBTX) (Answer, error)) (answer Answer, err error) {
	err = way(ctx, func(q db.DBTX) (err error) {
		answer, err = query(q)
		return err
	})
	return answer, err
}
