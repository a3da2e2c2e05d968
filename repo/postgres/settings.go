package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/repo"
)

// fits refuses a connection whose session would take texts for others, or answer
// in a form that is not understood. The server told the driver what there is to
// know: it costs no round trip, and is looked at anew for every use, because
// whoever had the connection before may have set it.
func fits(conn *pgx.Conn) error {
	if err := pgsettings.Reported(conn); err != nil {
		return &storeError{repo.ErrSchema, err}
	}
	return nil
}

// checkedTx is a transaction of somebody else's, who may have set anything before
// each of its statements.
type checkedTx struct{ pgx.Tx }

func (t checkedTx) Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error) {
	if err := fits(t.Conn()); err != nil {
		return pgconn.CommandTag{}, err
	}
	return t.Tx.Exec(ctx, sql, arguments...)
}

func (t checkedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := fits(t.Conn()); err != nil {
		return nil, err
	}
	return t.Tx.Query(ctx, sql, args...)
}

func (t checkedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := fits(t.Conn()); err != nil {
		return failedRow{err}
	}
	return t.Tx.QueryRow(ctx, sql, args...)
}

func (t checkedTx) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	if err := fits(t.Conn()); err != nil {
		return failedBatch{err}
	}
	return t.Tx.SendBatch(ctx, batch)
}

func (t checkedTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error) {
	if err := fits(t.Conn()); err != nil {
		return 0, err
	}
	return t.Tx.CopyFrom(ctx, table, columns, rows)
}

// Begin's savepoint is as little its own.
func (t checkedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := fits(t.Conn()); err != nil {
		return nil, err
	}
	savepoint, err := t.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return checkedTx{savepoint}, nil
}

// failedRow and failedBatch are the answers to what was not sent.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

type failedBatch struct{ err error }

func (b failedBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, b.err }
func (b failedBatch) Query() (pgx.Rows, error)         { return nil, b.err }
func (b failedBatch) QueryRow() pgx.Row                { return failedRow(b) }
func (b failedBatch) Close() error                     { return b.err }
func (b failedBatch) Tx() pgx.Tx                       { return nil }
