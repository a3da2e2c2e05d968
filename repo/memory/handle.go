package memory

import (
	"cmp"
	"context"

	"github.com/seed-df90f812/agentstore/internal/inside"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// handle has the repositories of a store, on the committed tables, or of a
// transaction, on its overlay.
type handle struct {
	tables  *tables
	options Options
	// ended is the error of operations after the store was closed or the
	// transaction has ended.
	ended error
	// of is the store of a view, with which the view ends.
	of *handle
	// closing is closed with the store. A transaction has none.
	closing chan struct{}
}

// session returns a session of the view to be read. Error: repo.NotFoundError.
func (h *handle) session(t *tables, id repo.ID) (*sessionRow, error) {
	r := t.sessions.get(id)
	if r == nil || !rules.IsInView(h.options.view, r.Namespace) {
		return nil, sessionNotFound(id)
	}
	return r, nil
}

func sessionNotFound(id repo.ID) error { return &repo.NotFoundError{Kind: "session", ID: id} }

// editSession returns a session of the view to be changed: see tables.editSession. Error: repo.NotFoundError.
func (h *handle) editSession(t *tables, id repo.ID) (*sessionRow, error) {
	if _, err := h.session(t, id); err != nil {
		return nil, err
	}
	return t.editSession(id), nil
}

// plan returns a plan of the view. Error: repo.NotFoundError.
func (h *handle) plan(t *tables, id repo.ID) (*planRow, error) {
	r := t.plans.get(id)
	if r == nil || !rules.IsInView(h.options.view, r.Namespace) {
		return nil, &repo.NotFoundError{Kind: "plan", ID: id}
	}
	return r, nil
}

// Sessions implements repo.Repositories.
func (h *handle) Sessions() repo.Sessions { return sessions{h} }

// Actions implements repo.Repositories.
func (h *handle) Actions() repo.Actions { return actions{h} }

// Plans implements repo.Repositories.
func (h *handle) Plans() repo.Plans { return plans{h} }

// State implements repo.Repositories.
func (h *handle) State() repo.State { return state{h} }

// Leases implements repo.Repositories.
func (h *handle) Leases() repo.Leases { return leases{h} }

// Streams implements repo.Repositories.
func (h *handle) Streams() repo.Streams { return streams{h} }

// Audit implements repo.Repositories.
func (h *handle) Audit() repo.Audit { return audit{h} }

// read locks the tables for an operation that changes nothing. Errors, with nothing
// locked: the context's, repo.InvalidError, ended.
func (h *handle) read(ctx context.Context) (*tables, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := h.tables
	if t.base == nil && inside.Is(ctx, t.core) {
		return nil, inside.Error()
	}
	t.mu.Lock()
	err := h.ended
	if h.of != nil {
		err = cmp.Or(err, h.of.ended)
	}
	if err != nil {
		t.mu.Unlock()
		return nil, err
	}
	return t, nil
}

// write locks the tables for an operation that may change something. It waits for
// the end of a transaction that is open, unless it is the handle's own.
func (h *handle) write(ctx context.Context) (*tables, error) {
	t, err := h.read(ctx)
	if err != nil || t.base != nil || len(t.turn) == 0 {
		return t, err
	}
	t.mu.Unlock()
	if err := t.takeTurn(ctx); err != nil {
		return nil, err
	}
	t.mu.Lock()
	// The turn is released at once: while mu is held, no transaction runs.
	<-t.turn
	return t, nil
}

// usable returns the error that read would return.
func (h *handle) usable(ctx context.Context) error {
	return exec(ctx, h.read, func(*tables) error { return nil })
}
