package effecttest

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/effect"
	"github.com/seed-df90f812/agentstore/repo"
)

// testOverdue: a call is under way until its time and the margin have passed, by the database's clock. An answer that comes later is stored,
// since there is no other decision.
func testOverdue(t *testing.T, w *world) {
	answer, end := w.hangs("a")
	w.age(t, time.Hour-time.Minute)
	_, err := w.once("a", effect.Policy{Timeout: time.Millisecond})
	if e := w.is(err, effect.StateReserved); e.Left > time.Minute+effect.Margin || e.Left <= 0 {
		t.Errorf("%+v", e)
	}
	w.age(t, 2*time.Minute)
	_, err = w.once("a", effect.Policy{})
	w.is(err, effect.StateUnknown)
	answer(json.RawMessage(`"late"`), nil)
	if outcome, err := end(); err != nil || string(outcome.Result) != `"late"` {
		t.Errorf("%+v, %v", outcome, err)
	}
	if outcome, err := w.once("a", effect.Policy{}); err != nil || string(outcome.Result) != `"late"` || !outcome.Repeated {
		t.Errorf("%+v, %v", outcome, err)
	}
	w.called(1)
}

// testLateAnswers: an answer after another caller's decision changes nothing, and its caller learns what is stored.
func testLateAnswers(t *testing.T, w *world) {
	for call, decided := range map[string]struct {
		by    func() error
		state effect.State
	}{
		"sent again": {func() error { _, err := w.once("sent again", effect.Policy{HonoursKey: 24 * time.Hour}); return err }, effect.StateDone},
		"given up": {func() error {
			_, err := effect.Resolve(t.Context(), w.store, w.key("given up"), effect.GivenUp("secret"))
			return err
		}, effect.StateFailed},
		"happened": {func() error {
			_, err := effect.Resolve(t.Context(), w.store, w.key("happened"), effect.Happened(nil))
			return err
		}, effect.StateDone},
	} {
		for _, failed := range []error{nil, errLost, effect.Failed(errLost), effect.NotSent(errLost)} {
			w.session = w.newSession()
			answer, end := w.hangs(call)
			w.age(t, 2*time.Hour)
			if err := decided.by(); err != nil {
				t.Fatal(call, err)
			}
			before := w.stored(call)
			answer(json.RawMessage(`"late"`), failed)
			outcome, err := end()
			w.is(err, decided.state)
			if failed == nil && string(outcome.Result) != `"late"` {
				t.Errorf("%s: %+v", call, outcome)
			}
			if after := w.stored(call); after != before {
				t.Errorf("%s: %+v after %+v", call, after, before)
			}
		}
	}
}

// testKey: what is unknown is sent again with the same key while the remote knows it, by one at a time.
func testKey(t *testing.T, w *world) {
	w.unknown("a")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, err := w.once("a", effect.Policy{HonoursKey: time.Hour})
			if e, is := errors.AsType[*effect.Error](err); err != nil && (!is || e.Effect.State != effect.StateReserved) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if w.called(2); w.distinctKeys() != 1 {
		t.Errorf("the remote got %d keys", w.distinctKeys())
	}
	if e := w.stored("a"); e.State != effect.StateDone || e.Attempts != 2 || e.FirstSent.IsZero() {
		t.Errorf("%+v", e)
	}
}

// testWindow: it is not sent again if the remote may have forgotten the key by the end of the call.
func testWindow(t *testing.T, w *world) {
	w.unknown("short")
	_, err := w.once("short", effect.Policy{HonoursKey: time.Minute, Timeout: 2 * time.Minute})
	w.is(err, effect.StateUnknown)
	w.unknown("old")
	w.age(t, 2*time.Hour)
	_, err = w.once("old", effect.Policy{HonoursKey: time.Hour})
	w.is(err, effect.StateUnknown)
	w.called(2)
}

func testReconcile(t *testing.T, w *world) {
	says := func(answer effect.Answer, err error) effect.Policy {
		return effect.Policy{Reconcile: func(_ context.Context, e effect.Effect) (effect.Answer, error) {
			if e.State != effect.StateUnknown || e.IdempotencyKey == "" || e.FirstSent.IsZero() {
				t.Errorf("%+v", e)
			}
			return answer, err
		}}
	}
	w.unknown("a")
	_, err := w.once("a", says(effect.CannotTell(), nil))
	w.is(err, effect.StateUnknown)
	_, err = w.once("a", says(effect.Happened(nil), errLost))
	if w.is(err, effect.StateUnknown); !errors.Is(err, errLost) {
		t.Error(err)
	}
	outcome, err := w.once("a", says(effect.Happened(json.RawMessage(`"found"`)), nil))
	if err != nil || string(outcome.Result) != `"found"` || outcome.Repeated {
		t.Errorf("%+v, %v", outcome, err)
	}
	if outcome, err = w.once("a", effect.Policy{}); err != nil || string(outcome.Result) != `"found"` || !outcome.Repeated {
		t.Errorf("%+v, %v", outcome, err)
	}
	w.called(1)
	w.unknown("b")
	outcome, err = w.once("b", says(effect.DidNotHappen(), nil))
	if err != nil || string(outcome.Result) != `{"receipt":3}` || outcome.Effect.Attempts != 2 {
		t.Errorf("%+v, %v", outcome, err)
	}
	w.unknown("c")
	for _, policy := range []effect.Policy{says(effect.GivenUp("lost"), nil), {}} {
		_, err = w.once("c", policy)
		if e := w.is(err, effect.StateFailed); e.Effect.Reason != "lost" {
			t.Errorf("%+v", e)
		}
	}
}

