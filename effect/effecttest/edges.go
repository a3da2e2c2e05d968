package effecttest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/effect"
	"github.com/seed-df90f812/agentstore/repo"
)

// testPermit: what is used up is committed with the reservation, or not at all, and once for an effect.
func testPermit(t *testing.T, w *world) {
	own := repo.Scope{SessionID: w.session}
	if _, err := w.store.State().Change(t.Context(), []repo.StateChange{{Scope: own, Key: "approval", Value: json.RawMessage(`1`)}}); err != nil {
		t.Fatal(err)
	}
	refuses := errors.New("not approved")
	policy := effect.Policy{Permit: func(ctx context.Context, tx repo.Repositories) error {
		value, err := tx.State().Get(ctx, own, "approval")
		if err != nil {
			return refuses
		}
		_, err = tx.State().Change(ctx, []repo.StateChange{{Scope: own, Key: "approval", Op: repo.StateRemove, IfVersion: &value.Version}})
		return err
	}}
	_, err := effect.Once(t.Context(), w.store, w.key("a"), arguments, policy, func(ctx context.Context, _ effect.Effect) (json.RawMessage, error) {
		if _, err := w.store.State().Get(ctx, own, "approval"); !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("the approval is still there: %v", err)
		}
		return nil, effect.NotSent(errLost)
	})
	if !errors.Is(err, errLost) {
		t.Error(err)
	}
	if _, err := w.once("b", policy); !errors.Is(err, refuses) {
		t.Error(err)
	}
	if list, err := effect.List(t.Context(), w.store, w.session, repo.Page{}); err != nil || len(list.Items) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	w.called(0)
	if _, err := w.once("a", policy); err != nil { // it has its approval
		t.Error(err)
	}
	w.called(1)
}

// testSizes: results up to the limit are stored; of others it is said that they happened, at once and for ever.
func testSizes(t *testing.T, w *world) {
	returns := func(call string, result []byte) (effect.Outcome, error) {
		return effect.Once(t.Context(), w.store, w.key(call), arguments, effect.Policy{}, func(context.Context, effect.Effect) (json.RawMessage, error) {
			w.calls.Add(1)
			return result, nil
		})
	}
	text := func(size int) []byte { return []byte(`"` + strings.Repeat("<", size-2) + `"`) }
	for call, result := range map[string][]byte{"limit": text(effect.MaxResultBytes), "nothing": nil, "white space": []byte(" 1 ")} {
		for i := range 2 {
			outcome, err := returns(call, result)
			want := result
			if result == nil {
				want = []byte("null")
			}
			if err != nil || !bytes.Equal(outcome.Result, want) || outcome.Repeated != (i > 0) {
				t.Errorf("%s: %d bytes, %v", call, len(outcome.Result), err)
			}
		}
	}
	calls := w.calls.Load()
	for call, result := range map[string][]byte{
		"too large": text(effect.MaxResultBytes + 1), "no JSON": []byte(`{secret`), "NUL": []byte(`"\u0000"`), "twice": []byte(`{"a":1,"a":2}`), "empty": {},
	} {
		calls++
		outcome, err := returns(call, result)
		w.is(err, effect.StateDone)
		if !bytes.Equal(outcome.Result, result) || !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%s: %d bytes, %v", call, len(outcome.Result), err)
		}
		outcome, err = returns(call, result)
		if w.is(err, effect.StateDone); outcome.Result != nil || !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%s again: %+v, %v", call, outcome, err)
		}
	}
	w.called(calls)
}

