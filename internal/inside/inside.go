// Package inside marks the context that a transaction passes to its function, so that
// a store can refuse operations outside the transaction that would wait for its locks or
// its connection.
package inside

import (
	"context"
	"sync/atomic"

	"github.com/seed-df90f812/agentstore/repo"
)

type key struct{}

// mark is the transaction to which a context belongs.
type mark struct {
	of    any
	ended atomic.Bool
	outer *mark
}

// Enter returns the context for the function of a transaction, and a function that
// ends the transaction. of is comparable and identifies what the transaction is on,
// such as a pool.
func Enter(ctx context.Context, of any) (inner context.Context, leave func()) {
	m := &mark{of: of}
	m.outer, _ = ctx.Value(key{}).(*mark)
	return context.WithValue(ctx, key{}, m), func() { m.ended.Store(true) }
}

// Is reports whether ctx belongs to a transaction on of that has not ended.
func Is(ctx context.Context, of any) bool {
	return has(ctx, func(m *mark) bool { return m.of == of })
}

// Any reports whether ctx belongs to a transaction that has not ended, on whatever.
func Any(ctx context.Context) bool {
	return has(ctx, func(*mark) bool { return true })
}

func has(ctx context.Context, is func(*mark) bool) bool {
	m, _ := ctx.Value(key{}).(*mark)
	for ; m != nil; m = m.outer {
		if is(m) && !m.ended.Load() {
			return true
		}
	}
	return false
}

// Error returns the error of a store that is used with such a context.
func Error() error {
	return &repo.InvalidError{
		Field:  "context",
		Reason: "belongs to a transaction of this store: use the repositories that InTx passes",
	}
}
