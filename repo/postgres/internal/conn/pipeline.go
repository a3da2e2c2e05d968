package conn

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/seed-df90f812/agentstore/db"
)

// Pipeline sends statements of several generated functions in one round trip. The
// generated code can send only statements of one kind together.
//
// Each step calls a generated function. A step is called twice: the first time it hands
// over its statement, and stops with an error; the second time it reads the answer.
type Pipeline struct {
	Steps []func(db.DBTX) error
}

// Add adds a step.
func (p *Pipeline) Add(step func(db.DBTX) error) { p.Steps = append(p.Steps, step) }

// Ask adds a query whose answer is put where the pointer says. A query with several arguments takes a struct.
func Ask[Argument, Answer any](
	ctx context.Context, p *Pipeline, answer *Answer,
	query func(context.Context, db.DBTX, Argument) (Answer, error), argument Argument,
) {
	p.Add(func(q db.DBTX) (err error) {
		*answer, err = query(ctx, q, argument)
		return err
	})
}

// Do adds a statement without an answer.
func Do[Argument any](
	ctx context.Context, p *Pipeline, statement func(context.Context, db.DBTX, Argument) error, argument Argument,
) {
	p.Add(func(q db.DBTX) error { return statement(ctx, q, argument) })
}

// Exec adds a statement that has no arguments and no answer.
func (p *Pipeline) Exec(ctx context.Context, sql string) {
	p.Add(func(q db.DBTX) error {
		_, err := q.Exec(ctx, sql)
		return err
	})
}

// Begin adds what begins a transaction of several round trips at read committed. The server ends it, and the
// connection, if nothing comes for five seconds: a process that is stopped in between keeps its rows locked for no
// longer.
func (p *Pipeline) Begin(ctx context.Context) {
	p.Exec(ctx, "begin isolation level read committed")
	p.Exec(ctx, "set local idle_in_transaction_session_timeout = '5s'")
}

// sender sends statements together, as all connections and transactions do.
type sender interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// Send sends the statements on a connection or in a transaction, and returns the first error.
func (p *Pipeline) Send(ctx context.Context, q db.DBTX) error {
	batch := &pgx.Batch{}
	for _, step := range p.Steps {
		if err := step(piped{batch: batch}); !errors.Is(err, errRecorded) {
			return err
		}
	}
	results := q.(sender).SendBatch(ctx, batch)
	var err error
	for _, step := range p.Steps {
		if err = step(piped{results: results}); err != nil {
			break
		}
	}
	if closed := results.Close(); closed != nil && (err == nil || IsNoRows(err)) {
		err = closed // of the commit: no row is not the answer then
	}
	return err
}

// SendAndCommit sends statements on the connection of their transaction, and its commit behind them. An error with
// which the server answered one of them says that nothing was written: it is an [Answer].
func (p *Pipeline) SendAndCommit(ctx context.Context, pg *pgx.Conn) error {
	calls := 0
	p.Add(func(q db.DBTX) error {
		calls++ // the second time the others were answered
		_, err := q.Exec(ctx, "commit")
		return err
	})
	err := p.Send(ctx, pg)
	// An end of the connection may be a pooler's answer, which does not know what the server has done.
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok && calls < 2 && IsAnswered(pgErr) {
		return &Answer{Translate(ctx, pgErr, Reading)}
	}
	return err
}

// After runs a query behind a statement that locks, in one round trip and one
// transaction. At read committed each statement has a snapshot of its own: the query
// sees what was committed while the lock was waited for.
func After[Answer any](
	ctx context.Context, q db.DBTX, lock func(db.DBTX) error, query func(db.DBTX) (Answer, error),
) (answer Answer, err error) {
	p := &Pipeline{}
	p.Add(lock)
	p.Add(func(q db.DBTX) (err error) {
		answer, err = query(q)
		return err
	})
	err = p.Send(ctx, q)
	return answer, err
}

// errRecorded ends a step whose statement was handed over.
var errRecorded = errors.New("recorded")

// piped is what a step gets: first it puts the statement into a batch, and then it has the batch's answers, in their
// order.
type piped struct {
	batch   *pgx.Batch
	results pgx.BatchResults
}

func (p piped) recorded(sql string, args []any) bool {
	if p.results == nil {
		p.batch.Queue(sql, args...)
	}
	return p.results == nil
}

func (p piped) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if p.recorded(sql, args) {
		return pgconn.CommandTag{}, errRecorded
	}
	return p.results.Exec()
}

func (p piped) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	if p.recorded(sql, args) {
		return nil, errRecorded
	}
	return p.results.Query()
}

func (p piped) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	if p.recorded(sql, args) {
		return failedRow{errRecorded}
	}
	return p.results.QueryRow()
}
