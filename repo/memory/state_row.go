package memory

import (
	"slices"
	"strings"

	"github.com/seed-df90f812/agentstore/repo"
)

// scopeRow is a scope of state. Like a sessionRow it is changed in place; a transaction
// changes a copy.
type scopeRow struct {
	// id names a shared scope in the audit trail.
	id      repo.ID
	version int64
	values  table[string, repo.StateValue]
}

func (r *scopeRow) overlay() *scopeRow {
	return &scopeRow{id: r.id, version: r.version, values: r.values.overlay()}
}

func (r *scopeRow) commit() { r.values.commit() }

// from returns the values with a prefix whose keys are after a key, in the order of the
// keys.
func (r *scopeRow) from(prefix, after string) []*repo.StateValue {
	found := r.values.where(func(v *repo.StateValue) bool { return v.Key > after && strings.HasPrefix(v.Key, prefix) })
	slices.SortFunc(found, compareKeys)
	return found
}

func compareKeys(a, b *repo.StateValue) int { return strings.Compare(a.Key, b.Key) }

// scope returns a scope that a caller names: see scopeOf. Error: repo.NotFoundError, for a
// session.
func (h *handle) scope(t *tables, scope repo.Scope) (r *scopeRow, err error) {
	if scope.Name == "" {
		_, err = h.session(t, scope.SessionID)
	}
	return t.scopeOf(scope), err
}

// scopeOf returns a scope to be read. It is at version 0 if it does not exist.
func (t *tables) scopeOf(scope repo.Scope) *scopeRow {
	if r := t.scopes.get(scope); r != nil {
		return r
	}
	return &scopeRow{}
}

// editScope returns a scope to be changed. It creates it at version 0 if it does not
// exist.
func (t *tables) editScope(scope repo.Scope) *scopeRow {
	if t.scopes.get(scope) == nil {
		t.scopes.put(scope, &scopeRow{id: repo.NewID()})
	}
	return edit(&t.scopes, scope)
}

// removeScope deletes a scope and returns the number of its keys.
func (t *tables) removeScope(scope repo.Scope) (keys int64) {
	r := t.scopeOf(scope)
	for range r.values.all() {
		keys++
	}
	t.lastErased = max(t.lastErased, r.version)
	t.scopes.remove(scope)
	return keys
}
