package conn

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/internal/pgsettings"
	"github.com/seed-df90f812/agentstore/repo"
)

// Fits refuses a connection whose settings would change the meaning of texts, or the
// form of answers. The driver knows these settings from the server, so that the check
// costs no round trip. It is repeated for every use, because an earlier user of the
// connection may have changed them.
func Fits(conn *pgx.Conn) error {
	if err := pgsettings.Reported(conn); err != nil {
		return &Error{repo.ErrSchema, err}
	}
	return nil
}

// CheckedTx is a caller's transaction. Before each of its statements the settings are
// checked, and that the transaction is open, because the caller may change either at
// any time.
type CheckedTx struct{ pgx.Tx }

func (t CheckedTx) check() error {
	if HasEnded(t.Conn()) { // a statement would be a transaction of its own
		return fmt.Errorf("%w: %w", repo.ErrClosed, ErrEnded)
	}
	return Fits(t.Conn())
}

// Exec is like pgx.Tx's.
func (t CheckedTx) Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error) {
	if err := t.check(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return t.Tx.Exec(ctx, sql, arguments...)
}

// Query is like pgx.Tx's.
func (t CheckedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	return t.Tx.Query(ctx, sql, args...)
}

// QueryRow is like pgx.Tx's.
func (t CheckedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.check(); err != nil {
		return failedRow{err}
	}
	return t.Tx.QueryRow(ctx, sql, args...)
}

// SendBatch is like pgx.Tx's.
func (t CheckedTx) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	if err := t.check(); err != nil {
		return failedBatch{err}
	}
	return t.Tx.SendBatch(ctx, batch)
}

// Begin returns a savepoint, whose statements are checked, too.
func (t CheckedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	savepoint, err := t.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return CheckedTx{savepoint}, nil
}

// failedRow and failedBatch are the results of statements that were not sent.
type failedRow struct{ err error }

func (r failedRow) Scan(...any) error { return r.err }

type failedBatch struct{ err error }

func (b failedBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, b.err }
func (b failedBatch) Query() (pgx.Rows, error)         { return nil, b.err }
func (b failedBatch) QueryRow() pgx.Row                { return failedRow(b) }
func (b failedBatch) Close() error                     { return b.err }
func (b failedBatch) Tx() pgx.Tx                       { return nil }
