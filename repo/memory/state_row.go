package memory

import (
	"bytes"

	"github.com/seed-df90f812/agentstore/repo"
)

// scopeRow is a scope of state. Like a sessionRow it is changed in place; a transaction
// changes a copy.
type scopeRow struct {
	scope   repo.Scope
	version int64
	values  table[string, repo.StateValue]
	// committed is the row that this one is a transaction's copy of, or nil.
	committed *scopeRow
}

// commit makes a transaction's copy the committed row.
func (r *scopeRow) commit() {
	committed := r.committed
	r.values.commit()
	r.committed = committed.committed
	*committed = *r
}

// scope returns a scope, or nil if it does not exist. Error: repo.NotFoundError, for a
// session.
func (t *tables) scope(scope repo.Scope) (*scopeRow, error) {
	if scope.Name == "" {
		if _, err := t.session(scope.SessionID); err != nil {
			return nil, err
		}
	}
	if r := t.scopes.get(scope.ID()); r != nil && r.scope == scope {
		return r, nil
	}
	return nil, nil
}

// editScope returns a scope to be changed. It creates it at version 0 if it does not
// exist.
func (t *tables) editScope(id repo.ID, scope repo.Scope) *scopeRow {
	r := t.scopes.get(id)
	switch {
	case r == nil:
		r = &scopeRow{scope: scope}
		t.scopes.put(id, r)
	case t.base != nil && t.scopes.rows[id] == nil:
		copied := *r
		copied.values, copied.committed = r.values.overlay(), r
		r = &copied
		t.scopes.put(id, r)
	}
	return r
}

// removeScope deletes a scope and returns the number of its keys.
func (t *tables) removeScope(id repo.ID, scope repo.Scope) (keys int64) {
	r := t.scopes.get(id)
	if r == nil || r.scope != scope {
		return 0
	}
	for range r.values.all() {
		keys++
	}
	t.lastErased = max(t.lastErased, r.version)
	t.scopes.remove(id)
	return keys
}

// commitScopes makes an overlay's changes the committed state.
func (t *tables) commitScopes() {
	for id, r := range t.scopes.rows {
		switch {
		case r == nil:
			t.base.scopes.remove(id)
		case r.committed != nil && !lacksCopy(t.base.scopes, id):
			r.commit()
		default:
			t.base.scopes.put(id, r)
		}
	}
}

func copyStateValue(v *repo.StateValue) repo.StateValue {
	copied := *v
	copied.Value = bytes.Clone(v.Value)
	return copied
}
