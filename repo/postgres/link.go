package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/db"
)

// link is the way to the database: the pool.
type link struct{ pool *pgxpool.Pool }

// run runs statements on one connection. One statement, or one batch, is one
// transaction, at read committed.
func (l link) run(ctx context.Context, at phase, statements func(db.DBTX) error) error {
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return translate(ctx, err, unsent)
	}
	defer conn.Release()
	if err := fits(conn.Conn()); err != nil {
		return err
	}
	err = statements(alone{conn.Conn()})
	if ctx.Err() != nil && conn.Conn().IsClosed() {
		go askAgain(conn.Conn().PgConn()) // ends with the connection
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && endsConnection(pgErr) {
		// The driver sees that by itself only where the server speaks English.
		_ = conn.Conn().Close(ctx)
	}
	l.leaveReadOnly(err)
	return meaning(ctx, err, at)
}

// The pauses before a request to cancel is sent again, and the bound of one.
const (
	firstAskAgain = 100 * time.Millisecond
	askTimeout    = 2 * time.Second
)

// askAgain asks the server to cancel what a connection that is being given up has
// under way, until that is at its end, 15 seconds at most. The driver asks once: a
// request that comes before the server has begun with the statement, as on a busy
// machine, does nothing, and the statement waits for its lock in a place of the
// pool.
func askAgain(conn *pgconn.PgConn) {
	for wait := firstAskAgain; ; wait *= 2 {
		select {
		case <-conn.CleanupDone():
			return
		case <-time.After(wait):
		}
		ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
		_ = conn.CancelRequest(ctx)
		cancel()
	}
}

// leaveReadOnly gives up the pool's connections when err says that their server
// takes no writes (any more): after a switch-over it may stay up, and its
// connections open and of no use. New ones are made to the server that takes
// writes, if the URL asks for it (target_session_attrs=read-write). Those in use
// are closed when they come back.
func (l link) leaveReadOnly(err error) {
	if hasCode(err, readOnlyTransaction) {
		l.pool.Reset()
	}
}
