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

// rollbackTimeout bounds a rollback, which goes on after the caller's context
// has ended: a connection whose transaction is left open is lost to the pool.
const rollbackTimeout = 5 * time.Second

// rollback ends a transaction that was not committed; one that was is left alone.
// Its error is of no use: the connection of a failed rollback is closed, and the
// server rolls back by itself.
func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx)
}

// InTx implements repo.Store.
func (s *Store) InTx(ctx context.Context, fn func(context.Context, repo.Repositories) error) error {
	return s.exec.untilItStays(ctx, func(tx pgx.Tx) error {
		inner, leave := inside.Enter(ctx, s.exec.link.pool)
		defer leave()
		return fn(inner, Bind(tx))
	}, func(attempt int) {
		s.log.DebugContext(ctx, "transaction conflicted with another and is run again", "attempt", attempt)
	})
}

// untilItStays runs fn in a transaction, and again in another one when the server
// gave it up for another's sake. again is told before, of which attempt it is.
func (p *pooled) untilItStays(ctx context.Context, fn func(pgx.Tx) error, again func(attempt int)) error {
	for attempt := 1; ; attempt++ {
		err := p.transaction(ctx, fn)
		if !errors.Is(err, repo.ErrContention) || ctx.Err() != nil || !pause(ctx, attempt) {
			return err
		}
		p.mend(ctx, err)
		again(attempt + 1)
	}
}

// transaction runs fn in one transaction. fn's error comes back as it is.
func (p *pooled) transaction(ctx context.Context, fn func(pgx.Tx) error) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.gate.leave()
	p.cover(ctx)
	tx, err := p.begin(ctx)
	if err != nil {
		return err
	}
	if p.months.lasts() {
		coverageOf(tx.Conn()).until.Store(p.months.until.Load())
	}
	// Deferred, so that it also runs when fn panics.
	defer rollback(ctx, tx)
	if err := fits(tx.Conn()); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		if isNoPartition(err) {
			p.months.forget()
		}
		p.link.leaveReadOnly(err)
		return err
	}
	// A context that has ended is not worth a doubtful commit.
	if ctx.Err() != nil {
		return translate(ctx, ctx.Err(), reading)
	}
	if tx.Conn().IsClosed() { // surely not committed
		return translate(ctx, pgconn.ErrConnClosed, reading)
	}
	return translate(ctx, tx.Commit(ctx), committing)
}

// begin begins a transaction. Nothing is lost by trying that again.
func (p *pooled) begin(ctx context.Context) (pgx.Tx, error) {
	for attempt := 1; ; attempt++ {
		tx, err := p.link.pool.BeginTx(ctx, readCommitted)
		if err == nil {
			return tx, nil
		}
		err = translate(ctx, err, unsent)
		if !isPassing(err) || ctx.Err() != nil || !pause(ctx, attempt) {
			return nil, err
		}
	}
}
