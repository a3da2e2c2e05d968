package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// The bounds of writes that are committed together, and of those that wait. The
// latter are far above what a busy service needs.
var appendLimits = scheduler.Limits{
	// Bytes cost the same in a group as alone. So a group of large messages is
	// small, and leaves messages for the next connection.
	GroupRows: 2000, GroupBytes: 256 << 10,
	// So appends to other sessions are in the next group even if one session has
	// thousands of appends.
	ShareRows: 500,
	Items:     1 << 16, Rows: 1 << 20, Bytes: 256 << 20,
	Callers: 1 << 16,
}

type (
	writesGroup = commit.Group[repo.ID, *turn]
	task        = commit.Task[repo.ID, *turn]
)

// appends is an executor that makes turns. It sets their outcomes.
type appends interface {
	append(ctx context.Context, a *turn) error
}

var (
	_ appends = (*pooled)(nil)
	_ appends = bound{}
)

// appender commits turns in groups. A group never waits for a counter row. A session whose row
// is locked waits separately, in a group of its own.
type appender struct {
	*commit.Committer[repo.ID, *turn]

	conns  conn.Conns
	budget *commit.Budget
	// tell says what is new, after each commit.
	tell  func(...news)
	hints hints[repo.ID]
	// scopes are those that others hold.
	scopes *heldScopes
	// making is a lock: one caller at a time creates scopes.
	making chan struct{}
}

func newAppender(pool *pooled) *appender {
	p := &appender{conns: pool.conns, budget: pool.budget, tell: pool.changed, making: make(chan struct{}, 1)}
	p.scopes = newHeldScopes(pool.conns, pool.budget)
	p.Committer = commit.New(pool.budget, commit.Config[repo.ID, *turn]{
		Kind: "append", Limits: appendLimits, Waits: true, Shares: (*turn).sharesScope,
		Commit: func(g *writesGroup) { (&writer{writesGroup: g, appender: p}).commit() },
	})
	return p
}

func (p *appender) close() {
	p.Close()
	p.scopes.close()
}

func (p *pooled) append(ctx context.Context, a *turn) error {
	return p.submitted(ctx, "append", a, func() error { return committerOf(p, newAppender).make(ctx, a) })
}

// append waits for the counter row.
func (b bound) append(ctx context.Context, a *turn) error {
	err := b.read(ctx, func(q db.DBTX) error {
		if isLone(a) {
			if made, err := appendOneBehind(ctx, q, a); made || err != nil {
				return err
			}
		}
		return appendInTx(ctx, q, a)
	})
	if err == nil {
		b.changed(newsOf(a)...)
	}
	return err
}

// A group makes a write, or says what is in its way. That is for the caller to clear, who holds up
// nobody meanwhile, and submits it again.
var (
	// errNoScope: a scope's row does not exist. A group does not create it, because it could
	// have to wait for somebody else who creates it.
	errNoScope = errors.New("the scope has no row")
	// errScopeHeld: a shared scope is locked elsewhere.
	errScopeHeld = errors.New("a shared scope is locked elsewhere")
)

// make has a turn made in a group, as often as something was in its way.
func (p *appender) make(ctx context.Context, a *turn) error {
	for {
		if err := p.awaitScopes(ctx, a); err != nil {
			return inDoubt(a, err)
		}
		err := p.Submit(ctx, a.SessionID, a)
		switch {
		case errors.Is(err, errNoScope):
			err = p.makeScopes(ctx, a)
		case errors.Is(err, errScopeHeld):
			continue // it is waited for first
		case isAhead(err):
			err = p.catchUp(ctx, err)
		default:
			return err
		}
		if err != nil {
			return inDoubt(a, err)
		}
	}
}

// inDoubt is the error of a turn that is not made, which an earlier attempt may have made.
func inDoubt(a *turn, err error) error { return conn.Settled(conn.AfterDoubt(a.Unsure, err)) }

// awaitScopes waits while a scope that a turn changes is known to be held.
func (p *appender) awaitScopes(ctx context.Context, a *turn) error {
	if len(a.State.Scopes) == 0 {
		return nil
	}
	var patience time.Duration
	if most := a.met.patience; most > 0 && !a.Skipped().IsZero() {
		patience = max(1, most-time.Since(a.Skipped()))
	}
	switch {
	case p.scopes.await(ctx, a, patience):
		return nil
	case ctx.Err() != nil:
		return conn.Translate(ctx, ctx.Err(), conn.Unsent)
	}
	return &conn.Error{Sentinel: repo.ErrContention, Cause: conn.ErrLockTimeout}
}

// makeScopes creates the rows of a turn's scopes that a group found missing. A transaction
// that is creating one of them may stay open for long. So the call waits for it in short
// attempts, of which there is one at a time, and leaves the pool's connections to others,
// until its patience is at an end.
func (p *appender) makeScopes(ctx context.Context, a *turn) error {
	begun, patience := time.Now(), a.met.patience
	for attempt := 1; ; attempt++ {
		err := p.tryScopes(ctx, a.met.missing)
		switch {
		case conn.Violates(err, stateSession):
			return sessionNotFound(a.SessionID)
		case conn.HasCode(err, conn.LockNotAvailable):
			if patience > 0 && time.Since(begun) >= patience {
				return &conn.Error{Sentinel: repo.ErrContention, Cause: conn.ErrLockTimeout}
			}
			attempt = 1
		case !conn.IsPassing(err):
			return err
		}
		again := conn.Pause(ctx, attempt)
		if ctx.Err() != nil {
			return conn.Translate(ctx, ctx.Err(), conn.Unsent)
		}
		if !again {
			return err
		}
	}
}

func (p *appender) tryScopes(ctx context.Context, scopes []repo.Scope) error {
	select {
	case p.making <- struct{}{}:
	case <-ctx.Done():
		return conn.Translate(ctx, ctx.Err(), conn.Unsent)
	}
	defer func() { <-p.making }()
	// A scope at version 0 is as none: whether it was created is all one.
	return p.conns.Run(ctx, conn.Reading, func(q db.DBTX) error {
		p := &conn.Pipeline{}
		p.Add(func(q db.DBTX) error { return queries.TurnLimitWait(ctx, q) })
		lockScopes(ctx, p, scopes)
		return p.Send(ctx, q)
	})
}

// catchUp tells a session of the lease in a transaction of its own, whose outcome does not
// matter: the write is tried again.
func (p *appender) catchUp(ctx context.Context, refused error) error {
	for attempt := 1; ; attempt++ {
		err := p.conns.Run(ctx, conn.Reading, func(q db.DBTX) error { return catchUp(ctx, q, refused) })
		if !conn.IsPassing(err) || ctx.Err() != nil || !conn.Pause(ctx, attempt) {
			return err
		}
	}
}
