package memory

import (
	"context"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// topic is what is waited for.
type topic struct {
	// id is a session or a stream that changes, or has another stream.
	id repo.ID
	// ends is a lease that ends.
	ends repo.LeaseKey
	// claims: a claim may find something. leases: a lease may be free.
	claims, leases bool
}

// watch is what callers wait for that have found nothing new.
type watch struct {
	topic   topic
	changed chan struct{} // closed when it may have changed
	waiting int
}

// wake wakes waiting callers. The operation that changes something holds mu, so that they
// see its result. Changes in a transaction are seen when it is committed.
func (t *tables) wake(about topic) {
	if w := t.watches[about]; w != nil && t.base == nil {
		delete(t.watches, about)
		close(w.changed)
	}
}

// watch registers a waiting caller. It ends with await.
func (t *tables) watch(about topic) *watch {
	w := t.watches[about]
	if w == nil {
		w = &watch{topic: about, changed: make(chan struct{})}
		t.watches[about] = w
	}
	w.waiting++
	return w
}

// await waits for a change, or for a time unless that is zero. Errors: the context's, repo.ErrClosed.
func (h *handle) await(ctx context.Context, w *watch, due time.Time) (err error) {
	t := h.tables
	t.clock.reach(due, func(reached <-chan struct{}) {
		select {
		case <-w.changed:
		case <-reached:
		case <-ctx.Done():
			err = ctx.Err()
		case <-h.closing:
			err = repo.ErrClosed
		}
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.waiting--; w.waiting == 0 && t.watches[w.topic] == w {
		delete(t.watches, w.topic)
	}
	return err
}

// followed is what a follower finds: what is new, or else what to wait for.
type followed[Item any] struct {
	items []Item
	// watch is nil if there is nothing to wait for, and due is when the wait ends at the latest.
	watch *watch
	due   time.Time
	// ended: nothing comes after the items. fault is why, if that is an error.
	ended bool
	fault error
}

// follow yields what look finds, one after the other, until look fails, or it has ended.
func follow[Item any](ctx context.Context, h *handle, yield func(Item, error) bool,
	look func() (followed[Item], error),
) {
	for {
		found, err := look()
		if err == nil && found.watch != nil {
			err = h.await(ctx, found.watch, found.due)
		}
		for _, item := range found.items {
			if err = ctx.Err(); err != nil {
				break
			}
			if !yield(item, nil) {
				return
			}
		}
		if err == nil && found.ended {
			if err = found.fault; err == nil {
				return
			}
		}
		if err != nil {
			var none Item
			yield(none, err)
			return
		}
	}
}
