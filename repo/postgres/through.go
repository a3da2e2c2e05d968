package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
)

// through sits between a generated query and the connection, for what generated code cannot do.
type through struct {
	db.DBTX
	// sql rewrites the query. Nil: it is sent as it is.
	sql func(sql string, args []any) (string, []any)
	// rows reads or wraps the rows of Query. Nil: they are the query's.
	rows func(pgx.Rows) (pgx.Rows, error)
}

// Query implements db.DBTX.
func (t through) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	sql, args = t.sent(sql, args)
	rows, err := t.DBTX.Query(ctx, sql, args...)
	if err != nil || t.rows == nil {
		return rows, err
	}
	return t.rows(rows)
}

// QueryRow implements db.DBTX.
func (t through) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	sql, args = t.sent(sql, args)
	return t.DBTX.QueryRow(ctx, sql, args...)
}

func (t through) sent(sql string, args []any) (string, []any) {
	if t.sql == nil {
		return sql, args
	}
	return t.sql(sql, args)
}
