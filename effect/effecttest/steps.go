package effecttest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/effect"
	"github.com/seed-df90f812/agentstore/repo"
)

// ending is a store whose caller's context ends before or after one of its operations.
type ending struct {
	repo.Store

	end    context.CancelFunc
	at     int64
	before bool
	ops    atomic.Int64
}

func (e *ending) step(do func()) {
	ends := e.ops.Add(1) == e.at
	if ends && e.before {
		e.end()
	}
	do()
	if ends {
		e.end()
	}
}

func (e *ending) State() repo.State { return endingState{e.Store.State(), e} }

func (e *ending) InTx(ctx context.Context, fn func(context.Context, repo.Repositories) error) (err error) {
	e.step(func() { err = e.Store.InTx(ctx, fn) })
	return err
}

type endingState struct {
	repo.State

	e *ending
}

func (s endingState) Get(ctx context.Context, scope repo.Scope, key string) (value repo.StateValue, err error) {
	s.e.step(func() { value, err = s.State.Get(ctx, scope, key) })
	return value, err
}

func (s endingState) Change(ctx context.Context, changes []repo.StateChange, conditions ...repo.ScopeVersion) (made []repo.ScopeVersion, err error) {
	s.e.step(func() { made, err = s.State.Change(ctx, changes, conditions...) })
	return made, err
}

// testSteps: wherever the caller's context ends, the remote is called once at most by itself, and what is stored says so.
func testSteps(t *testing.T, w *world) {
	store := w.store
	policies := map[string]effect.Policy{
		"plain":  {},
		"permit": {Permit: func(context.Context, repo.Repositories) error { return nil }},
		"ask":    {Ask: func(context.Context, repo.Repositories, effect.Effect) error { return nil }},
	}
	for name, policy := range policies {
		for at := range int64(12) {
			at, before := at/2+1, at%2 > 0
			w.session, w.calls = w.newSession(), atomic.Int64{}
			ctx, cancel := context.WithCancel(t.Context())
			if name == "ask" { // an unknown effect is looked at
				w.unknown("a")
			}
			_, _ = effect.Once(ctx, &ending{Store: store, end: cancel, at: at, before: before}, w.key("a"), arguments, policy, w.do)
			cancel()
			called := w.calls.Load()
			w.age(t, time.Hour)
			outcome, err := w.once("a", effect.Policy{})
			of, is := errors.AsType[*effect.Error](err)
			switch {
			case err == nil && string(outcome.Result) == `{"receipt":1}`:
			case is && of.Effect.State == effect.StateUnknown && w.calls.Load() == called:
			default:
				t.Errorf("%s, before %v %d: %+v, %v", name, before, at, outcome, err)
			}
			if w.calls.Load() > 1 {
				t.Errorf("%s, before %v %d: called %d times", name, before, at, w.calls.Load())
			}
		}
	}
}

// testElsewhere: a view of another tenant, and a transaction, have nothing of an effect.
func testElsewhere(t *testing.T, w *world) {
	w.append("a")
	w.unknown("a")
	if views, is := w.store.(interface {
		In(namespace string) repo.Store
	}); is {
		for _, namespace := range []string{"empty", ""} {
			view, errs := views.In(namespace), [5]error{}
			_, errs[0] = effect.Once(t.Context(), view, w.key("a"), arguments, honours, w.do)
			_, errs[1] = effect.List(t.Context(), view, w.session, repo.Page{})
			_, errs[2] = effect.Crossed(t.Context(), view, w.session, -1)
			_, errs[3] = effect.Resolve(t.Context(), view, w.key("a"), effect.DidNotHappen())
			_, _, errs[4] = effect.Fork(t.Context(), view, w.session, 0, repo.NewSession{Key: "fork"})
			for i, err := range errs {
				if !errors.Is(err, repo.ErrNotFound) && (namespace != "" || !errors.Is(err, repo.ErrInvalid)) {
					t.Errorf("%q, %d: %v", namespace, i, err)
				}
			}
		}
	}
	if err := w.store.InTx(t.Context(), func(ctx context.Context, _ repo.Repositories) error {
		_, err := effect.Once(ctx, w.store, w.key("b"), arguments, effect.Policy{}, w.do)
		return err
	}); !errors.Is(err, repo.ErrInvalid) {
		t.Error(err)
	}
	// A record that is rolled back is none.
	rolled := errLost
	if err := w.store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
		_, err := effect.Resolve(ctx, tx, w.key("a"), effect.Happened(nil))
		return errors.Join(err, rolled)
	}); !errors.Is(err, rolled) || w.stored("a").State != effect.StateUnknown {
		t.Errorf("%v: %+v", err, w.stored("a"))
	}
	w.called(1)
}