// testTurn: the tool's message and the result are stored together, once; a turn that is refused costs no result.
func testTurn(t *testing.T, w *world) {
	policy := effect.Policy{Turn: func(result json.RawMessage) repo.Turn {
		return repo.Turn{ID: "turn", Messages: []repo.NewMessage{{Role: repo.RoleTool, CallID: "a", Content: string(result)}}}
	}}
	count := func(want int64) {
		t.Helper()
		if s, err := w.store.Sessions().Get(t.Context(), w.session); err != nil || s.MessageCount != want {
			t.Errorf("%d messages, %v", s.MessageCount, err)
		}
	}
	for range 2 {
		if outcome, err := w.once("a", policy); err != nil || string(outcome.Result) != `{"receipt":1}` {
			t.Errorf("%+v, %v", outcome, err)
		}
		count(1)
	}
	// The id of another turn, a head that has moved, and a message that is none.
	head := int64(7)
	for call, turn := range map[string]repo.Turn{
		"id": policy.Turn(json.RawMessage(`"other"`)), "head": {Head: &head, Messages: []repo.NewMessage{{Role: repo.RoleTool, Content: "x"}}}, "none": {Messages: []repo.NewMessage{{}}},
		"fence": {Fence: 9, Messages: []repo.NewMessage{{Role: repo.RoleTool, Content: "x"}}},
	} {
		outcome, err := w.once(call, effect.Policy{Turn: func(json.RawMessage) repo.Turn { return turn }})
		if w.is(err, effect.StateDone); outcome.Result == nil {
			t.Errorf("%s: %+v", call, outcome)
		}
		again, err := w.once(call, effect.Policy{})
		if err != nil || !bytes.Equal(again.Result, outcome.Result) {
			t.Errorf("%s again: %+v, %v", call, again, err)
		}
		count(1)
	}
	// The same turn was there before: the result is stored beside it.
	turn := repo.Turn{SessionID: w.session, ID: "before", Existing: true, Messages: []repo.NewMessage{{Role: repo.RoleTool, Content: "x"}}}
	if _, err := w.store.Sessions().AppendTurn(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := w.once("before", effect.Policy{Turn: func(json.RawMessage) repo.Turn { return turn }}); err != nil {
			t.Error(err)
		}
	}
	count(2)
	w.called(6)
}

func (w *world) append(callID string) {
	w.t.Helper()
	message := repo.NewMessage{Role: repo.RoleAssistant, Kind: "tool_call", CallID: callID}
	if _, err := w.store.Sessions().Append(w.t.Context(), w.session, message); err != nil {
		w.t.Fatal(err)
	}
}

func calls(effects []effect.Effect) (calls []string) {
	for _, e := range effects {
		calls = append(calls, e.Call)
	}
	return calls
}

// testCrossed: the effects of later messages are listed, and those of no message.
func testCrossed(t *testing.T, w *world) {
	for i := range 4 {
		w.append(fmt.Sprint("call ", i))
	}
	two := int64(2)
	for call, policy := range map[string]effect.Policy{"call 0": {}, "call 1": {}, "told": {Sequence: &two}, "untold": {}} {
		if _, err := w.once(call, policy); err != nil {
			t.Fatal(err)
		}
	}
	for after, want := range map[int64]string{-1: "[call 0 call 1 told untold]", 0: "[call 1 told untold]", 1: "[told untold]", 2: "[untold]"} {
		crossed, err := effect.Crossed(t.Context(), w.store, w.session, after)
		if got := fmt.Sprint(calls(crossed)); err != nil || got != want {
			t.Errorf("after %d: %s, %v", after, got, err)
		}
	}
	var listed []effect.Effect
	for page := (repo.Page{Limit: 1}); ; {
		list, err := effect.List(t.Context(), w.store, w.session, page)
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, list.Items...)
		if page.After = list.Next; page.After == "" {
			break
		}
	}
	if got := fmt.Sprint(calls(listed)); got != "[call 0 call 1 told untold]" {
		t.Error(got)
	}
}

// testFork: a fork does not call again what its transcript has called, and says whose result it is; what is unknown stays so.
func testFork(t *testing.T, w *world) {
	for _, call := range []string{"done", "unknown", "free", "under way", "failed", "large", "later"} {
		w.append(call)
	}
	must := func(_ effect.Outcome, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.once("done", effect.Policy{}))
	must(w.once("later", effect.Policy{}))
	w.unknown("unknown")
	for call, result := range map[string]error{"free": effect.NotSent(errLost), "failed": effect.Failed(errLost), "large": nil} {
		_, _ = effect.Once(t.Context(), w.store, w.key(call), arguments, effect.Policy{}, func(context.Context, effect.Effect) (json.RawMessage, error) {
			return bytes.Repeat([]byte("1"), effect.MaxResultBytes+1), result
		})
	}
	answer, end := w.hangs("under way")
	parent, before := w.session, w.calls.Load()
	fork, crossed, err := effect.Fork(t.Context(), w.store, parent, 5, repo.NewSession{Key: "fork"})
	if got := fmt.Sprint(calls(crossed)); err != nil || got != "[later]" {
		t.Fatalf("%s, %v", got, err)
	}
	again, _, err := effect.Fork(t.Context(), w.store, parent, 5, repo.NewSession{Key: "fork"})
	if err != nil || again.ID != fork.ID {
		t.Errorf("%+v, %v", again, err)
	}
	answer(json.RawMessage(`1`), nil)
	must(end())
	w.session = fork.ID
	outcome, err := w.once("done", effect.Policy{})
	if err != nil || !outcome.Repeated || outcome.Effect.From != parent || string(outcome.Result) != `{"receipt":1}` {
		t.Errorf("%+v, %v", outcome, err)
	}
	eager := effect.Policy{HonoursKey: 24 * time.Hour, Reconcile: func(context.Context, effect.Effect) (effect.Answer, error) { return effect.DidNotHappen(), nil }}
	for call, state := range map[string]effect.State{"unknown": effect.StateUnknown, "under way": effect.StateUnknown, "failed": effect.StateFailed, "large": effect.StateDone} {
		_, err := w.once(call, eager)
		if e := w.is(err, state); e.Effect.From != parent {
			t.Errorf("%s: %+v", call, e)
		}
	}
	w.called(before)
	must(w.once("free", effect.Policy{}))
	must(w.once("later", effect.Policy{}))
	w.called(before + 2)
	if _, err := effect.Resolve(t.Context(), w.store, w.key("unknown"), effect.DidNotHappen()); err != nil {
		t.Fatal(err)
	}
	outcome, err = w.once("unknown", effect.Policy{})
	if err != nil || !outcome.Effect.From.IsZero() {
		t.Errorf("%+v, %v", outcome, err)
	}
}

