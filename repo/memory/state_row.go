package memory

import (
	"bytes"

	"github.com/seed-df90f812/agentstore/repo"
)

// scopeRow is a scope of state. Like a sessionRow it is changed in place; a transaction
// changes a copy.
type scopeRow struct {
	// id names a shared scope in the audit trail.
	id      repo.ID
	version int64
	values  table[string, repo.StateValue]
	// committed is the row that this one is a transaction's copy of, or nil.
	committed *scopeRow
}

// commit makes a transaction's copy the committed row.
func (r *scopeRow) commit() {
	committed := r.committed
	r.values.commit()
	r.committed = nil
	*committed = *r
}

// scope returns a scope, or nil if it does not exist. Error: repo.NotFoundError, for a
// session.
func (h *handle) scope(t *tables, scope repo.Scope) (*scopeRow, error) {
	if scope.Name == "" {
		if _, err := h.session(t, scope.SessionID); err != nil {
			return nil, err
		}
	}
	return t.scopes.get(scope), nil
}

// editScope returns a scope to be changed. It creates it at version 0 if it does not
// exist.
func (t *tables) editScope(scope repo.Scope) *scopeRow {
	r := t.scopes.get(scope)
	switch {
	case r == nil:
		r = &scopeRow{id: repo.NewID()}
		t.scopes.put(scope, r)
	case t.base != nil && t.scopes.rows[scope] == nil:
		copied := *r
		copied.values, copied.committed = r.values.overlay(), r
		r = &copied
		t.scopes.put(scope, r)
	}
	return r
}

// removeScope deletes a scope and returns the number of its keys.
func (t *tables) removeScope(scope repo.Scope) (keys int64) {
	r := t.scopes.get(scope)
	if r == nil {
		return 0
	}
	for range r.values.all() {
		keys++
	}
	t.lastErased = max(t.lastErased, r.version)
	t.scopes.remove(scope)
	return keys
}

// commitScopes makes an overlay's changes the committed state.
func (t *tables) commitScopes() {
	for scope, r := range t.scopes.rows {
		switch {
		case r == nil:
			t.base.scopes.remove(scope)
		case r.committed != nil:
			r.commit()
		default:
			t.base.scopes.put(scope, r)
		}
	}
}

func copyStateValue(v *repo.StateValue) repo.StateValue {
	copied := *v
	copied.Value = bytes.Clone(v.Value)
	return copied
}
