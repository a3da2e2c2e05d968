package conn

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// RollbackTimeout bounds a rollback, which continues after the caller's context has
// ended: a connection whose transaction is left open is lost to the pool.
const RollbackTimeout = 5 * time.Second

// Rollback ends a transaction; it has no effect on a committed one. Its error is
// ignored: the connection of a failed rollback is closed, and the server then rolls
// back by itself.
func Rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx)
}

// RollbackOpen ends the transaction of a connection, if one is open.
func RollbackOpen(ctx context.Context, conn *pgx.Conn) {
	if conn.IsClosed() || conn.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), RollbackTimeout)
	defer cancel()
	_, _ = conn.Exec(ctx, "rollback")
}

// ErrEnded says that one of the caller's own statements was COMMIT, ROLLBACK or the like.
var ErrEnded = errors.New("a statement of the caller's has ended the transaction")

// HasEnded reports whether a connection that was in a transaction no longer is.
func HasEnded(conn *pgx.Conn) bool { return conn.PgConn().TxStatus() == 'I' }

// ErrClosedBetween says that a transaction ended before its commit was sent.
var ErrClosedBetween = errors.New("the connection was closed between two statements")
