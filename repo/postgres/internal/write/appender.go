package write

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/hints"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/scheduler"
)

// Limits are the bounds of writes that are committed together, and of writes that wait.
// The latter are far above what a busy service needs.
var Limits = scheduler.Limits{
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
	writesGroup = commit.Group[repo.ID, *Turn]
	task        = commit.Task[repo.ID, *Turn]
)

// Appender commits turns in groups. A group never waits for a counter row. A session whose row
// is locked waits separately, in a group of its own.
type Appender struct {
	*commit.Committer[repo.ID, *Turn]

	conns  conn.Conns
	budget *commit.Budget
	// tell is told of turns that were made, after each commit.
	tell  func(...*Turn)
	hints hints.Hints[repo.ID]
	// scopes are the scopes that others hold.
	scopes *lockedScopes
	// making is a lock: one caller at a time creates scopes.
	making chan struct{}
}

// New returns an appender. The caller must close it.
func New(conns conn.Conns, budget *commit.Budget, tell func(...*Turn)) *Appender {
	p := &Appender{conns: conns, budget: budget, tell: tell, making: make(chan struct{}, 1)}
	p.scopes = newLockedScopes(conns, budget)
	p.Committer = commit.New(budget, commit.Config[repo.ID, *Turn]{
		Kind: "append", Limits: Limits, Waits: true, Shares: (*Turn).sharesScope,
		Commit: func(g *writesGroup) { (&writer{writesGroup: g, Appender: p}).commit() },
	})
	return p
}

// Close waits for the groups under way. Nothing may be submitted any more.
func (p *Appender) Close() {
	p.Committer.Close()
	p.scopes.close()
}

// A group makes a write, or says what is in its way. The caller clears that, delaying no other
// write meanwhile, and submits it again.
var (
	// errNoScope: a scope's row does not exist, and another transaction is creating it.
	errNoScope = errors.New("the scope has no row")
	// errScopeLocked: a shared scope is locked elsewhere.
	errScopeLocked = errors.New("a shared scope is locked elsewhere")
)

// Make has a turn made in a group, as often as something was in its way.
func (p *Appender) Make(ctx context.Context, a *Turn) error {
	var made []repo.Scope
	for {
		if err := p.awaitScopes(ctx, a); err != nil {
			return inDoubt(a, err)
		}
		err := p.Submit(ctx, a.key(), a)
		switch {
		case errors.Is(err, errNoScope):
			if id := ofNoSession(a.met.missing, made); !id.IsZero() {
				return inDoubt(a, convert.SessionNotFound(id))
			}
			made, err = p.makeScopes(ctx, a)
		case errors.Is(err, errScopeLocked):
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

// ofNoSession returns the session whose scope is missing although its row was made: the session does not exist. Zero:
// none.
func ofNoSession(missing, made []repo.Scope) repo.ID {
	for _, scope := range missing {
		if scope.Name == "" && slices.Contains(made, scope) {
			return scope.SessionID
		}
	}
	return repo.ID{}
}

// inDoubt is the error of a turn that is not made, which an earlier attempt may have made.
func inDoubt(a *Turn, err error) error { return conn.Settled(conn.AfterDoubt(a.Unsure, err)) }

// awaitScopes waits while a scope that a turn changes is known to be locked.
func (p *Appender) awaitScopes(ctx context.Context, a *Turn) error {
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
// until its patience is at an end. It returns them, unless a session was deleted meanwhile.
func (p *Appender) makeScopes(ctx context.Context, a *Turn) ([]repo.Scope, error) {
	begun, patience := time.Now(), a.met.patience
	for attempt := 1; ; attempt++ {
		err := p.tryScopes(ctx, a.met.missing)
		switch {
		case conn.Violates(err, convert.StateSession):
			return nil, nil
		case conn.HasCode(err, conn.LockNotAvailable):
			if patience > 0 && time.Since(begun) >= patience {
				return nil, &conn.Error{Sentinel: repo.ErrContention, Cause: conn.ErrLockTimeout}
			}
			attempt = 1
		case !conn.IsPassing(err):
			return a.met.missing, err
		}
		again := conn.Pause(ctx, attempt)
		if ctx.Err() != nil {
			return nil, conn.Translate(ctx, ctx.Err(), conn.Unsent)
		}
		if !again {
			return nil, err
		}
	}
}

func (p *Appender) tryScopes(ctx context.Context, scopes []repo.Scope) error {
	select {
	case p.making <- struct{}{}:
	case <-ctx.Done():
		return conn.Translate(ctx, ctx.Err(), conn.Unsent)
	}
	defer func() { <-p.making }()
	// A scope at version 0 is as none: whether it was created is all one.
	return p.conns.Run(ctx, conn.Reading, func(q db.DBTX) error {
		p := &conn.Pipeline{}
		limitWait(ctx, p, briefly, nil)
		LockScopes(ctx, p, scopes)
		return p.Send(ctx, q)
	})
}

// catchUp tells a session of the lease in a transaction of its own, whose outcome does not
// matter: the write is tried again.
func (p *Appender) catchUp(ctx context.Context, refused error) error {
	return p.conns.Retry(ctx, func() error {
		return p.conns.Run(ctx, conn.Reading, func(q db.DBTX) error { return catchUp(ctx, q, refused) })
	})
}
