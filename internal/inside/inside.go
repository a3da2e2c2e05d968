// Package inside tells that a context is the one that a unit of work gave to its
// function, so that a store can refuse to be used within its own unit of work,
// where it would wait for what that unit has.
package inside

import (
	"context"
	"sync/atomic"
)

type key struct{}

// mark is a unit of work that a context is inside of.
type mark struct {
	of    any
	ended atomic.Bool
	outer *mark
}

// Enter returns the context for the function of a unit of work, and what ends
// it. of, which is comparable, is what the unit of work is on: stores that share
// it share their units of work.
func Enter(ctx context.Context, of any) (inner context.Context, leave func()) {
	m := &mark{of: of}
	m.outer, _ = ctx.Value(key{}).(*mark)
	return context.WithValue(ctx, key{}, m), func() { m.ended.Store(true) }
}

// Is reports whether ctx was made inside of a unit of work on of that has not
// ended.
func Is(ctx context.Context, of any) bool {
	m, _ := ctx.Value(key{}).(*mark)
	for ; m != nil; m = m.outer {
		if m.of == of && !m.ended.Load() {
			return true
		}
	}
	return false
}
