package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/internal/inside"
	"github.com/seed-df90f812/agentstore/repo"
)

// rollbackTimeout bounds a rollback, which continues after the caller's context has
// ended: a connection whose transaction is left open is lost to the pool.
const rollbackTimeout = 5 * time.Second

// rollback ends a transaction; it has no effect on a committed one. Its error is
// ignored: the connection of a failed rollback is closed, and the server then rolls
// back by itself.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx)
}

// InTx implements repo.Store.
func (s *Store) InTx(ctx context.Context, fn func(context.Context, repo.Repositories) error) error {
	var changes []news
	var queues []string
	err := s.exec.untilItStays(ctx, func(tx pgx.Tx) error {
		inner, leave := inside.Enter(ctx, s.exec.conns.pool)
		defer leave()
		changes, queues = nil, nil
		return fn(inner, repositories{bound{tx: checkedTx{tx}, news: &changes, queues: &queues, keys: s.exec.keys}, lentTx{tx}, s.options})
	}, func(attempt int) {
		s.log.DebugContext(ctx, "transaction conflicted with another and is run again", "attempt", attempt)
	})
	if err == nil || errors.Is(err, repo.ErrUnknownOutcome) {
		s.exec.changed(changes...)
		s.exec.queued(queues...)
	}
	return err
}

// untilItStays runs fn in a transaction, and again in another one if the server
// aborted it because of a conflict. again is called before each further attempt.
func (p *pooled) untilItStays(ctx context.Context, fn func(pgx.Tx) error, again func(attempt int)) error {
	for attempt := 1; ; attempt++ {
		err := p.transaction(ctx, fn)
		if !errors.Is(err, repo.ErrContention) || ctx.Err() != nil || !pause(ctx, attempt) {
			return err
		}
		again(attempt + 1)
	}
}

// transaction runs fn in one transaction. It returns fn's error unchanged.
func (p *pooled) transaction(ctx context.Context, fn func(pgx.Tx) error) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.gate.leave()
	tx, err := p.begin(ctx)
	if err != nil {
		return err
	}
	// Deferred, so that it also runs when fn panics.
	defer rollback(ctx, tx)
	if err := fits(tx.Conn()); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		p.conns.leaveReadOnly(err)
		return err
	}
	// If the context has ended, do not risk a commit whose outcome is unknown.
	if ctx.Err() != nil {
		return translate(ctx, ctx.Err(), reading)
	}
	if tx.Conn().IsClosed() { // surely not committed
		return translate(ctx, pgconn.ErrConnClosed, reading)
	}
	if hasEnded(tx.Conn()) {
		return &storeError{repo.ErrUnknownOutcome, errEnded}
	}
	return translate(ctx, tx.Commit(ctx), committing)
}

// errEnded: one of the caller's own statements was COMMIT, ROLLBACK or the like.
var errEnded = errors.New("a statement of the caller's has ended the transaction")

// hasEnded reports whether a connection that was in a transaction no longer is.
func hasEnded(conn *pgx.Conn) bool { return conn.PgConn().TxStatus() == 'I' }

// begin begins a transaction. It is safe to retry.
func (p *pooled) begin(ctx context.Context) (pgx.Tx, error) {
	for attempt := 1; ; attempt++ {
		tx, err := p.conns.pool.BeginTx(ctx, readCommitted)
		if err == nil {
			return tx, nil
		}
		err = translate(ctx, err, unsent)
		if !isPassing(err) || ctx.Err() != nil || !pause(ctx, attempt) {
			return nil, err
		}
	}
}
