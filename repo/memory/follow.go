package memory

import (
	"context"
	"iter"
	"slices"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// watch is what those wait for who follow a session and have read all of it.
type watch struct {
	changed chan struct{} // closed when the session may have changed
	waiting int
}

// wake wakes those who follow a session. The operation that changes it holds mu, so that
// they see its result. Changes in a transaction are seen when it is committed.
func (t *tables) wake(id repo.ID) {
	if w := t.watches[id]; w != nil && t.base == nil {
		delete(t.watches, id)
		close(w.changed)
	}
}

// watch registers a follower.
func (t *tables) watch(id repo.ID) *watch {
	w := t.watches[id]
	if w == nil {
		w = &watch{changed: make(chan struct{})}
		t.watches[id] = w
	}
	w.waiting++
	return w
}

// unwatch removes a follower that no longer waits.
func (t *tables) unwatch(id repo.ID, w *watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.waiting--; w.waiting == 0 && t.watches[id] == w {
		delete(t.watches, id)
	}
}

// followed is what a follower finds: messages, or else what to wait for.
type followed struct {
	messages []*repo.Message
	watch    *watch
}

func (s sessions) Follow(ctx context.Context, sessionID repo.ID, from int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		began := false
		for next := from; ; {
			found, err := s.look(ctx, sessionID, began, next)
			if err == nil {
				began = true
				err = s.wait(ctx, sessionID, found)
			}
			for _, m := range found.messages {
				if err = ctx.Err(); err != nil {
					break
				}
				if !yield(copiesOf(sessionID, []*repo.Message{m})[0], nil) {
					return
				}
				next = m.Sequence + 1
			}
			if err != nil {
				yield(repo.Message{}, err)
				return
			}
		}
	}
}

// look reads the next messages for a follower, who has found the session before if it began.
func (s sessions) look(ctx context.Context, sessionID repo.ID, began bool, next int64) (followed, error) {
	if err := rules.CheckSequence("from", next); err != nil {
		return followed{}, err
	}
	if s.tables.base != nil {
		return followed{}, rules.CannotFollow()
	}
	return run(ctx, s.read, func(t *tables) (followed, error) {
		r, missing := s.session(t, sessionID)
		if missing != nil {
			return followed{}, rules.Deleted(sessionID, began)
		}
		rest := from(r.all(), next)
		if len(rest) == 0 {
			return followed{watch: t.watch(sessionID)}, nil
		}
		return followed{messages: slices.Clone(rest[:min(streamChunk, len(rest))])}, nil
	})
}

// wait waits until the session may have changed, if nothing was found. Errors: the
// context's, repo.ErrClosed.
func (s sessions) wait(ctx context.Context, sessionID repo.ID, found followed) error {
	if found.watch == nil {
		return nil
	}
	select {
	case <-found.watch.changed:
		return nil
	case <-ctx.Done():
		s.tables.unwatch(sessionID, found.watch)
		return ctx.Err()
	case <-s.closing:
		s.tables.unwatch(sessionID, found.watch)
		return repo.ErrClosed
	}
}