// testImport: what was exported and is imported again answers as before.
func testImport(t *testing.T, w *world) {
	if _, err := w.once("done", effect.Policy{}); err != nil {
		t.Fatal(err)
	}
	w.unknown("unknown")
	answer, end := w.hangs("under way")
	var document bytes.Buffer
	if err := w.store.Sessions().Export(t.Context(), w.session, &document); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Sessions().Delete(t.Context(), w.session); err != nil {
		t.Fatal(err)
	}
	answer(nil, nil)
	if outcome, err := end(); !errors.Is(err, repo.ErrNotFound) || outcome.Result == nil { // nothing is made again of a deleted session
		t.Errorf("%+v, %v", outcome, err)
	}
	if _, err := w.store.Sessions().Import(t.Context(), &document, true); err != nil {
		t.Fatal(err)
	}
	if outcome, err := w.once("done", effect.Policy{}); err != nil || !outcome.Repeated || string(outcome.Result) != `{"receipt":1}` {
		t.Errorf("%+v, %v", outcome, err)
	}
	for call, state := range map[string]effect.State{"unknown": effect.StateUnknown, "under way": effect.StateReserved} {
		_, err := w.once(call, effect.Policy{})
		w.is(err, state)
	}
	w.called(3)
}

func testInvalid(t *testing.T, w *world) {
	negative := int64(-1)
	for field, of := range map[string]struct {
		key       effect.Key
		arguments string
		policy    effect.Policy
	}{
		"key.session": {effect.Key{Call: "a"}, "", effect.Policy{}}, "key.call": {w.key(""), "", effect.Policy{}},
		"key.call ": {w.key(strings.Repeat("/", 506)), "", effect.Policy{}}, "arguments": {w.key("a"), `{"a":1,"a":2}`, effect.Policy{}},
		"arguments ": {w.key("a"), `{`, effect.Policy{}}, "policy.timeout": {w.key("a"), "", effect.Policy{Timeout: -1}},
		"policy.timeout ": {w.key("a"), "", effect.Policy{Timeout: 25 * time.Hour}}, "policy.honoursKey": {w.key("a"), "", effect.Policy{HonoursKey: -1}},
		"policy.sequence": {w.key("a"), "", effect.Policy{Sequence: &negative}},
	} {
		_, err := effect.Once(t.Context(), w.store, of.key, json.RawMessage(cmp.Or(of.arguments, "null")), of.policy, w.do)
		if invalid, is := errors.AsType[*repo.InvalidError](err); !is || invalid.Field != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, foreign := range []string{`{"state":"later"}`, `{}`, `[1]`} {
		session := w.newSession()
		if _, err := w.store.State().Change(t.Context(), []repo.StateChange{{Scope: repo.Scope{SessionID: session}, Key: "effect/a", Value: json.RawMessage(foreign)}}); err != nil {
			t.Fatal(err)
		}
		_, once := effect.Once(t.Context(), w.store, effect.Key{Session: session, Call: "a"}, nil, effect.Policy{HonoursKey: time.Hour}, w.do)
		_, listed := effect.List(t.Context(), w.store, session, repo.Page{})
		if !errors.Is(once, repo.ErrInvalid) || !errors.Is(listed, repo.ErrInvalid) {
			t.Errorf("%s: %v, %v", foreign, once, listed)
		}
	}
	if _, err := effect.Once(t.Context(), w.store, w.key("a"), nil, effect.Policy{}, nil); !errors.Is(err, repo.ErrInvalid) {
		t.Error(err)
	}
	for _, call := range []string{"\xff", "a\x00"} {
		if _, err := w.once(call, effect.Policy{}); !errors.Is(err, repo.ErrInvalid) {
			t.Errorf("%q: %v", call, err)
		}
	}
	if _, err := w.once(strings.Repeat("/", 505), effect.Policy{}); err != nil {
		t.Error(err)
	}
	if _, err := effect.Once(t.Context(), w.store, effect.Key{Session: repo.NewID(), Call: "a"}, nil, effect.Policy{}, w.do); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	w.called(1)
}

// testDeleted: the answer to a call whose session is deleted meanwhile makes nothing again.
func testDeleted(t *testing.T, w *world) {
	answer, end := w.hangs("a")
	if _, err := w.store.Sessions().Delete(t.Context(), w.session); err != nil {
		t.Fatal(err)
	}
	answer(json.RawMessage(`1`), nil)
	if outcome, err := end(); !errors.Is(err, repo.ErrNotFound) || string(outcome.Result) != "1" {
		t.Errorf("%+v, %v", outcome, err)
	}
	if _, err := w.once("a", effect.Policy{}); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	w.called(1)
}

// testCancelled: what ends with its context is stored all the same; without a context nothing is sent.
func testCancelled(t *testing.T, w *world) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := effect.Once(ctx, w.store, w.key("a"), arguments, effect.Policy{}, func(ctx context.Context, e effect.Effect) (json.RawMessage, error) {
		if deadline, has := ctx.Deadline(); !has || time.Until(deadline) > effect.DefaultTimeout {
			t.Errorf("until %v", deadline)
		}
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if w.is(err, effect.StateUnknown); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if e := w.stored("a"); e.State != effect.StateUnknown {
		t.Errorf("%+v", e)
	}
	if _, err := effect.Once(ctx, w.store, w.key("b"), arguments, effect.Policy{}, w.do); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_, err = effect.Once(t.Context(), w.store, w.key("c"), arguments, effect.Policy{Timeout: time.Millisecond}, func(ctx context.Context, _ effect.Effect) (json.RawMessage, error) {
		<-ctx.Done() // short: it ends, or has ended before
		return nil, ctx.Err()
	})
	if e := w.stored("c"); err == nil || e.State != effect.StateUnknown && e.State != effect.StateFree {
		t.Errorf("%+v, %v", e, err)
	}
	w.called(0)
}

// testView: a view makes effects of its sessions, and knows no others.
func testView(t *testing.T, w *world) {
	views, is := w.store.(interface {
		In(namespace string) repo.Store
	})
	if !is {
		t.Skip("the store has no views")
	}
	view := views.In("tenant")
	session, err := view.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range []repo.Store{view, w.store, view} {
		if outcome, err := effect.Once(t.Context(), store, effect.Key{Session: session.ID, Call: "a"}, arguments, effect.Policy{}, w.do); err != nil || string(outcome.Result) != `{"receipt":1}` {
			t.Errorf("%+v, %v", outcome, err)
		}
	}
	if _, err := effect.Once(t.Context(), view, w.key("a"), arguments, effect.Policy{}, w.do); !errors.Is(err, repo.ErrNotFound) {
		t.Error(err)
	}
	w.called(1)
}

// losing is a store that makes changes of state, and loses the answers, one of two; or answers so without having made them.
type losing struct {
	repo.Store

	changes atomic.Int64
	first   int64 // which one of two is lost
	made    bool
}

func (l *losing) State() repo.State { return losingState{l.Store.State(), l} }

type losingState struct {
	repo.State

	l *losing
}

func (s losingState) Change(ctx context.Context, changes []repo.StateChange, conditions ...repo.ScopeVersion) ([]repo.ScopeVersion, error) {
	if s.l.changes.Add(1)%2 != s.l.first {
		return s.State.Change(ctx, changes, conditions...)
	}
	if s.l.made {
		if _, err := s.State.Change(ctx, changes, conditions...); err != nil {
			return nil, err
		}
	}
	return nil, repo.ErrUnknownOutcome
}

// testLostAnswers: an answer of the database that is lost makes no second call, and loses no result.
func testLostAnswers(t *testing.T, w *world) {
	store := w.store
	for i := range 4 {
		w.store = &losing{Store: store, first: int64(i / 2), made: i%2 > 0}
		w.session = w.newSession()
		for j := range 2 {
			outcome, err := w.once("a", effect.Policy{})
			if want := fmt.Sprintf(`{"receipt":%d}`, i+1); err != nil || string(outcome.Result) != want || outcome.Repeated != (j > 0) || outcome.Effect.Attempts != 1 {
				t.Errorf("%d: %+v, %v", i, outcome, err)
			}
		}
		w.called(int64(i + 1))
	}
}
