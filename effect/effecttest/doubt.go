package effecttest

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/effect"
	"github.com/seed-df90f812/agentstore/repo"
)

var honours = effect.Policy{HonoursKey: 24 * time.Hour}

func (w *world) fails(call string, policy effect.Policy, failed error) error {
	_, err := effect.Once(w.t.Context(), w.store, w.key(call), arguments, policy, func(context.Context, effect.Effect) (json.RawMessage, error) { return nil, failed })
	return err
}

// testSince: the window of the key begins when the effect was sent, however long do took to fail.
func testSince(t *testing.T, w *world) {
	answer, end := w.hangs("a")
	w.age(t, 2*time.Hour)
	answer(nil, errLost)
	_, err := end()
	w.is(err, effect.StateUnknown)
	_, err = w.once("a", effect.Policy{HonoursKey: 90 * time.Minute})
	if e := w.is(err, effect.StateUnknown); e.Effect.FirstSent.IsZero() || e.Effect.ChangedAt.Sub(e.Effect.FirstSent) < 2*time.Hour {
		t.Errorf("sent at %v, and unknown at %v", e.Effect.FirstSent, e.Effect.ChangedAt)
	}
	w.called(1)
}

// testDoubt: that nothing was sent the second time says nothing of the first time.
func testDoubt(t *testing.T, w *world) {
	w.unknown("a")
	err := w.fails("a", honours, effect.NotSent(errLost))
	if e := w.is(err, effect.StateUnknown); !errors.Is(err, errLost) || e.Effect.Attempts != 2 {
		t.Errorf("%+v, %v", e, err)
	}
	_, err = w.once("a", effect.Policy{})
	w.is(err, effect.StateUnknown)
	w.called(1)
	if _, err := effect.Resolve(t.Context(), w.store, w.key("a"), effect.DidNotHappen()); err != nil {
		t.Fatal(err)
	}
	if err := w.fails("a", honours, effect.NotSent(errLost)); !errors.Is(err, errLost) || w.stored("a").State != effect.StateFree {
		t.Errorf("%v: %+v", err, w.stored("a"))
	}
}

// stalling is a store whose process stands still after it has looked at the database's clock.
type stalling struct {
	repo.Store

	looked atomic.Bool
}

func (s *stalling) State() repo.State { return stallingState{s.Store.State(), s} }

type stallingState struct {
	repo.State

	s *stalling
}

func (s stallingState) Get(ctx context.Context, scope repo.Scope, key string) (repo.StateValue, error) {
	value, err := s.State.Get(ctx, scope, key)
	if key == "effect-clock" {
		time.Sleep(50 * time.Millisecond) // short: the time of the call is over
		s.s.looked.Store(true)
	}
	return value, err
}

// testStalled: a key whose window may have ended since the process looked at the time is not sent.
func testStalled(t *testing.T, w *world) {
	w.unknown("a")
	stalls := &stalling{Store: w.store}
	w.store = stalls
	_, err := w.once("a", effect.Policy{HonoursKey: time.Hour, Timeout: 50 * time.Millisecond})
	if w.is(err, effect.StateUnknown); !stalls.looked.Load() {
		t.Error("it has not looked")
	}
	w.called(1)
	w.store = &dragging{Store: stalls.Store}
	_, err = w.once("b", effect.Policy{Timeout: 50 * time.Millisecond})
	if e := w.stored("b"); err == nil || e.State != effect.StateFree || !e.FirstSent.IsZero() {
		t.Errorf("%+v, %v", e, err)
	}
	w.called(1)
}

// dragging is a store whose answers take longer than a call may.
type dragging struct{ repo.Store }

func (d *dragging) State() repo.State { return draggingState{d.Store.State()} }

type draggingState struct{ repo.State }

func (s draggingState) Change(ctx context.Context, changes []repo.StateChange, conditions ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
	made, err := s.State.Change(ctx, changes, conditions...)
	time.Sleep(50 * time.Millisecond) // short: the time of the call is over
	return made, err
}

