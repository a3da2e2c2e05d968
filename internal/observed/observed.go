// Package observed tells an observer of each operation of a store, whatever the store is. What
// happens inside of an operation the store tells itself.
package observed

import (
	"context"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/observe"
	"github.com/seed-df90f812/agentstore/repo"
)

// Store returns a store whose operations the observer sees. Nil: it is the store itself, and costs
// nothing.
func Store(below repo.Store, to observe.Observer) repo.Store {
	if to == nil {
		return below
	}
	return &store{repositories{below, observer{to: to}}, below}
}

// Tx is like Store, for the repositories of a transaction.
func Tx(below repo.Repositories, to observe.Observer) repo.Repositories {
	if to == nil {
		return below
	}
	return repositories{below, observer{to: to, inTx: true}}
}

// Below returns the repositories whose operations are observed, or the given ones.
func Below(r repo.Repositories) repo.Repositories {
	switch r := r.(type) {
	case *store:
		return r.store
	case repositories:
		return r.below
	}
	return r
}

type store struct {
	repositories
	store repo.Store
}

func (s *store) InTx(ctx context.Context, fn func(context.Context, repo.Repositories) error) error {
	return do0(ctx, s.op("in_tx", none), func(ctx context.Context) error {
		return s.store.InTx(ctx, func(ctx context.Context, tx repo.Repositories) error { return fn(ctx, Tx(tx, s.to)) })
	})
}

func (s *store) Close() error { return s.store.Close() }

type repositories struct {
	below repo.Repositories
	observer
}

func (r repositories) Sessions() repo.Sessions { return sessions{r.observer, r.below.Sessions()} }
func (r repositories) Actions() repo.Actions   { return actions{r.observer, r.below.Actions()} }
func (r repositories) Plans() repo.Plans       { return plans{r.observer, r.below.Plans()} }
func (r repositories) State() repo.State       { return state{r.observer, r.below.State()} }
func (r repositories) Leases() repo.Leases     { return leases{r.observer, r.below.Leases()} }
func (r repositories) Streams() repo.Streams   { return streams{r.observer, r.below.Streams()} }
func (r repositories) Audit() repo.Audit       { return audit{r.observer, r.below.Audit()} }

type observer struct {
	to   observe.Observer
	inTx bool
}

// none is the session of operations that are about none.
var none repo.ID

func (o observer) op(name string, session repo.ID) call {
	return call{o.to, observe.Operation{Name: name, Session: session, InTx: o.inTx}}
}

// use returns a use with the trace of the operation that makes the plan, unless it has one.
func (o observer) use(ctx context.Context, use repo.UseAction) repo.UseAction {
	tracer, is := o.to.(observe.Tracer)
	if !is || use.Trace != "" {
		return use
	}
	// What cannot be stored must not keep the plan from being made.
	if trace := tracer.Trace(ctx); len(trace) <= limits.MaxTraceBytes && utf8.ValidString(trace) &&
		strings.IndexByte(trace, 0) < 0 {
		use.Trace = trace
	}
	return use
}

func (o observer) turn(ctx context.Context, turn repo.Turn) repo.Turn {
	if turn.Action != "" {
		turn.Use = o.use(ctx, turn.Use)
	}
	return turn
}

// call is an operation that is under way.
type call struct {
	to observe.Observer
	op observe.Operation
}

func (c *call) begin(ctx context.Context) context.Context {
	c.op.Begun = time.Now()
	return c.to.Begin(ctx, c.op)
}

// do0 makes an operation without an answer.
func do0(ctx context.Context, c call, operation func(context.Context) error) (err error) {
	ctx = c.begin(ctx)
	ended := observe.Result{Error: "other"} // if it panics
	defer func() { c.to.End(ctx, c.op, ended) }()
	err = operation(ctx)
	ended = observe.ResultOf(err)
	return err
}

// do1 makes one with an answer.
func do1[R any](ctx context.Context, c call, operation func(context.Context) (R, error)) (answer R, err error) {
	err = do0(ctx, c, func(ctx context.Context) (err error) {
		answer, err = operation(ctx)
		return err
	})
	return answer, err
}

// do2 makes one with two.
func do2[Q, R any](ctx context.Context, c call, operation func(context.Context) (Q, R, error)) (first Q, second R,
	err error,
) {
	err = do0(ctx, c, func(ctx context.Context) (err error) {
		first, second, err = operation(ctx)
		return err
	})
	return first, second, err
}

// seq makes one that yields, until the loop over it ends.
func seq[I any](ctx context.Context, c call, items func(context.Context) iter.Seq2[I, error]) iter.Seq2[I, error] {
	return func(yield func(I, error) bool) {
		_ = do0(ctx, c, func(ctx context.Context) (failed error) {
			for item, err := range items(ctx) {
				if failed = err; !yield(item, err) {
					break
				}
			}
			return failed
		})
	}
}
