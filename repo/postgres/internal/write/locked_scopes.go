package write

import (
	"context"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/db"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/commit"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/conn"
	"github.com/seed-df90f812/agentstore/repo/postgres/internal/convert"
)

// lockedScopes are the shared scopes that a group has found locked for longer than it waits. The
// turns that change one of them leave the groups, so that the groups lose no time to it, and
// wait here until it is free: together, and one goroutine looks at all of them.
type lockedScopes struct {
	conns  conn.Conns
	budget *commit.Budget // of the waits in the database

	ctx        context.Context //nolint:containedctx // ends when the store is closed
	cancel     context.CancelFunc
	goroutines sync.WaitGroup

	mu       sync.Mutex
	locked   map[repo.Scope]*lockedScope
	watching bool
}

type lockedScope struct {
	scope repo.Scope
	free  chan struct{} // closed when it is
	since time.Time
	// queued: a statement waits for it in the database.
	queued  bool
	waiting int
	left    time.Time // when the last one that waited has left
}

const (
	lookPause = 20 * time.Millisecond
	// A look that does not wait may find a scope locked each time, if others queue for it. So
	// scopes that are locked for longer are waited for, too.
	queueAfter = 100 * time.Millisecond
	// lockedLinger is how long a scope is looked at without a waiting turn: turns that come
	// in that time cost the groups nothing.
	lockedLinger = time.Second
	// maxLooks bounds the scopes of one look. Others have another time.
	maxLooks = 1000
)

func newLockedScopes(conns conn.Conns, budget *commit.Budget) *lockedScopes {
	h := &lockedScopes{conns: conns, budget: budget, locked: map[repo.Scope]*lockedScope{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

func (h *lockedScopes) close() {
	h.cancel()
	h.goroutines.Wait()
}

// add notes that a scope is locked elsewhere.
func (h *lockedScopes) add(scope repo.Scope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.locked[scope] != nil || h.ctx.Err() != nil {
		return
	}
	now := time.Now()
	h.locked[scope] = &lockedScope{scope: scope, free: make(chan struct{}), since: now, left: now}
	if !h.watching {
		h.watching = true
		h.goroutines.Go(h.watch)
	}
}

// await waits while one of the scopes of a turn is locked, at most for patience, if that is not
// zero. It reports false if that or the context has ended.
func (h *lockedScopes) await(ctx context.Context, a *Turn, patience time.Duration) bool {
	var ended <-chan time.Time
	for s := h.first(a); s != nil; s = h.first(a) {
		if patience != 0 && ended == nil {
			timer := time.NewTimer(patience)
			defer timer.Stop()
			ended = timer.C
		}
		free := false
		select {
		case <-s.free:
			free = true
		case <-ctx.Done():
		case <-ended:
		}
		h.leave(s)
		if !free {
			return false
		}
	}
	return true
}

// first joins the turns that wait for the first scope that is locked, if any.
func (h *lockedScopes) first(a *Turn) *lockedScope {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.locked) == 0 {
		return nil
	}
	for _, scope := range a.State.Scopes {
		if s := h.locked[scope.Scope]; s != nil {
			s.waiting++
			return s
		}
	}
	return nil
}

func (h *lockedScopes) leave(s *lockedScope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.waiting--
	s.left = time.Now()
}

// watch looks until no scope is locked.
func (h *lockedScopes) watch() {
	timer := time.NewTimer(lookPause)
	defer timer.Stop()
	for {
		select {
		case <-h.ctx.Done():
		case <-timer.C:
		}
		looked := h.due()
		if looked == nil {
			return
		}
		h.look(looked)
		timer.Reset(lookPause)
	}
}

// due returns scopes to be looked at, and lets go the ones for which no turn waits. It returns
// nil if there are none.
func (h *lockedScopes) due() (due []*lockedScope) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.locked {
		switch {
		case h.ctx.Err() != nil || s.waiting == 0 && time.Since(s.left) >= lockedLinger:
			h.release(s)
		case len(due) < maxLooks:
			due = append(due, s)
		}
	}
	h.watching = len(due) > 0
	return due
}

func (h *lockedScopes) release(s *lockedScope) {
	if h.locked[s.scope] == s {
		delete(h.locked, s.scope)
		close(s.free)
	}
}

// look releases the scopes that are no longer locked. If the database says nothing of that,
// the waiting turns find out themselves what is wrong.
func (h *lockedScopes) look(due []*lockedScope) {
	var rows []db.TurnLockScopesRow
	err := h.conns.Run(h.ctx, conn.Reading, func(q db.DBTX) (err error) {
		scopes := convert.Each(due, func(s *lockedScope) repo.Scope { return s.scope })
		rows, err = queries.TurnLockScopes(h.ctx, q, (&ledger{}).scopesAt(scopes))
		return err
	})
	locked := map[*lockedScope]bool{}
	for _, row := range rows {
		locked[due[row.Place-1]] = row.Locked
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range due {
		switch {
		case err != nil || !locked[s]:
			h.release(s)
		case !s.queued && time.Since(s.since) >= queueAfter && h.budget.Waits > 0 && h.budget.MayWait():
			select {
			case h.budget.Apart <- struct{}{}:
				s.queued = true
				h.goroutines.Go(func() { h.queue(s) })
			default: // others are waited for
			}
		}
	}
}

// queue waits for a scope for a short time.
func (h *lockedScopes) queue(s *lockedScope) {
	err := h.conns.Run(h.ctx, conn.Reading, func(q db.DBTX) error {
		wait := &conn.Pipeline{}
		limitWait(h.ctx, wait, queued, nil)
		wait.Add(func(q db.DBTX) error { return (&ledger{}).awaitScopes(h.ctx, q, []repo.Scope{s.scope}) })
		return wait.Send(h.ctx, q)
	})
	<-h.budget.Apart
	h.mu.Lock()
	defer h.mu.Unlock()
	s.queued = false
	if !conn.HasCode(err, conn.LockNotAvailable) {
		h.release(s)
	}
}