// testReconciledMeanwhile: what others have decided while the tool looked is what counts.
func testReconciledMeanwhile(t *testing.T, w *world) {
	for _, answer := range []effect.Answer{effect.Happened(nil), effect.DidNotHappen(), effect.GivenUp("no"), effect.CannotTell()} {
		w.session = w.newSession()
		w.unknown("a")
		before := w.calls.Load()
		asked := func(context.Context, repo.Repositories, effect.Effect) error { return nil }
		outcome, err := w.once("a", effect.Policy{Ask: asked, Reconcile: func(ctx context.Context, _ effect.Effect) (effect.Answer, error) {
			_, err := effect.Resolve(ctx, w.store, w.key("a"), effect.Happened(json.RawMessage(`"person"`)))
			return answer, err
		}})
		if err != nil || string(outcome.Result) != `"person"` || !outcome.Repeated {
			t.Errorf("%+v: %+v, %v", answer, outcome, err)
		}
		w.called(before)
	}
}

// testAsk: a person is asked once, in the transaction in which that is noted.
func testAsk(t *testing.T, w *world) {
	w.unknown("a")
	asked, failed := 0, errLost
	policy := effect.Policy{Ask: func(ctx context.Context, tx repo.Repositories, e effect.Effect) error {
		asked++
		_, err := tx.State().Change(ctx, []repo.StateChange{{Scope: repo.Scope{SessionID: e.Session}, Key: "question", Op: repo.StateIncrement, By: 1}})
		return errors.Join(err, failed)
	}}
	if _, err := w.once("a", policy); !errors.Is(err, errLost) || asked != 1 || w.stored("a").Asked {
		t.Errorf("%v, asked %d times", err, asked)
	}
	failed = nil
	for range 3 {
		_, err := w.once("a", policy)
		if e := w.is(err, effect.StateUnknown); !e.Effect.Asked || asked != 2 {
			t.Errorf("%+v, asked %d times", e, asked)
		}
	}
	value, err := w.store.State().Get(t.Context(), repo.Scope{SessionID: w.session}, "question")
	if err != nil || string(value.Value) != "1" {
		t.Errorf("%s, %v", value.Value, err)
	}
	if _, err := effect.Resolve(t.Context(), w.store, w.key("a"), effect.DidNotHappen()); err != nil {
		t.Fatal(err)
	}
	if outcome, err := w.once("a", policy); err != nil || outcome.Effect.Attempts != 2 || outcome.Effect.Asked {
		t.Errorf("%+v, %v", outcome, err)
	}
	w.called(2)
}

// testResolve: a person's answer is stored, also in a transaction, and may be repeated; another one is refused.
func testResolve(t *testing.T, w *world) {
	resolve := func(answer effect.Answer) error {
		_, err := effect.Resolve(t.Context(), w.store, w.key("a"), answer)
		return err
	}
	if err := resolve(effect.DidNotHappen()); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	answer, end := w.hangs("a")
	w.is(resolve(effect.DidNotHappen()), effect.StateReserved)
	answer(nil, errLost)
	_, err := end()
	w.is(err, effect.StateUnknown)
	for field, answer := range map[string]effect.Answer{"answer": effect.CannotTell(), "result": effect.Happened(json.RawMessage(`{`))} {
		if invalid, is := errors.AsType[*repo.InvalidError](resolve(answer)); !is || invalid.Field != field {
			t.Error(field, err)
		}
	}
	for range 2 {
		if err := w.store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
			e, err := effect.Resolve(ctx, tx, w.key("a"), effect.Happened(json.RawMessage(`"yes"`)))
			if e.State != effect.StateDone {
				t.Errorf("%+v", e)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	w.is(resolve(effect.Happened(json.RawMessage(`"no"`))), effect.StateDone)
	w.is(resolve(effect.GivenUp("no")), effect.StateDone)
	if outcome, err := w.once("a", effect.Policy{}); err != nil || string(outcome.Result) != `"yes"` {
		t.Errorf("%+v, %v", outcome, err)
	}
	w.called(1)
}
