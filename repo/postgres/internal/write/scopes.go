package write

import (
	"context"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// scopesAt returns scopes as arrays, with hints of where their rows are.
func (l *ledger) scopesAt(scopes []repo.Scope) db.TurnLockScopesParams {
	in := convert.Scopes(scopes)
	hints := convert.Each(scopes, func(scope repo.Scope) pgtype.TID { return l.hintOf(keyOf(scope, "")) })
	return db.TurnLockScopesParams{SessionIds: in.SessionIds, Namespaces: in.Namespaces, Names: in.Names, Hints: hints}
}

// LockScopes adds the statements that lock scopes for a change, in the order of
// rules.CompareScopes, and create missing ones.
func LockScopes(ctx context.Context, p *conn.Pipeline, scopes []repo.Scope) {
	var own []pgtype.UUID
	var shared db.StateLockSharedParams
	for _, scope := range scopes {
		if scope.Name == "" {
			own = append(own, convert.UUID(scope.SessionID))
			continue
		}
		shared.Ids = append(shared.Ids, convert.UUID(repo.NewID()))
		namespace, name := rules.SplitView(scope.Name)
		shared.Namespaces, shared.Names = append(shared.Namespaces, namespace), append(shared.Names, name)
	}
	if len(own) > 0 {
		p.Add(func(q db.DBTX) error { return queries.StateLockOwn(ctx, q, own) })
	}
	if len(shared.Names) > 0 {
		p.Add(func(q db.DBTX) error { return queries.StateLockShared(ctx, q, shared) })
	}
}
