// Package effecttest tests package effect on a store.
package effecttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/effect"
	"github.com/seed-df90f812/agentstore/repo"
)

// Open opens a store, and returns a function that lets time pass for the effects that it has.
type Open func(t *testing.T) (store repo.Store, age func(t *testing.T, d time.Duration))

// Run tests the package on stores.
func Run(t *testing.T, open Open) {
	for name, test := range map[string]func(*testing.T, *world){
		"Result": testResult, "Ends": testEnds, "Panic": testPanic, "AtOnce": testAtOnce, "Naive": testNaive,
		"Overdue": testOverdue, "LateAnswers": testLateAnswers, "Key": testKey, "Window": testWindow,
		"Reconcile": testReconcile, "Reconciled": testReconciledMeanwhile, "Ask": testAsk, "Resolve": testResolve,
		"Permit": testPermit, "Sizes": testSizes, "Turn": testTurn, "Crossed": testCrossed, "Fork": testFork,
		"Import": testImport, "Invalid": testInvalid, "Deleted": testDeleted, "Cancelled": testCancelled, "View": testView,
		"LostAnswers": testLostAnswers, "Work": testWork, "Since": testSince, "Doubt": testDoubt, "Stalled": testStalled,
		"OfAttempt": testOfAttempt, "ForkSends": testForkSends, "Deaf": testDeaf, "OwnMemory": testOwnMemory, "Steps": testSteps,
		"Elsewhere": testElsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, age := open(t)
			w := &world{t: t, store: store, age: age}
			w.session = w.newSession()
			test(t, w)
		})
	}
}

// world has a session, and a remote that counts what it was sent.
type world struct {
	t       *testing.T
	store   repo.Store
	age     func(t *testing.T, d time.Duration)
	session repo.ID
	calls   atomic.Int64
	keys    sync.Map // by idempotency key: how often
}

func (w *world) newSession() repo.ID {
	w.t.Helper()
	session, err := w.store.Sessions().Create(w.t.Context(), repo.NewSession{})
	if err != nil {
		w.t.Fatal(err)
	}
	return session.ID
}

func (w *world) key(call string) effect.Key { return effect.Key{Session: w.session, Call: call} }

// do is a remote that acts at each call.
func (w *world) do(_ context.Context, e effect.Effect) (json.RawMessage, error) {
	w.keys.Store(e.IdempotencyKey, true)
	return json.RawMessage(fmt.Sprintf(`{"receipt":%d}`, w.calls.Add(1))), nil
}

func (w *world) distinctKeys() (count int) {
	w.keys.Range(func(any, any) bool { count++; return true })
	return count
}

var arguments = json.RawMessage(`{"amount":12,"to":"ann"}`)

func (w *world) once(call string, policy effect.Policy) (effect.Outcome, error) {
	return effect.Once(w.t.Context(), w.store, w.key(call), arguments, policy, w.do)
}

// hangs begins a call whose answer does not come until it is let go on, and returns how to await its end. Its time-out is
// an hour, so that it is under way until time is let pass.
func (w *world) hangs(call string) (answer func(json.RawMessage, error), end func() (effect.Outcome, error)) {
	w.t.Helper()
	type ended struct {
		outcome effect.Outcome
		err     error
	}
	sent, answers, ends := make(chan struct{}), make(chan func() (json.RawMessage, error), 1), make(chan ended, 1)
	policy := effect.Policy{Timeout: time.Hour}
	go func() {
		outcome, err := effect.Once(w.t.Context(), w.store, w.key(call), arguments, policy, func(ctx context.Context, e effect.Effect) (json.RawMessage, error) {
			_, _ = w.do(ctx, e)
			close(sent)
			return (<-answers)()
		})
		ends <- ended{outcome, err}
	}()
	<-sent
	return func(result json.RawMessage, err error) {
			answers <- func() (json.RawMessage, error) { return result, err }
		},
		func() (effect.Outcome, error) { e := <-ends; return e.outcome, e.err }
}

// unknown makes an effect unknown, as if its process had died.
func (w *world) unknown(call string) {
	w.t.Helper()
	_, err := effect.Once(w.t.Context(), w.store, w.key(call), arguments, effect.Policy{}, func(ctx context.Context, e effect.Effect) (json.RawMessage, error) {
		_, _ = w.do(ctx, e)
		return nil, errLost
	})
	w.is(err, effect.StateUnknown)
}

var errLost = errors.New("secret: the connection was reset")

// is checks that an error says that an effect is in a state.
func (w *world) is(err error, state effect.State) effect.Error {
	w.t.Helper()
	of, is := errors.AsType[*effect.Error](err)
	if !is || of.Effect.State != state || !errors.Is(err, repo.ErrConflict) {
		w.t.Fatalf("%v, want an effect that is %s", err, state)
	}
	if strings.Contains(err.Error(), "secret") {
		w.t.Errorf("the error says %s", err)
	}
	return *of
}

func (w *world) stored(call string) effect.Effect {
	w.t.Helper()
	list, err := effect.List(w.t.Context(), w.store, w.session, repo.Page{})
	if err != nil {
		w.t.Fatal(err)
	}
	i := slices.IndexFunc(list.Items, func(e effect.Effect) bool { return e.Call == call })
	if i < 0 {
		w.t.Fatalf("no effect %q is stored", call)
	}
	return list.Items[i]
}

func (w *world) called(want int64) {
	w.t.Helper()
	if got := w.calls.Load(); got != want {
		w.t.Errorf("the remote was called %d times, want %d", got, want)
	}
}

