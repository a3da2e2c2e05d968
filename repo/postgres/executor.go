package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/inside"
	"github.com/seed-df90f812/agentstore/repo"
)

// executor runs an operation's statements. There are two: on the pool, where
// each operation is a transaction of its own, and in a transaction.
type executor interface {
	// read runs statements that change nothing.
	read(ctx context.Context, statements func(db.DBTX) error) error
	// write runs one statement that changes something.
	write(ctx context.Context, statement func(db.DBTX) error) error
	// writeByID is write for a statement that an id makes repeatable.
	writeByID(ctx context.Context, statement func(db.DBTX) error) error
	// append runs an append's statement.
	append(ctx context.Context, a *appending) (db.MessageAppendRow, error)
	// unread translates the error of reading what an operation had found stored,
	// perhaps by an earlier attempt of its own.
	unread(err error) error
	// sees makes sure that what the operation found is so now: it runs statements
	// which fail where the transaction sees an older state of the database.
	sees(ctx context.Context, statements func(db.DBTX) error) error
	// atomically runs several statements that change all or nothing. It may run
	// them more than once.
	atomically(ctx context.Context, statements func(db.DBTX) error) error
}

// pooled runs each operation on a connection of the pool, as a transaction of
// its own.
type pooled struct {
	link     link
	appender *appender
	gate     *gate
	// months are those that have partitions of the audit trail.
	months coverage
}

func (p *pooled) read(ctx context.Context, statements func(db.DBTX) error) error {
	return p.retried(ctx, func() error { return p.link.run(ctx, reading, statements) })
}

func (p *pooled) write(ctx context.Context, statement func(db.DBTX) error) error {
	return p.retried(ctx, func() error { return p.link.run(ctx, committing, statement) })
}

// errNotMoved: the statement found nothing in the state that it needs.
var errNotMoved = errors.New("not in the required state")

func (p *pooled) writeByID(ctx context.Context, statement func(db.DBTX) error) error {
	var unsure bool
	return p.retried(ctx, func() error {
		err := p.link.run(ctx, committing, statement)
		switch {
		case errors.Is(err, repo.ErrUnknownOutcome):
			unsure = true
		case unsure && (errors.Is(err, repo.ErrNotFound) || errors.Is(err, errNotMoved)):
			// It may be there when the earlier attempt arrives.
			return &storeError{repo.ErrUnknownOutcome, errLateAttempt}
		}
		return afterDoubt(unsure, err)
	})
}

func (p *pooled) append(ctx context.Context, a *appending) (db.MessageAppendRow, error) {
	if err := p.enter(ctx); err != nil {
		return db.MessageAppendRow{}, err
	}
	defer p.gate.leave()
	return p.appender.submit(ctx, a)
}

// unread: that nothing was written is more than such an operation can say.
func (p *pooled) unread(err error) error { return settled(afterDoubt(true, err)) }

// sees: each statement sees what was committed before it.
func (p *pooled) sees(context.Context, func(db.DBTX) error) error { return nil }

// atomically runs the statements again where they gave way to another transaction
// in a deadlock, for one.
func (p *pooled) atomically(ctx context.Context, statements func(db.DBTX) error) error {
	return p.untilItStays(ctx, func(tx pgx.Tx) error { return meaning(ctx, statements(tx), reading) }, func(int) {})
}

// enter begins an operation, unless it comes from inside of a unit of work on the
// same pool, which may have the connection or the row that it would wait for.
func (p *pooled) enter(ctx context.Context) error {
	if inside.Is(ctx, p.link.pool) {
		return &repo.InsideTxError{}
	}
	return p.gate.enter()
}

// retried runs an operation until it succeeds, fails for good, or was tried
// often enough.
func (p *pooled) retried(ctx context.Context, operation func() error) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.gate.leave()
	for attempt := 1; ; attempt++ {
		err := operation()
		if !isPassing(err) || ctx.Err() != nil || !pause(ctx, attempt) {
			return settled(err)
		}
		p.mend(ctx, err)
	}
}

// bound runs operations in a transaction that somebody else ends. Whatever
// fails in it, the commit is not the operation's: its outcome is never in doubt.
type bound struct{ tx pgx.Tx }

func (b bound) read(ctx context.Context, statements func(db.DBTX) error) error {
	return meaning(ctx, statements(b.tx), reading)
}

func (b bound) write(ctx context.Context, statement func(db.DBTX) error) error {
	if err := b.cover(ctx); err != nil {
		return err
	}
	return b.uncover(b.read(ctx, statement))
}

func (b bound) writeByID(ctx context.Context, statement func(db.DBTX) error) error {
	return b.write(ctx, statement)
}

// append first takes the lock with a statement of its own when messages may be
// stored already. The append looks for them with the eyes of its beginning, and
// a wait for the lock would let it miss what was committed meanwhile. It would
// then fail on the unique key, which spoils the transaction.
func (b bound) append(ctx context.Context, a *appending) (row db.MessageAppendRow, err error) {
	err = b.read(ctx, func(q db.DBTX) (err error) { // which records nothing
		if a.repeatable {
			if _, err := queries.SessionLock(ctx, q, toUUID(a.sessionID)); err != nil {
				return err
			}
		}
		row, err = sendAppend(ctx, q, a.params())
		return err
	})
	return row, err
}

func (b bound) unread(err error) error { return err }

func (b bound) sees(ctx context.Context, statements func(db.DBTX) error) error {
	return b.read(ctx, statements)
}

// atomically uses a savepoint: a caller who goes on after an error commits
// nothing of what failed.
func (b bound) atomically(ctx context.Context, statements func(db.DBTX) error) error {
	if err := b.cover(ctx); err != nil {
		return err
	}
	savepoint, err := b.tx.Begin(ctx)
	if err != nil {
		return translate(ctx, err, reading)
	}
	defer rollback(ctx, savepoint)
	if err := statements(savepoint); err != nil {
		return b.uncover(meaning(ctx, err, reading))
	}
	return translate(ctx, savepoint.Commit(ctx), reading)
}
