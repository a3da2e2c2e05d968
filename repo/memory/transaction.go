package memory

import (
	"context"
	"fmt"

	"github.com/seed-df90f812/agentstore/internal/inside"
	"github.com/seed-df90f812/agentstore/internal/observed"
	"github.com/seed-df90f812/agentstore/repo"
)

// InTx implements repo.Store. It runs fn once, because transactions in memory never
// conflict. The package's comment says which operations wait meanwhile.
func (s *Store) InTx(ctx context.Context, fn func(context.Context, repo.Repositories) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	c := s.tables.core
	if err := c.takeTurn(ctx); err != nil {
		return err
	}
	tx := &handle{tables: s.tables.overlay(), options: s.options}
	// Deferred, so that it also runs when fn panics, or ends its goroutine as
	// t.FailNow does.
	defer tx.end()
	inner, leave := inside.Enter(ctx, c)
	defer leave()
	if err := fn(inner, tx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	tx.tables.commit()
	return nil
}

// end releases the turn. Changes that were not committed are dropped with the overlay.
func (h *handle) end() {
	t := h.tables
	t.mu.Lock()
	h.ended = fmt.Errorf("%w: the transaction has ended", repo.ErrClosed)
	t.mu.Unlock()
	<-t.turn
}

// IsTx reports whether the repositories belong to a transaction in memory.
func IsTx(r repo.Repositories) bool {
	h, is := observed.Below(r).(*handle)
	return is && h.tables.base != nil
}
