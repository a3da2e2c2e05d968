package postgres

import (
	"context"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/write"
)

// Change sends one pipeline. Its error may be repo.ErrUnknownOutcome: no id makes a
// change idempotent.
func (s *state) Change(ctx context.Context, changes []repo.StateChange, conditions ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
	checked, err := rules.NormalizeStateChanges(repo.ID{}, changes, conditions)
	if err = s.check(ctx, scopesOf(checked.Scopes), err); err != nil {
		return nil, err
	}
	checked.InView(s.view)
	made, err := ask(ctx, s.exec.write, func(q db.DBTX) ([]repo.ScopeVersion, error) { return changeState(ctx, q, checked) })
	rules.ScopesOutOfView(made)
	return made, s.exec.noted(rules.ErrorOutOfView(err))
}

// changeState locks the scopes and makes the changes, in statements of one transaction:
// the last one must see what was committed while the lock was waited for. It returns
// the changed scopes in the order of the changes.
func changeState(ctx context.Context, q db.DBTX, changes rules.StateChanges) ([]repo.ScopeVersion, error) {
	var rows []db.StateChangeRow
	params, p := changeParams(changes), &conn.Pipeline{}
	write.LockScopes(ctx, p, scopesOf(changes.Scopes))
	p.Add(func(q db.DBTX) (err error) {
		rows, err = queries.StateChange(ctx, q, params)
		return err
	})
	err := p.Send(ctx, q)
	if conn.Violates(err, convert.StateSession) {
		// A session was deleted while its scope was being created. The next attempt finds
		// that it is missing.
		return nil, &conn.Error{Sentinel: repo.ErrContention, Cause: err}
	}
	if err != nil {
		return nil, err
	}
	return changed(changes, rows)
}

func scopesOf(scopes []rules.StateScope) []repo.Scope {
	return convert.Each(scopes, func(s rules.StateScope) repo.Scope { return s.Scope })
}

// changed returns the answer of StateChange.
func changed(changes rules.StateChanges, rows []db.StateChangeRow) ([]repo.ScopeVersion, error) {
	versions := make(map[repo.Scope]int64, len(rows))
	for _, row := range rows {
		if row.Outcome != "done" {
			return nil, &conn.Answer{Err: faultOf(changes, row)}
		}
		versions[changes.Scopes[row.Place-1].Scope] = row.Version
	}
	return changes.Versions(versions), nil
}

// faultOf returns the error of a fault that StateChange found.
func faultOf(changes rules.StateChanges, row db.StateChangeRow) error {
	switch row.Outcome {
	case "missing":
		return convert.SessionNotFound(changes.Scopes[row.Place-1].Scope.SessionID)
	case "scope":
		return changes.Scopes[row.Place-1].Conflict(row.Version)
	case "key":
		return rules.StateConflict(changes.Changes[row.Place-1], row.Version)
	default:
		return rules.NotIncremented(changes.Changes[row.Place-1], row.Outcome == "range")
	}
}

// anyVersion is used for a condition that was not given.
const anyVersion = -1

func changeParams(changes rules.StateChanges) db.StateChangeParams {
	scopes := scopesOf(changes.Scopes)
	columns, places := convert.NewScopes(scopes), convert.Places(scopes)
	params := db.StateChangeParams{SessionIds: columns.Sessions, Namespaces: columns.Namespaces, Names: columns.Names}
	for _, scope := range changes.Scopes {
		params.ScopeExpecteds = append(params.ScopeExpecteds, versionOrAny(scope.IfVersion))
		params.ScopeChangeds = append(params.ScopeChangeds, scope.Changed)
	}
	for _, c := range changes.Changes {
		params.Scopes = append(params.Scopes, places[c.Scope])
		params.Keys = append(params.Keys, c.Key)
		params.Ops = append(params.Ops, string(c.Op))
		params.NewValues = append(params.NewValues, string(c.Value))
		params.Bys = append(params.Bys, c.By)
		params.Expecteds = append(params.Expecteds, versionOrAny(c.IfVersion))
	}
	return params
}

func versionOrAny(version *int64) int64 {
	if version == nil {
		return anyVersion
	}
	return *version
}
