package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-df90f812/agentstore/internal/inside"
	"github.com/seed-df90f812/agentstore/repo"
)

// InTx implements repo.Store. It runs fn once: no transaction conflicts with
// another here. The package's comment says which operations wait meanwhile.
func (s *Store) InTx(ctx context.Context, fn func(context.Context, repo.Repositories) error) error {
	u, err := s.at.begin(ctx)
	if err != nil {
		return err
	}
	// Deferred, so that it also runs when fn panics, or ends its goroutine as
	// t.FailNow does.
	defer u.end()
	inner, leave := inside.Enter(ctx, s.core)
	defer leave()
	if err := fn(inner, repositories{u}); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	u.commit()
	return nil
}

// repositories are those of a unit of work.
type repositories struct{ unit *unit }

func (r repositories) Sessions() repo.Sessions { return &sessions{r.unit} }
func (r repositories) Actions() repo.Actions   { return &actions{r.unit} }
func (r repositories) Plans() repo.Plans       { return &plans{r.unit} }
func (r repositories) Audit() repo.Audit       { return &audit{r.unit} }

// unit is a unit of work: a view of its changes on top of the committed state,
// which stays as it is until the commit. It is also its own access. Store.mu
// guards it.
type unit struct {
	store   *core
	changes map[repo.ID]*change
	ended   bool

	actionShelf *overlay[string, repo.Action]
	planShelf   *overlay[repo.ID, planRecord]
	linkShelf   *overlay[repo.ID, []repo.ID]
	entryShelf  *overlay[entryKey, repo.SealedEntry]
	queued      []entryKey
}

func (u *unit) actions() shelf[string, repo.Action] { return u.actionShelf }
func (u *unit) plans() shelf[repo.ID, planRecord]   { return u.planShelf }
func (u *unit) sealed(key entryKey) bool {
	_, sealed := u.store.tables.log.byEntry[key]
	return sealed
}

func (u *unit) entries() shelf[entryKey, repo.SealedEntry] { return u.entryShelf }
func (u *unit) queue(key entryKey)                         { u.queued = append(u.queued, key) }

func (u *unit) links() shelf[repo.ID, []repo.ID] { return u.linkShelf }

// change is what a unit of work made of one session.
type change struct {
	// committed is the record outside of the unit; nil: there is none.
	committed *record
	// current is the record within it; nil: it was removed.
	current *record
	// fresh: current was inserted by the unit. Otherwise it is a copy of
	// committed, with more messages perhaps.
	fresh bool
}

// begin waits for the turn and opens a unit of work.
func (d *direct) begin(ctx context.Context) (*unit, error) {
	if _, err := d.read(ctx); err != nil {
		return nil, err
	}
	d.unlock()
	if err := d.waitTurn(ctx); err != nil {
		return nil, err
	}
	s := d.core
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released {
		<-s.turn
		return nil, repo.ErrClosed
	}
	s.open = true
	return &unit{
		store: s, changes: map[repo.ID]*change{},
		actionShelf: newOverlay(s.tables.actions), planShelf: newOverlay(s.tables.plans), linkShelf: newOverlay(s.tables.links),
		entryShelf: newOverlay(s.tables.entries),
	}, nil
}

// commit makes the changes the committed state, in one step.
func (u *unit) commit() {
	s := u.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, c := range u.changes {
		if c.committed != nil && c.current != nil && !c.fresh {
			*c.committed = *c.current
			continue
		}
		if c.committed != nil {
			s.tables.remove(id)
		}
		if c.current != nil {
			s.tables.insert(c.current)
		}
	}
	u.changes = nil
	u.actionShelf.commit()
	u.planShelf.commit()
	u.linkShelf.commit()
	u.entryShelf.commit()
	s.tables.log.unsealed = append(s.tables.log.unsealed, u.queued...)
}

// end gives the turn on. Changes that were not committed are dropped.
func (u *unit) end() {
	s := u.store
	s.mu.Lock()
	for _, c := range u.changes {
		c.undo()
	}
	u.changes = nil
	u.ended = true
	s.open = false
	s.mu.Unlock()
	<-s.turn
}

// undo takes out of the shared index what the unit put there. The shared array
// needs nothing: who appends next overwrites it.
func (c *change) undo() {
	if c.committed == nil || c.current == nil || c.fresh {
		return
	}
	for _, m := range c.current.messages[len(c.committed.messages):] {
		delete(c.current.byID, m.ID)
	}
	for _, added := range c.current.usages[len(c.committed.usages):] {
		delete(c.current.usageByID, added.id)
	}
}

func (u *unit) read(ctx context.Context) (view, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	u.store.mu.Lock()
	if u.ended {
		u.store.mu.Unlock()
		return nil, fmt.Errorf("%w: the unit of work has ended", repo.ErrClosed)
	}
	return u, nil
}

// write waits for nobody: the unit has the turn.
func (u *unit) write(ctx context.Context) (view, error) { return u.read(ctx) }

func (u *unit) unlock() { u.store.mu.Unlock() }

func (u *unit) find(id repo.ID) *record {
	if c := u.changes[id]; c != nil {
		return c.current
	}
	return u.store.tables.sessions[id]
}

func (u *unit) edit(id repo.ID) *record { return u.change(id).current }

// change returns the entry of a session, which starts with what is committed.
func (u *unit) change(id repo.ID) *change {
	c := u.changes[id]
	if c == nil {
		c = &change{committed: u.store.tables.sessions[id]}
		if c.committed != nil {
			current := *c.committed
			c.current = &current
		}
		u.changes[id] = c
	}
	return c
}

func (u *unit) insert(r *record) {
	c := u.change(r.session.ID)
	c.current, c.fresh = r, true
}

func (u *unit) remove(id repo.ID) {
	c := u.change(id)
	c.undo()
	c.current, c.fresh = nil, false
}

// list merges: what the unit has changed stands in its changes alone.
func (u *unit) list(q *query) []*record {
	found := u.store.tables.list(q, func(id repo.ID) bool { return u.changes[id] != nil })
	for _, c := range u.changes {
		if c.current != nil && q.selects(c.current) {
			found = append(found, c.current)
		}
	}
	slices.SortFunc(found, func(a, b *record) int { return older(b, a) })
	return found[:min(len(found), q.limit)]
}

func (u *unit) now() time.Time { return u.store.now() }
