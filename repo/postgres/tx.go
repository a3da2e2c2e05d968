package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/internal/inside"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
)

// InTx implements repo.Store.
func (s *Store) InTx(ctx context.Context, fn func(context.Context, repo.Repositories) error) error {
	var changes []news
	err := s.exec.untilItStays(ctx, func(tx pgx.Tx) error {
		inner, leave := inside.Enter(ctx, s.exec.conns.Pool)
		defer leave()
		changes = nil
		exec := bound{tx: conn.CheckedTx{Tx: tx}, news: &changes, keyCache: s.exec.keyCache}
		known := &known{outside: s.exec.viewed}
		return fn(inner, inTx{repositories{base{exec, s.view, known}, s.options}, lentTx{tx}})
	}, func(attempt int) {
		s.log.DebugContext(ctx, "transaction conflicted with another and is run again", "attempt", attempt)
	})
	if err == nil || errors.Is(err, repo.ErrUnknownOutcome) {
		s.exec.changed(changes...)
	}
	return err
}

// untilItStays runs fn in a transaction, and again in another one if the server
// aborted it because of a conflict. again is called before each further attempt.
func (p *pooled) untilItStays(ctx context.Context, fn func(pgx.Tx) error, again func(attempt int)) error {
	for attempt := 1; ; attempt++ {
		err := p.transaction(ctx, fn)
		if !errors.Is(err, repo.ErrContention) || ctx.Err() != nil || !p.conns.Pause(ctx, attempt) {
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
	defer conn.Rollback(ctx, tx)
	if err := conn.Fits(tx.Conn()); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		p.conns.LeaveReadOnly(err)
		return err
	}
	// If the context has ended, do not risk a commit whose outcome is unknown.
	if ctx.Err() != nil {
		return conn.Translate(ctx, ctx.Err(), conn.Reading)
	}
	if tx.Conn().IsClosed() { // surely not committed
		return conn.Translate(ctx, pgconn.ErrConnClosed, conn.Reading)
	}
	if conn.HasEnded(tx.Conn()) {
		return &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: conn.ErrEnded}
	}
	return conn.Translate(ctx, p.conns.Doubted(tx.Commit(ctx)), conn.Committing)
}

// begin begins a transaction. It is safe to retry.
func (p *pooled) begin(ctx context.Context) (tx pgx.Tx, err error) {
	err = p.conns.Retry(ctx, func() error {
		tx, err = p.conns.Begin(ctx)
		return conn.Translate(ctx, err, conn.Unsent)
	})
	return tx, err
}
