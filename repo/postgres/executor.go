package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
)

// executor runs an operation's statements. There are two: on the pool, where
// each operation is a transaction of its own, and in a transaction.
type executor interface {
	// read runs statements that change nothing.
	read(ctx context.Context, statements func(db.DBTX) error) error
	// write runs one statement that changes something.
	write(ctx context.Context, statement func(db.DBTX) error) error
	// writeByID is write for a statement that an id makes repeatable: again
	// says that an earlier run of it may have been committed.
	writeByID(ctx context.Context, statement func(q db.DBTX, again bool) error) error
	// atomically runs several statements that change all or nothing.
	atomically(ctx context.Context, statements func(db.DBTX) error) error
	// inTx reports whether an earlier statement's effects are part of the same
	// transaction, so that a failed statement spoils it.
	inTx() bool
}

// pooled runs each operation on a connection of the pool.
type pooled struct {
	pool *pgxpool.Pool
	gate *gate
}

func (p *pooled) inTx() bool { return false }

func (p *pooled) read(ctx context.Context, statements func(db.DBTX) error) error {
	for attempt := 1; ; attempt++ {
		err := p.once(ctx, reading, statements)
		// A read may always be repeated. A pooled connection that broke while
		// it was idle shows only when it is used.
		if !isPassing(err) || ctx.Err() != nil || !pause(ctx, attempt) {
			return err
		}
	}
}

func (p *pooled) write(ctx context.Context, statement func(db.DBTX) error) error {
	for attempt := 1; ; attempt++ {
		err := p.once(ctx, committing, statement)
		if !isPassing(err) || ctx.Err() != nil || !pause(ctx, attempt) {
			return err
		}
	}
}

func (p *pooled) writeByID(ctx context.Context, statement func(q db.DBTX, again bool) error) error {
	again := false
	for attempt := 1; ; attempt++ {
		err := p.once(ctx, committing, func(q db.DBTX) error { return statement(q, again) })
		unknown := errors.Is(err, repo.ErrUnknownOutcome)
		stop := !isPassing(err) && !unknown || ctx.Err() != nil || !pause(ctx, attempt)
		if stop {
			if again && err != nil && !unknown && (isPassing(err) || ctx.Err() != nil) {
				// This attempt wrote nothing, but an earlier one may have.
				return &storeError{repo.ErrUnknownOutcome, err}
			}
			return err
		}
		again = again || unknown
	}
}

func (p *pooled) atomically(ctx context.Context, statements func(db.DBTX) error) error {
	return p.transaction(ctx, func(tx pgx.Tx) error { return translate(ctx, statements(tx), reading) })
}

// once runs statements on one connection, in one transaction if they are one
// statement or one batch.
func (p *pooled) once(ctx context.Context, at phase, statements func(db.DBTX) error) error {
	if err := p.gate.enter(); err != nil {
		return err
	}
	defer p.gate.leave()
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		return translate(ctx, err, unsent)
	}
	defer conn.Release()
	return translate(ctx, statements(conn.Conn()), at)
}

// bound runs operations in a transaction that somebody else ends.
type bound struct{ tx pgx.Tx }

func (b bound) inTx() bool { return true }

func (b bound) read(ctx context.Context, statements func(db.DBTX) error) error {
	// Whatever fails here, the commit is not this operation's: the outcome is
	// never in doubt before it.
	return translate(ctx, statements(b.tx), reading)
}

func (b bound) write(ctx context.Context, statement func(db.DBTX) error) error {
	return b.read(ctx, statement)
}

func (b bound) writeByID(ctx context.Context, statement func(q db.DBTX, again bool) error) error {
	return b.read(ctx, func(q db.DBTX) error { return statement(q, false) })
}

// atomically uses a savepoint: a caller who goes on after an error commits
// nothing of what failed.
func (b bound) atomically(ctx context.Context, statements func(db.DBTX) error) error {
	savepoint, err := b.tx.Begin(ctx)
	if err != nil {
		return translate(ctx, err, reading)
	}
	defer rollback(ctx, savepoint)
	if err := statements(savepoint); err != nil {
		return translate(ctx, err, reading)
	}
	return translate(ctx, savepoint.Commit(ctx), reading)
}

// isPassing reports whether the same operation may succeed when it is run
// again, and nothing of it was written.
func isPassing(err error) bool {
	return errors.Is(err, repo.ErrContention) || errors.Is(err, repo.ErrUnavailable)
}
