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

// state implements repo.State.
type state struct{ base }

// check checks that scopes are in the view.
func (s *state) check(ctx context.Context, scopes []repo.Scope, checked error) error {
	if checked != nil || s.view == "" {
		return checked
	}
	others, err := s.others(ctx, convert.Each(scopes, func(scope repo.Scope) repo.ID { return scope.SessionID })...)
	for _, scope := range scopes {
		if _, is := others[scope.SessionID]; is {
			return convert.SessionNotFound(scope.SessionID)
		}
	}
	return err
}

func (s *state) Get(ctx context.Context, scope repo.Scope, key string) (repo.StateValue, error) {
	if err := s.checkSession(ctx, scope.SessionID, rules.CheckStateGet(scope, key)); err != nil {
		return repo.StateValue{}, err
	}
	rows, err := run(ctx, s.exec.read, queries.StateList, db.StateListParams{
		SessionID: convert.SessionOfScope(scope), Namespace: s.namespace(), Name: scope.Name,
		First: key, Before: key + "\x01", MaxRows: 1,
	})
	switch {
	case err != nil:
		return repo.StateValue{}, err
	case !rows[0].Known:
		return repo.StateValue{}, s.exec.noted(convert.SessionNotFound(scope.SessionID))
	case rows[0].Key != key: // none, or a key that begins with it
		return repo.StateValue{}, &repo.NotFoundError{Kind: "state", Scope: scope, Name: key}
	}
	return convert.StateValue(key, rows[0].Value, rows[0].Version, rows[0].UpdatedAt), nil
}

// Read is a read of the sessions whose own scopes are asked for, and of shared ones.
func (s *state) Read(ctx context.Context, scopes ...repo.Scope) ([]repo.ScopeState, error) {
	if err := rules.CheckStateRead(scopes); err != nil {
		return nil, err
	}
	read := repo.ReadSessions{State: true}
	for _, scope := range scopes {
		if scope.Name == "" {
			read.IDs = append(read.IDs, scope.SessionID)
		} else {
			read.Scopes = append(read.Scopes, scope.Name)
		}
	}
	snapshot, err := (&sessions{base: s.base}).Read(ctx, read)
	if err != nil {
		return nil, err
	}
	states := make([]repo.ScopeState, len(scopes))
	for i, scope := range scopes {
		switch {
		case scope.Name != "":
			states[i], snapshot.Scopes = snapshot.Scopes[0], snapshot.Scopes[1:]
		case snapshot.Sessions[0] == nil:
			return nil, convert.SessionNotFound(scope.SessionID)
		default:
			states[i], snapshot.Sessions = snapshot.Sessions[0].State, snapshot.Sessions[1:]
		}
	}
	return states, nil
}

func (s *state) List(ctx context.Context, scope repo.Scope, prefix string, page repo.Page) (repo.StatePage, error) {
	list, err := rules.StateList(s.view, scope, prefix, page)
	if err = s.checkSession(ctx, scope.SessionID, err); err != nil {
		return repo.StatePage{}, err
	}
	var fit fits
	rows, err := run(ctx, fit.in(s.exec.read), queries.StateList, db.StateListParams{
		SessionID: convert.SessionOfScope(scope), Namespace: s.namespace(), Name: scope.Name,
		First: list.Filter.Prefix, After: list.After, Before: list.Filter.End,
		MaxRows: int32(list.Limit) + 1, // one extra row tells whether there is a next page
	})
	if err != nil {
		return repo.StatePage{}, err
	}
	if !rows[0].Known {
		return repo.StatePage{}, s.exec.noted(convert.SessionNotFound(scope.SessionID))
	}
	version := rows[0].ScopeVersion
	if rows[0].Key == "" {
		rows = nil
	}
	values, err := fitted(fit, list, rows, func(row db.StateListRow) (repo.StateValue, error) {
		return convert.StateValue(row.Key, row.Value, row.Version, row.UpdatedAt), nil
	})
	return repo.StatePage{Version: version, Values: values.Items, Next: values.Next}, err
}

func (s *state) Erase(ctx context.Context, scopeName string) (int64, error) {
	if err := rules.CheckErase(scopeName); err != nil {
		return 0, err
	}
	return ask(ctx, s.exec.write, func(q db.DBTX) (keys int64, err error) {
		p := &conn.Pipeline{}
		write.LockScopes(ctx, p, []repo.Scope{rules.ScopeInView(s.view, repo.Scope{Name: scopeName})})
		conn.Ask(ctx, p, &keys, queries.StateErase, db.StateEraseParams{Namespace: s.namespace(), Name: scopeName})
		err = p.Send(ctx, q)
		return keys, err
	})
}

// Change's error may be repo.ErrUnknownOutcome: no id makes a change idempotent.
func (s *state) Change(ctx context.Context, changes []repo.StateChange,
	conditions ...repo.ScopeVersion,
) ([]repo.ScopeVersion, error) {
	checked, err := rules.NormalizeStateChanges(repo.ID{}, changes, conditions)
	scopes := convert.Each(checked.Scopes, func(s rules.StateScope) repo.Scope { return s.Scope })
	if err = s.check(ctx, scopes, err); err != nil {
		return nil, err
	}
	checked.InView(s.view)
	turn := write.NewTurn(&rules.Turn{State: checked})
	if err := s.exec.append(ctx, turn); err != nil {
		return nil, s.exec.noted(rules.ErrorOutOfView(err))
	}
	made := turn.Outcome.Made.Scopes
	rules.ScopesOutOfView(made)
	return made, nil
}
