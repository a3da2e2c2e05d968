package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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
		if r != nil {
			if stored := r.values.get(key); stored != nil {
				return copyStateValue(stored), nil
			}
		}
		return repo.StateValue{}, &repo.NotFoundError{Kind: "state", Scope: scope, Name: key}
	})
}

func (s state) Read(ctx context.Context, scopes ...repo.Scope) ([]repo.ScopeState, error) {
	scopes = slices.Clone(scopes)
	return run(ctx, unless(rules.CheckStateRead(scopes), s.read), func(t *tables) ([]repo.ScopeState, error) { return s.readScopes(t, scopes) })
}

// readScopes returns scopes with all of their keys. Errors: repo.NotFoundError,
// repo.LimitExceededError.
func (h *handle) readScopes(t *tables, scopes []repo.Scope) ([]repo.ScopeState, error) {
	states, found := make([]repo.ScopeState, len(scopes)), make([][]*repo.StateValue, len(scopes))
	keys, size := 0, 0
	for i, scope := range scopes {
		states[i].Scope = scope
		r, err := h.scope(t, rules.ScopeInView(h.options.view, scope))
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue
		}
		states[i].Version = r.version
		found[i] = r.from("", "")
		for _, stored := range found[i] {
			keys++
			size += len(stored.Key) + len(stored.Value)
		}
	}
	if keys > limits.MaxStateReadKeys || size > limits.MaxStateBytes {
		return nil, &repo.LimitExceededError{Kind: "keys or bytes of state", Limit: limits.MaxStateReadKeys}
	}
	for i := range states {
		if len(found[i]) > 0 {
			states[i].Values = each(found[i], copyStateValue)
		}
	}
	return states, nil
}

// from returns the values with a prefix whose keys are after a key, in the order of the
// keys.
func (r *scopeRow) from(prefix, after string) []*repo.StateValue {
	found := r.values.where(func(v *repo.StateValue) bool { return v.Key > after && strings.HasPrefix(v.Key, prefix) })
	slices.SortFunc(found, func(a, b *repo.StateValue) int { return strings.Compare(a.Key, b.Key) })
	return found
}

func (s state) List(ctx context.Context, scope repo.Scope, prefix string, page repo.Page) (repo.StatePage, error) {
	list, err := rules.StateList(s.options.view, scope, prefix, page)
	return run(ctx, unless(err, s.read), func(t *tables) (repo.StatePage, error) {
		r, err := s.scope(t, rules.ScopeInView(s.options.view, scope))
		if err != nil || r == nil {
			return repo.StatePage{}, err
		}
		values, err := rules.PageOf(list, r.from(prefix, list.After), func(v *repo.StateValue) (repo.StateValue, error) { return copyStateValue(v), nil })
		return repo.StatePage{Version: r.version, Values: values.Items, Next: values.Next}, err
	})
}

func (s state) Change(ctx context.Context, changes []repo.StateChange, conditions ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
	checked, err := rules.NormalizeStateChanges(repo.ID{}, changes, conditions)
	checked.InView(s.options.view)
	return run(ctx, unless(err, s.write), func(t *tables) ([]repo.ScopeVersion, error) {
		plan, err := s.planState(t, checked)
		if err != nil {
			return nil, err
		}
		changed := t.changeState(plan, t.now())
		rules.ScopesOutOfView(changed)
		return changed, nil
	})
}

// statePlan is a change of state that was checked against what is stored.
type statePlan struct {
	rules.StateChanges
	// values are the new values of the keys, in the order of the changes; nil removes.
	values []json.RawMessage
}

// planState checks changes against what is stored, and changes nothing. Errors:
// repo.NotFoundError, repo.VersionConflictError, repo.RefusedError.
func (s state) planState(t *tables, changes rules.StateChanges) (statePlan, error) {
	for _, scope := range changes.Scopes {
		r, err := s.scope(t, scope.Scope)
		if err != nil {
			return statePlan{}, err
		}
		var version int64
		if r != nil {
			version = r.version
		}
		if err := scope.Conflict(version); err != nil {
			return statePlan{}, err
		}
	}
	plan := statePlan{changes, make([]json.RawMessage, len(changes.Changes))}
	for i, c := range changes.Changes {
		var stored *repo.StateValue
		if r := t.scopes.get(c.Scope); r != nil {
			stored = r.values.get(c.Key)
		}
		var err error
		if plan.values[i], err = rules.ChangedState(c, stored); err != nil {
			return statePlan{}, err
		}
	}
	return plan, nil
}

// changeState makes the changes of a plan, which cannot fail.
func (t *tables) changeState(plan statePlan, now time.Time) []repo.ScopeVersion {
	versions := make(map[repo.Scope]int64, len(plan.Scopes))
	for _, scope := range plan.Scopes {
		if scope.Changed {
			r := t.editScope(scope.Scope)
			if r.version == 0 && now.UnixMicro() <= t.lastErased { // within one reading of the clock
				r.version = t.lastErased
			}
			r.version = rules.NextStateVersion(r.version, now)
			versions[scope.Scope] = r.version
		}
	}
	for i, c := range plan.Changes {
		r := t.scopes.get(c.Scope)
		if plan.values[i] == nil {
			r.values.remove(c.Key)
		} else {
			r.values.put(c.Key, &repo.StateValue{Key: c.Key, Value: plan.values[i], Version: r.version, UpdatedAt: now})
		}
	}
	return plan.Versions(versions)
}

func (s state) Erase(ctx context.Context, scopeName string) (int64, error) {
	if err := rules.CheckErase(scopeName); err != nil {
		return 0, err
	}
	scope := rules.ScopeInView(s.options.view, repo.Scope{Name: scopeName})
	return run(ctx, s.write, func(t *tables) (int64, error) {
		r := t.scopes.get(scope)
		if r == nil {
			return 0, nil
		}
		keys := t.removeScope(scope)
		id := r.id // as PostgreSQL writes a uuid
		details := fmt.Appendf(nil, `{"entity":"state_scope","id":"%x-%x-%x-%x-%x","keys":%d}`, id[:4], id[4:6], id[6:8], id[8:10], id[10:], keys)
		t.recordEvent(t.now(), repo.AuditEntry{Type: events.EntityDeleted, Namespace: cmp.Or(s.options.view, repo.DefaultNamespace), Details: details})
		return keys, nil
	})
}