// testOfAttempt: an answer about one sending says nothing of the next one, when it is repeated late.
func testOfAttempt(t *testing.T, w *world) {
	w.unknown("a")
	answer := effect.DidNotHappen().OfAttempt(w.stored("a").Attempts)
	resolve := func() error {
		_, err := effect.Resolve(t.Context(), w.store, w.key("a"), answer)
		return err
	}
	for range 2 {
		if err := resolve(); err != nil {
			t.Fatal(err)
		}
	}
	w.unknown("a")
	if e := w.is(resolve(), effect.StateUnknown); e.Effect.Attempts != 2 {
		t.Errorf("%+v", e)
	}
	if e := w.stored("a"); e.State != effect.StateUnknown {
		t.Errorf("%+v", e)
	}
	answer = effect.DidNotHappen().OfAttempt(2)
	if err := resolve(); err != nil {
		t.Error(err)
	}
}

// testForkSends: what a fork sends is its own: it needs a permit and a key of its own. A fork of a fork has the results of both.
func testForkSends(t *testing.T, w *world) {
	w.append("done")
	w.append("a")
	permits := 0
	policy := effect.Policy{Permit: func(context.Context, repo.Repositories) error { permits++; return nil }}
	if _, err := w.once("done", policy); err != nil {
		t.Fatal(err)
	}
	w.is(w.fails("a", policy, errLost), effect.StateUnknown)
	parent, permitted := w.stored("a"), permits
	for _, key := range []string{"fork", "fork of the fork"} {
		fork, crossed, err := effect.Fork(t.Context(), w.store, w.session, 1, repo.NewSession{Key: key})
		if err != nil || len(crossed) > 0 {
			t.Fatalf("%+v, %v", crossed, err)
		}
		w.session = fork.ID
	}
	outcome, err := w.once("done", policy)
	if err != nil || outcome.Effect.From != parent.Session || !outcome.Repeated {
		t.Errorf("%+v, %v", outcome, err)
	}
	if _, err := effect.Resolve(t.Context(), w.store, w.key("a"), effect.DidNotHappen()); err != nil {
		t.Fatal(err)
	}
	outcome, err = w.once("a", policy)
	if err != nil || permits != permitted+1 || outcome.Effect.IdempotencyKey == parent.IdempotencyKey || !outcome.Effect.FirstSent.IsZero() {
		t.Errorf("%+v with %d permits, %v", outcome, permits, err)
	}
}

// deaf is a store that makes changes of state, and loses the answer of one, and of the read behind it.
type deaf struct {
	repo.Store

	ops  atomic.Int64
	from int64
}

func (d *deaf) State() repo.State { return deafState{d.Store.State(), d} }

type deafState struct {
	repo.State

	d *deaf
}

func (s deafState) lost(err error) error {
	if n := s.d.ops.Add(1); n == s.d.from || n == s.d.from+2 {
		return repo.ErrUnknownOutcome
	}
	return err
}

func (s deafState) Get(ctx context.Context, scope repo.Scope, key string) (repo.StateValue, error) {
	value, err := s.State.Get(ctx, scope, key)
	return value, s.lost(err)
}

func (s deafState) Change(ctx context.Context, changes []repo.StateChange, conditions ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
	made, err := s.State.Change(ctx, changes, conditions...)
	return made, s.lost(err)
}

// testDeaf: a read that fails behind an answer that was lost loses nothing.
func testDeaf(t *testing.T, w *world) {
	store := w.store
	for i := range int64(2) {
		w.store, w.session = &deaf{Store: store, from: i + 1}, w.newSession()
		if outcome, err := w.once("a", effect.Policy{}); err != nil || outcome.Effect.State != effect.StateDone || outcome.Effect.Attempts != 1 {
			t.Errorf("%d: %+v, %v", i, outcome, err)
		}
	}
	w.called(2)
}

// testOwnMemory: what the caller changes during the call is not stored.
func testOwnMemory(t *testing.T, w *world) {
	sequence := int64(3)
	outcome, err := effect.Once(t.Context(), w.store, w.key("a"), arguments, effect.Policy{Sequence: &sequence}, func(context.Context, effect.Effect) (json.RawMessage, error) {
		sequence = 9
		return nil, nil
	})
	if stored := w.stored("a"); err != nil || *stored.Sequence != 3 || *outcome.Effect.Sequence != 3 {
		t.Errorf("%d, %d, %v", *stored.Sequence, *outcome.Effect.Sequence, err)
	}
	w.unknown("b")
	if e, err := effect.Resolve(t.Context(), w.store, w.key("b"), effect.GivenUp("")); err != nil || e.Reason != "given up" {
		t.Errorf("%+v, %v", e, err)
	}
}
