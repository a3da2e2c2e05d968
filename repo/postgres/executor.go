package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/inside"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/cache"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/claim"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/write"
)

// executor runs an operation's statements. There are two: on the pool, where
// each operation is a transaction of its own, and in a transaction.
type executor interface {
	// read runs statements that change nothing.
	read(ctx context.Context, statements func(db.DBTX) error) error
	// readTogether runs statements that change nothing in one round trip, with the ones between the first and the last,
	// unless all see one snapshot.
	readTogether(ctx context.Context, first, between, last conn.Pipeline) error
	// write runs one statement that changes something.
	write(ctx context.Context, statement func(db.DBTX) error) error
	// writeByID is like write, for a statement that an id makes idempotent.
	writeByID(ctx context.Context, statement func(db.DBTX) error) error
	// unread translates the error of reading data that the operation found stored,
	// perhaps by an earlier attempt of its own.
	unread(err error) error
	// sees makes sure that what the operation found is current: it runs statements
	// that fail if the transaction sees an older state of the database.
	sees(ctx context.Context, statements func(db.DBTX) error) error
	// atomically runs several statements that change all or nothing. It may run
	// them more than once.
	atomically(ctx context.Context, statements func(db.DBTX) error) error
	// known returns the id of the session with a key, if that is known without a statement, and
	// learn notes it. noted returns err, and forgets the session that it says is missing: every
	// such error of an operation goes through it.
	known(ctx context.Context, key repo.SessionKey) (repo.ID, bool, error)
	learn(key repo.SessionKey, id repo.ID)
	noted(err error) error
	// branched reports whether a session is known to have branches, or to be a fork, and branch notes it: its transcript
	// is not all of its messages.
	branched(id repo.ID) bool
	branch(id repo.ID)
	// changed says what an operation has changed, other than by append, for its followers and waiting callers.
	changed(news ...news)

	// append makes a turn, and sets its outcome.
	append(ctx context.Context, a *write.Turn) error
	// appendParts appends parts. If they may be stored already, it returns errRepeated.
	appendParts(ctx context.Context, a *partsAppending) error
	// transition makes a transition with others. Not done and without an error: it is left to the caller.
	transition(ctx context.Context, one *moving) error
	claim(ctx context.Context, asked repo.Claim) ([]claim.Claimed, error)
}

var (
	_ executor = (*pooled)(nil)
	_ executor = bound{}
)

// pooled runs each operation on a connection of the pool, as a transaction of
// its own.
type pooled struct {
	*keyCache

	conns      conn.Conns
	budget     *commit.Budget
	committers *committers
	live       *live
	viewed     *known
	actions    *cache.Cache[repo.ActionName, repo.Action]
	gate       *gate
}

func (p *pooled) read(ctx context.Context, statements func(db.DBTX) error) error {
	return p.retried(ctx, func() error { return p.conns.Run(ctx, conn.Reading, statements) })
}

func (p *pooled) readTogether(ctx context.Context, statements, _, last conn.Pipeline) error {
	statements.Steps = slices.Concat(statements.Steps, last.Steps)
	return p.read(ctx, func(q db.DBTX) error {
		alone := q.(conn.Alone)
		alone.Snapshot = true
		return statements.Send(ctx, alone)
	})
}

func (p *pooled) write(ctx context.Context, statement func(db.DBTX) error) error {
	return p.retried(ctx, func() error { return p.conns.Run(ctx, conn.Committing, statement) })
}

// errNotMoved: the statement found no row in the required state.
var errNotMoved = errors.New("not in the required state")

func (p *pooled) writeByID(ctx context.Context, statement func(db.DBTX) error) error {
	var unsure bool
	return p.retried(ctx, func() error {
		err := p.conns.Run(ctx, conn.Committing, statement)
		switch {
		case errors.Is(err, repo.ErrUnknownOutcome):
			unsure = true
		case unsure && (errors.Is(err, repo.ErrNotFound) || errors.Is(err, errNotMoved)):
			// It may exist once the earlier attempt arrives.
			return &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: conn.ErrLateAttempt}
		case unsure && errors.Is(err, errExists):
			return &conn.Error{Sentinel: repo.ErrUnknownOutcome, Cause: errEarlierAttempt}
		}
		return conn.AfterDoubt(unsure, err)
	})
}

