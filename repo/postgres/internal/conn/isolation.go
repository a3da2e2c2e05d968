package conn

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/db"
)

// ReadCommitted begins the store's own transactions. The store's guarantees are tested
// at that level, whatever the default of the server, the database, the role, the URL or
// the caller's session is.
var ReadCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}

// Alone sends each statement, and each batch, as a transaction of its own, in one round trip, at read committed, or at
// a snapshot.
type Alone struct {
	Conn *pgx.Conn
	// Says: it says where each transaction begins and ends. A distributed engine takes the statements of one that is
	// implicit as transactions of their own.
	Says bool
	// Snapshot: the statements of a batch, which only read, see the same snapshot (repeatable read).
	Snapshot bool
}

var _ db.DBTX = Alone{}

// SendBatch is like pgx.Conn's. The level is set in the transaction that the server begins implicitly, with the first
// statement of the batch, by a variable that belongs to the transaction: the next one starts with the default again,
// and a pooler may hand the session on. It is not SET TRANSACTION, about which the server would warn there, and not
// BEGIN, which would leave a transaction open after an error. (It is not a query of sqlc, which does not support SET.)
// The statement of a lone message (MessageAppendOne) checks its level itself and is sent without it, which saves a
// twentieth of it. At another level it does nothing, and the ledger is asked.
func (a Alone) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	level := "read committed"
	if a.Snapshot {
		level = "repeatable read"
	}
	if a.Says {
		return sendWithin(ctx, a.Conn, "begin isolation level "+level, batch)
	}
	return sendAt(ctx, a.Conn, "SET transaction_isolation TO '"+level+"'", batch)
}

// sendWithin is sendAt for a transaction that says where it begins and ends.
func sendWithin(ctx context.Context, conn *pgx.Conn, begin string, batch *pgx.Batch) pgx.BatchResults {
	batch.Queue("commit")
	return within{sendAt(ctx, conn, begin, batch), ctx, conn}
}

// within are the results of a transaction that an error leaves open.
type within struct {
	pgx.BatchResults
	ctx  context.Context //nolint:containedctx // of the call that reads them
	conn *pgx.Conn
}

func (w within) Close() error {
	err := w.BatchResults.Close()
	RollbackOpen(w.ctx, w.conn)
	return err
}

func sendAt(ctx context.Context, conn *pgx.Conn, setLevel string, batch *pgx.Batch) pgx.BatchResults {
	isolated := &pgx.Batch{QueuedQueries: make([]*pgx.QueuedQuery, 0, len(batch.QueuedQueries)+1)}
	isolated.Queue(setLevel)
	isolated.QueuedQueries = append(isolated.QueuedQueries, batch.QueuedQueries...)
	results := conn.SendBatch(ctx, isolated)
	// The results after it fail with the same error.
	_, _ = results.Exec()
	return results
}

func (a Alone) send(ctx context.Context, sql string, args []any) pgx.BatchResults {
	batch := &pgx.Batch{}
	batch.Queue(sql, args...)
	return a.SendBatch(ctx, batch)
}

// Exec is like pgx.Conn's.
func (a Alone) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	results := a.send(ctx, sql, args)
	tag, err := results.Exec()
	// The commit comes after the answer: its error shows only here.
	if closed := results.Close(); err == nil {
		err = closed
	}
	return tag, err
}

// Query is like pgx.Conn's.
func (a Alone) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	results := a.send(ctx, sql, args)
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return rows, err
	}
	return &lastRows{Rows: rows, results: results}, nil
}

// QueryRow is like pgx.Conn's.
func (a Alone) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	results := a.send(ctx, sql, args)
	return lastRow{results.QueryRow(), results}
}

// lastRows are the rows of a batch's last statement, and end it.
type lastRows struct {
	pgx.Rows
	results pgx.BatchResults
	closed  bool
	err     error // the commit's
}

func (r *lastRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *lastRows) Close() {
	if !r.closed {
		r.closed = true
		r.Rows.Close()
		r.err = r.results.Close()
	}
}

func (r *lastRows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.err
}

// lastRow is the only row of a batch's last statement, and ends it.
type lastRow struct {
	pgx.Row
	results pgx.BatchResults
}

func (r lastRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	if closed := r.results.Close(); closed != nil && (err == nil || IsNoRows(err)) {
		err = closed // of the commit: a row, or none, is not the answer then
	}
	return err
}
