package write

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// ChangeState changes scopes as a turn does, without a session: in a transaction of two round trips on a connection of
// the pool, or in the caller's. It waits for the scopes, and returns those that it has changed, in the order of the
// changes.
func ChangeState(ctx context.Context, q db.DBTX, changes rules.StateChanges) ([]repo.ScopeVersion, error) {
	look, store := &conn.Pipeline{}, &conn.Pipeline{}
	alone, own := q.(conn.Alone)
	if own {
		q = alone.Conn
		defer conn.RollbackOpen(ctx, alone.Conn)
		look.Begin(ctx)
	}
	l, a := newLedger(nil), &Turn{Turn: &rules.Turn{State: changes}}
	for _, scope := range changes.Scopes {
		l.scopes[scope.Scope] = nil
	}
	l.lockScopes(ctx, look, waiting{scopes: true, creates: true})
	l.readValues(ctx, look, []*Turn{a})
	err := look.Send(ctx, q)
	if conn.Violates(err, convert.StateSession) {
		// A session was deleted while its scope was being created. The next attempt finds
		// that it is missing.
		err = &conn.Error{Sentinel: repo.ErrContention, Cause: err}
	}
	if err != nil {
		return nil, &conn.Answer{Err: conn.Translate(ctx, err, conn.Reading)}
	}
	for _, scope := range changes.Scopes {
		if l.scopes[scope.Scope] == nil {
			return nil, &conn.Answer{Err: convert.SessionNotFound(scope.Scope.SessionID)}
		}
	}
	made, err := a.Add(l.rowsOf(a, &counterRow{}))
	if err != nil {
		return nil, &conn.Answer{Err: err}
	}
	l.acceptState(made)
	l.writeState(ctx, store)
	if own {
		return made.Scopes, store.SendAndCommit(ctx, alone.Conn)
	}
	return made.Scopes, store.Send(ctx, q)
}
