package agentstore

import (
	"context"
	"sync"
)

// registry shares one value per key: the first opener creates it, and the last to
// release it destroys it. A failure to create it is not cached.
type registry[T any] struct {
	mu      sync.Mutex
	entries map[string]*entry[T]
}

type entry[T any] struct {
	ready  chan struct{} // closed when create has returned
	cancel context.CancelFunc

	// The registry's mutex guards these until ready is closed; value and err
	// do not change after.
	holders int
	made    bool
	value   T
	err     error
}

// open returns the value of key and a function that releases it, which may be
// called more than once. If the value has no holder, create makes it; all callers
// of open meanwhile get its result. create's context lives as long as any of them
// waits, so that a first opener that gives up early does not fail the others.
func (r *registry[T]) open(ctx context.Context, key string, create func(context.Context) (T, error),
	destroy func(T),
) (T, func(), error) {
	r.mu.Lock()
	e := r.entries[key]
	if e == nil {
		createCtx, cancel := context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // make calls it
		e = &entry[T]{ready: make(chan struct{}), cancel: cancel}
		if r.entries == nil {
			r.entries = map[string]*entry[T]{}
		}
		r.entries[key] = e
		go r.make(createCtx, key, e, create, destroy)
	}
	e.holders++
	r.mu.Unlock()

	release := sync.OnceFunc(func() { r.release(key, e, destroy) })
	var none T
	select {
	case <-e.ready:
	case <-ctx.Done():
		release()
		return none, nil, ctx.Err()
	}
	if e.err != nil {
		release()
		return none, nil, e.err
	}
	return e.value, release, nil
}

// make runs create. It ends when create does, at the latest after its context ends.
func (r *registry[T]) make(ctx context.Context, key string, e *entry[T], create func(context.Context) (T, error),
	destroy func(T),
) {
	defer e.cancel()
	value, err := create(ctx)
	r.mu.Lock()
	e.value, e.err, e.made = value, err, true
	if err != nil {
		r.forget(key, e)
	}
	abandoned := e.holders == 0
	r.mu.Unlock()
	close(e.ready)
	if abandoned && err == nil {
		destroy(value)
	}
}

func (r *registry[T]) release(key string, e *entry[T], destroy func(T)) {
	r.mu.Lock()
	e.holders--
	last := e.holders == 0
	if last {
		r.forget(key, e)
	}
	made := e.made
	r.mu.Unlock()
	switch {
	case !last:
	case !made:
		e.cancel() // make destroys the value if create still returns one
	case e.err == nil:
		destroy(e.value)
	}
}

// forget removes the entry, unless a newer one has taken its place.
func (r *registry[T]) forget(key string, e *entry[T]) {
	if r.entries[key] == e {
		delete(r.entries, key)
	}
}
