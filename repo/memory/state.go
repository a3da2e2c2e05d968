package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// state is repo.State.
type state struct{ *handle }

func (s state) Get(ctx context.Context, scope repo.Scope, key string) (repo.StateValue, error) {
	return run(ctx, unless(rules.CheckStateGet(scope, key), s.read), func(t *tables) (repo.StateValue, error) {
		r, err := s.scope(t, rules.ScopeInView(s.options.view, scope))
		if err != nil {
			return repo.StateValue{}, err
		}
		stored := r.values.get(key)
		if stored == nil {
			return repo.StateValue{}, &repo.NotFoundError{Kind: "state", Scope: scope, Name: key}
		}
		return copyOf(stored), nil
	})
}

func (s state) Read(ctx context.Context, scopes ...repo.Scope) ([]repo.ScopeState, error) {
	scopes = slices.Clone(scopes)
	return run(ctx, unless(rules.CheckStateRead(scopes), s.read),
		func(t *tables) ([]repo.ScopeState, error) { return s.readScopes(t, scopes) })
}

// readScopes returns scopes with all of their keys. Errors: repo.NotFoundError,
// repo.LimitExceededError.
func (h *handle) readScopes(t *tables, scopes []repo.Scope) ([]repo.ScopeState, error) {
	states := make([]repo.ScopeState, len(scopes))
	keys, size := 0, 0
	for i, scope := range scopes {
		r, err := h.scope(t, rules.ScopeInView(h.options.view, scope))
		if err != nil {
			return nil, err
		}
		states[i].Scope, states[i].Version = scope, r.version
		for _, stored := range r.from("", "") {
			keys++
			size += len(stored.Key) + len(stored.Value)
			states[i].Values = append(states[i].Values, copyOf(stored))
		}
	}
	if keys > limits.MaxStateReadKeys || size > limits.MaxStateBytes {
		return nil, &repo.LimitExceededError{Kind: "keys or bytes of state", Limit: limits.MaxStateReadKeys}
	}
	return states, nil
}

func (s state) List(ctx context.Context, scope repo.Scope, prefix string, page repo.Page) (repo.StatePage, error) {
	list, err := rules.StateList(s.options.view, scope, prefix, page)
	return run(ctx, unless(err, s.read), func(t *tables) (repo.StatePage, error) {
		r, err := s.scope(t, rules.ScopeInView(s.options.view, scope))
		if err != nil || r.version == 0 {
			return repo.StatePage{}, err
		}
		values, err := pageOf(list, r.from(prefix, list.After), compareKeys, copyOf)
		return repo.StatePage{Version: r.version, Values: values.Items, Next: values.Next}, err
	})
}

func (s state) Change(ctx context.Context, changes []repo.StateChange,
	conditions ...repo.ScopeVersion,
) ([]repo.ScopeVersion, error) {
	checked, err := rules.NormalizeStateChanges(repo.ID{}, changes, conditions)
	checked.InView(s.options.view)
	return run(ctx, unless(err, s.write), func(t *tables) ([]repo.ScopeVersion, error) {
		now, rows := t.now(), &rules.TurnRows{}
		t.readState(checked, now, rows)
		for i, scope := range checked.Scopes {
			_, err := s.scope(t, scope.Scope)
			if err = cmp.Or(err, scope.Conflict(rows.Versions[i])); err != nil {
				return nil, err
			}
		}
		changed, values, err := checked.Apply(rows)
		if err != nil {
			return nil, err
		}
		t.writeState(changed, values, now)
		rules.ScopesOutOfView(changed)
		return changed, nil
	})
}

// readState reads what changes of state depend on.
func (t *tables) readState(changes rules.StateChanges, now time.Time, rows *rules.TurnRows) {
	rows.Now = now
	if now.UnixMicro() <= t.lastErased { // within one reading of the clock
		rows.Now = time.UnixMicro(t.lastErased + 1)
	}
	for _, scope := range changes.Scopes {
		rows.Versions = append(rows.Versions, t.scopeOf(scope.Scope).version)
	}
	for _, change := range changes.Changes {
		rows.Values = append(rows.Values, t.scopeOf(change.Scope).values.get(change.Key))
	}
}

// writeState makes changes that were decided.
func (t *tables) writeState(scopes []repo.ScopeVersion, values []rules.StateWrite, now time.Time) {
	for _, scope := range scopes {
		t.editScope(scope.Scope).version = scope.Version
	}
	for _, w := range values {
		r := t.scopes.get(w.Scope)
		if w.Value == nil {
			r.values.remove(w.Key)
		} else {
			r.values.put(w.Key, &repo.StateValue{Key: w.Key, Value: w.Value, Version: w.Version, UpdatedAt: now})
		}
	}
}

func (s state) Erase(ctx context.Context, scopeName string) (int64, error) {
	scope := rules.ScopeInView(s.options.view, repo.Scope{Name: scopeName})
	return run(ctx, unless(rules.CheckErase(scopeName), s.write), func(t *tables) (int64, error) {
		r := t.scopes.get(scope)
		if r == nil {
			return 0, nil
		}
		keys := t.removeScope(scope)
		id := r.id // as PostgreSQL writes a uuid
		details := fmt.Appendf(nil, `{"entity":"state_scope","id":"%x-%x-%x-%x-%x","keys":%d}`, id[:4], id[4:6], id[6:8],
			id[8:10], id[10:], keys)
		t.recordEvent(t.now(), repo.AuditEntry{
			Type:      events.EntityDeleted,
			Namespace: cmp.Or(s.options.view, repo.DefaultNamespace), Details: details,
		})
		return keys, nil
	})
}
