package memory

import (
	"context"

	"github.com/seed-df90f812/agentstore/internal/inside"
	"github.com/seed-df90f812/agentstore/repo"
)

// access is how the repositories come to a view: the store's own, or that of
// a unit of work.
type access interface {
	// read locks for an operation that only reads, write for one that may
	// change something. Errors: the context's, repo.ErrClosed; then nothing is
	// locked.
	read(ctx context.Context) (view, error)
	write(ctx context.Context) (view, error)
	// unlock ends the operation.
	unlock()
}

// direct is the access of operations that are no part of a unit of work, and
// their view.
type direct struct {
	*core
	// closed refuses operations.
	closed bool
}

func (d *direct) read(ctx context.Context) (view, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if inside.Is(ctx, d.core) {
		return nil, &repo.InsideTxError{}
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, repo.ErrClosed
	}
	return d, nil
}

func (d *direct) write(ctx context.Context) (view, error) {
	if _, err := d.read(ctx); err != nil {
		return nil, err
	}
	if !d.open {
		return d, nil
	}
	d.mu.Unlock()
	if err := d.waitTurn(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	// The turn is given back at once: with mu held, no unit of work begins.
	<-d.turn
	if d.released {
		d.mu.Unlock()
		return nil, repo.ErrClosed
	}
	return d, nil
}

func (d *direct) unlock() { d.mu.Unlock() }
