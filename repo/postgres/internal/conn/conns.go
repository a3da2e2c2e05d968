package conn

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/observe"
	"github.com/seed-df90f812/agentstore/repo"
)

// Conns runs statements on the connections of a pool.
type Conns struct {
	Pool *pgxpool.Pool
	// OtherLevel: transactions have another level than read committed by default, so that
	// statements which check that would do nothing. It affects the speed alone, and is never reset.
	OtherLevel *atomic.Bool
	// Distributed: the tables are on a node of a distributed engine, which takes only plain statements, in transactions
	// that say where they begin, to that node as they are. It is never reset.
	Distributed *atomic.Bool
	// Observer is told of groups. Nil: there is none.
	Observer observe.Observer
	// Again counts further attempts, of operations and of groups.
	Again *atomic.Int64
}

// New returns the connections of a pool.
func New(pool *pgxpool.Pool, observer observe.Observer) Conns {
	return Conns{
		Pool: pool, OtherLevel: &atomic.Bool{}, Distributed: &atomic.Bool{}, Observer: observer,
		Again: &atomic.Int64{},
	}
}

// Pause is like the function, and counts the attempt that follows.
func (c Conns) Pause(ctx context.Context, attempt int) bool {
	again := Pause(ctx, attempt)
	if again {
		c.Again.Add(1)
	}
	return again
}

// Retry runs an operation until it succeeds, fails permanently, or has used up its attempts.
func (c Conns) Retry(ctx context.Context, operation func() error) error {
	for attempt := 1; ; attempt++ {
		err := operation()
		if !IsPassing(err) || ctx.Err() != nil || !c.Pause(ctx, attempt) {
			return err
		}
	}
}

// Run runs statements on one connection. One statement, or one batch, is one
// transaction, at read committed.
func (c Conns) Run(ctx context.Context, at Phase, statements func(db.DBTX) error) error {
	conn, err := c.Pool.Acquire(ctx)
	if err != nil {
		return Translate(ctx, err, Unsent)
	}
	defer conn.Release()
	if err := Fits(conn.Conn()); err != nil {
		return err
	}
	err = statements(Alone{Conn: conn.Conn(), Says: c.Distributed.Load()})
	if ctx.Err() != nil && conn.Conn().IsClosed() {
		go askAgain(context.WithoutCancel(ctx), conn.Conn().PgConn()) // ends with the connection
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && EndsConnection(pgErr) {
		// The driver notices that itself only if the server's messages are English.
		_ = conn.Conn().Close(ctx)
	}
	c.LeaveReadOnly(err)
	if _, isAnswer := errors.AsType[*Answer](err); at == Committing && !isAnswer {
		err = c.Doubted(err)
	}
	return Meaning(ctx, err, at)
}

// Doubted returns the error of a commit. A coordinator that is asked to cancel while it waits for its node's answer to
// the commit says that it has canceled: the outcome is unknown then.
func (c Conns) Doubted(err error) error {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && c.Distributed.Load() && pgErr.Code == QueryCanceled {
		return &Error{repo.ErrUnknownOutcome, withoutValues(pgErr)}
	}
	return err
}

// Begin begins a transaction at read committed.
func (c Conns) Begin(ctx context.Context) (pgx.Tx, error) {
	return c.Pool.BeginTx(ctx, ReadCommitted)
}

// Dial makes a connection as the pool makes its own, but not one of these. The pool's hooks may set a changing
// password, or types.
func Dial(ctx context.Context, pool *pgxpool.Config, change func(*pgx.ConnConfig)) (*pgx.Conn, error) {
	config := pool.ConnConfig.Copy()
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, config); err != nil {
			return nil, err
		}
	}
	change(config)
	pg, err := pgx.ConnectConfig(ctx, config)
	if err == nil && pool.AfterConnect != nil {
		if err = pool.AfterConnect(ctx, pg); err != nil {
			Close(ctx, pg)
		}
	}
	if err != nil {
		return nil, err
	}
	return pg, nil
}

// closeTimeout bounds the closing of a connection.
const closeTimeout = time.Second

// Close closes a connection, also when the context has ended.
func Close(ctx context.Context, pg *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = pg.Close(ctx)
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

// LeaveReadOnly closes the pool's connections if err says that their server does not
// accept writes: after a failover it may stay up and keep its connections open. New
// connections lead to the server that accepts writes, if the URL requests it
// (target_session_attrs=read-write). Connections in use are closed when they are
// returned to the pool.
func (c Conns) LeaveReadOnly(err error) {
	if HasCode(err, ReadOnlyTransaction) {
		c.Pool.Reset()
	}
}