// submitted has a write made by a committer, by an operation that submits it.
func (p *pooled) submitted(ctx context.Context, kind string, write commit.Item, operation func() error) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.gate.leave()
	return commit.Observed(ctx, p.conns.Observer, kind, write, operation)
}

// unread returns ErrUnknownOutcome where the operation cannot know that nothing was
// written.
func (p *pooled) unread(err error) error { return conn.Settled(conn.AfterDoubt(true, err)) }

// sees: each statement sees what was committed before it.
func (p *pooled) sees(context.Context, func(db.DBTX) error) error { return nil }

// atomically runs the statements again if the database aborted them because of another
// transaction, for example in a deadlock.
func (p *pooled) atomically(ctx context.Context, statements func(db.DBTX) error) error {
	return p.untilItStays(ctx, func(tx pgx.Tx) error { return conn.Meaning(ctx, statements(tx), conn.Reading) },
		func(int) {})
}

func (p *pooled) changed(news ...news) { p.live.changed(news...) }

// enter begins an operation. It refuses one inside a transaction on the same pool,
// which may hold the connection or the row for which the operation would wait.
func (p *pooled) enter(ctx context.Context) error {
	if inside.Is(ctx, p.conns.Pool) {
		return inside.Error()
	}
	return p.gate.enter()
}

// usable returns the error with which enter would refuse an operation.
func (p *pooled) usable(ctx context.Context) error {
	err := p.enter(ctx)
	if err == nil {
		p.gate.leave()
	}
	return err
}

// retried runs an operation until it succeeds, fails permanently, or has used up its
// attempts.
func (p *pooled) retried(ctx context.Context, operation func() error) error {
	if err := p.enter(ctx); err != nil {
		return err
	}
	defer p.gate.leave()
	return conn.Settled(p.conns.Retry(ctx, operation))
}

// bound runs operations in a transaction that its owner ends. Since operations do not
// commit, the outcome of a failed one is never in doubt.
type bound struct {
	*keyCache // the store's. Nil: there is no store

	tx pgx.Tx
	// news is what is to be told after the commit. Nil: it is told to none here.
	news *[]news
}

func (b bound) read(ctx context.Context, statements func(db.DBTX) error) error {
	return conn.Meaning(ctx, statements(b.tx), conn.Reading)
}

func (b bound) readTogether(ctx context.Context, statements, between, last conn.Pipeline) error {
	statements.Steps = slices.Concat(statements.Steps, between.Steps, last.Steps)
	return b.read(ctx, func(q db.DBTX) error { return statements.Send(ctx, q) })
}

func (b bound) write(ctx context.Context, statement func(db.DBTX) error) error {
	return b.read(ctx, statement)
}

func (b bound) writeByID(ctx context.Context, statement func(db.DBTX) error) error {
	return b.write(ctx, statement)
}

func (b bound) changed(news ...news) {
	if b.news != nil {
		*b.news = append(*b.news, news...)
	}
}

func (b bound) unread(err error) error { return err }

func (b bound) sees(ctx context.Context, statements func(db.DBTX) error) error {
	return b.read(ctx, statements)
}

// atomically uses a savepoint: a caller that continues after an error commits nothing
// of the failed operation.
func (b bound) atomically(ctx context.Context, statements func(db.DBTX) error) error {
	savepoint, err := b.tx.Begin(ctx)
	if err != nil {
		return conn.Translate(ctx, err, conn.Reading)
	}
	defer conn.Rollback(ctx, savepoint)
	if err := statements(savepoint); err != nil {
		return conn.Meaning(ctx, err, conn.Reading)
	}
	return conn.Translate(ctx, savepoint.Commit(ctx), conn.Reading)
}

// way is one of an executor's ways to run statements: read, write or writeByID.
type way func(ctx context.Context, statements func(db.DBTX) error) error

// run runs one query and returns its answer. A query with several arguments takes a struct.
func run[Argument, Answer any](
	ctx context.Context, way way, query func(context.Context, db.DBTX, Argument) (Answer, error), argument Argument,
) (Answer, error) {
	return ask(ctx, way, func(q db.DBTX) (Answer, error) { return query(ctx, q, argument) })
}

// ask is like run, for any function that queries.
func ask[Answer any](ctx context.Context, way way, query func(db.DBTX) (Answer, error)) (answer Answer, err error) {
	err = way(ctx, func(q db.DBTX) (err error) {
		answer, err = query(q)
		return err
	})
	return answer, err
}
