package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/db"
)

// conns runs statements on the connections of a pool.
type conns struct{ pool *pgxpool.Pool }

// run runs statements on one connection. One statement, or one batch, is one
// transaction, at read committed.
func (c conns) run(ctx context.Context, at phase, statements func(db.DBTX) error) error {
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return translate(ctx, err, unsent)
	}
	defer conn.Release()
	if err := fits(conn.Conn()); err != nil {
		return err
	}
	err = statements(alone{conn.Conn()})
	if ctx.Err() != nil && conn.Conn().IsClosed() {
		go askAgain(context.WithoutCancel(ctx), conn.Conn().PgConn()) // ends with the connection
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && endsConnection(pgErr) {
		// The driver notices that itself only if the server's messages are English.
		_ = conn.Conn().Close(ctx)
	}
	c.leaveReadOnly(err)
	return meaning(ctx, err, at)
}

// The pauses before a request to cancel is sent again, and the bound of one.
const (
	firstAskAgain = 100 * time.Millisecond
	askTimeout    = 2 * time.Second
)

// askAgain asks the server to cancel the statement of a connection that is being given
// up, repeatedly until the statement ends, for at most 15 seconds. The driver asks only
// once: a request that arrives before the server has begun the statement, as on a busy
// machine, has no effect, and the waiting statement would keep its place in the pool.
func askAgain(ctx context.Context, conn *pgconn.PgConn) {
	for wait := firstAskAgain; ; wait *= 2 {
		select {
		case <-conn.CleanupDone():
			return
		case <-time.After(wait):
		}
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		_ = conn.CancelRequest(asking)
		cancel()
	}
}

// leaveReadOnly closes the pool's connections if err says that their server does not
// accept writes: after a failover it may stay up and keep its connections open. New
// connections lead to the server that accepts writes, if the URL requests it
// (target_session_attrs=read-write). Connections in use are closed when they are
// returned to the pool.
func (c conns) leaveReadOnly(err error) {
	if hasCode(err, readOnlyTransaction) {
		c.pool.Reset()
	}
}