// testResult: the same call again is answered from the state, also if its arguments are written otherwise; other arguments are refused.
func testResult(t *testing.T, w *world) {
	first, err := w.once("a/b~c", effect.Policy{})
	if err != nil || first.Repeated || string(first.Result) != `{"receipt":1}` || first.Effect.Attempts != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	for _, same := range []string{string(arguments), "{ \"to\": \"ann\", \"amount\" : 12 }"} {
		again, err := effect.Once(t.Context(), w.store, w.key("a/b~c"), json.RawMessage(same), effect.Policy{}, w.do)
		if err != nil || !again.Repeated || string(again.Result) != `{"receipt":1}` {
			t.Errorf("%+v, %v", again, err)
		}
	}
	for _, other := range []string{`{"amount":12.0,"to":"ann"}`, `{}`, `null`} {
		_, err := effect.Once(t.Context(), w.store, w.key("a/b~c"), json.RawMessage(other), effect.Policy{}, w.do)
		if exists, is := errors.AsType[*repo.ExistsError](err); !is || exists.Field != "arguments" || exists.Kind != "effect" {
			t.Errorf("%s: %v", other, err)
		}
	}
	w.called(1)
	other, err := w.once("a", effect.Policy{})
	if err != nil || string(other.Result) != `{"receipt":2}` || w.distinctKeys() != 2 {
		t.Errorf("another call: %+v, %v", other, err)
	}
	if e := w.stored("a/b~c"); e.State != effect.StateDone || e.ChangedAt.IsZero() || !e.Until.IsZero() {
		t.Errorf("%+v", e)
	}
}

// testEnds: what do says of an error decides whether it is called again.
func testEnds(t *testing.T, w *world) {
	refused := errors.New("secret: the card was refused")
	fails := func(err error) effect.Do {
		return func(context.Context, effect.Effect) (json.RawMessage, error) { w.calls.Add(1); return nil, err }
	}
	for range 2 {
		_, err := effect.Once(t.Context(), w.store, w.key("failed"), nil, effect.Policy{}, fails(fmt.Errorf("pay: %w", effect.Failed(refused))))
		if e := w.is(err, effect.StateFailed); e.Effect.Reason != "pay: secret: the card was refused" {
			t.Errorf("%+v", e)
		}
	}
	w.called(1)
	for range 2 {
		_, err := effect.Once(t.Context(), w.store, w.key("not sent"), nil, effect.Policy{}, fails(effect.NotSent(refused)))
		if !errors.Is(err, refused) {
			t.Error(err)
		}
	}
	w.called(3)
	if e := w.stored("not sent"); e.State != effect.StateFree || e.Attempts != 2 || !e.FirstSent.IsZero() {
		t.Errorf("%+v", e)
	}
	_, err := effect.Once(t.Context(), w.store, w.key("unclear"), nil, effect.Policy{}, fails(refused))
	if w.is(err, effect.StateUnknown); !errors.Is(err, refused) {
		t.Error(err)
	}
	_, err = effect.Once(t.Context(), w.store, w.key("unclear"), nil, effect.Policy{}, fails(refused))
	w.is(err, effect.StateUnknown)
	w.called(4)
	if effect.Failed(nil) != nil || effect.NotSent(nil) != nil {
		t.Error("no error became one")
	}
}

// testPanic: a panic leaves the effect as the death of its process does.
func testPanic(t *testing.T, w *world) {
	func() {
		defer func() { _ = recover() }()
		_, _ = effect.Once(t.Context(), w.store, w.key("a"), arguments, effect.Policy{}, func(context.Context, effect.Effect) (json.RawMessage, error) { panic("a") })
	}()
	_, err := w.once("a", effect.Policy{})
	w.is(err, effect.StateReserved)
	w.age(t, time.Hour)
	_, err = w.once("a", effect.Policy{})
	w.is(err, effect.StateUnknown)
	w.called(0)
}

// testAtOnce: of calls at once one has the remote called, and the others learn that, or get its result.
func testAtOnce(t *testing.T, w *world) {
	for i := range 10 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				outcome, err := w.once(fmt.Sprint(i), effect.Policy{})
				if err != nil {
					if e, is := errors.AsType[*effect.Error](err); !is || e.Effect.State != effect.StateReserved || e.Left <= 0 || e.Effect.Until.IsZero() {
						t.Error(err)
					}
				} else if string(outcome.Result) != fmt.Sprintf(`{"receipt":%d}`, i+1) {
					t.Errorf("%s", outcome.Result)
				}
			})
		}
		all.Wait()
		w.called(int64(i + 1))
	}
}

// naive is what is written without this package: look, call, and store.
func naive(ctx context.Context, store repo.Store, key effect.Key, do effect.Do) (json.RawMessage, error) {
	scope, name := repo.Scope{SessionID: key.Session}, "naive/"+key.Call
	value, err := store.State().Get(ctx, scope, name)
	if err == nil || !errors.Is(err, repo.ErrNotFound) {
		return value.Value, err
	}
	result, err := do(ctx, effect.Effect{Key: key})
	if err == nil {
		_, err = store.State().Change(ctx, []repo.StateChange{{Scope: scope, Key: name, Value: result}})
	}
	return result, err
}

// testNaive: with the naive way two at once pay twice.
func testNaive(t *testing.T, w *world) {
	var all, both sync.WaitGroup
	both.Add(2)
	for range 2 {
		all.Go(func() {
			if _, err := naive(t.Context(), w.store, w.key("a"), func(ctx context.Context, e effect.Effect) (json.RawMessage, error) {
				both.Done()
				both.Wait()
				return w.do(ctx, e)
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	w.called(2)
}
