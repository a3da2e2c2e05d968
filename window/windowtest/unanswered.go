package windowtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/window"
)

// An unanswered question stays with all that came since. What is before it is covered.
func testUnanswered(t *testing.T, store repo.Store) {
	for name, test := range map[string]struct {
		budget, question int64
		before, calls    int
		call, result     int64
		added, tooLarge  bool
		role             repo.Role // empty: the user's
	}{
		"alone":            {budget: 1000, question: 900},
		"too large":        {budget: 1000, question: 1100, tooLarge: true},
		"behind calls":     {budget: 1000, question: 50, calls: 30, call: 10, result: 18},
		"a large result":   {budget: 590, question: 50, calls: 1, call: 10, result: 420},
		"after others":     {budget: 1000, question: 50, before: 20, calls: 20, call: 10, result: 20, added: true},
		"no user asks":     {budget: 1000, question: 50, role: repo.RoleSystem, calls: 1, call: 10, result: 800},
		"large, as others": {budget: 1000, question: 900, before: 20, added: true},
	} {
		id, o := newSession(t, store), window.Options{Tokens: test.budget}
		test.role = cmp.Or(test.role, repo.RoleUser)
		if test.before > 0 {
			add(t, store, id, test.before)
		}
		ask := repo.NewMessage{Role: test.role, Content: "the question", Tokens: test.question}
		question := appendAll(t, store, id, ask)[0]
		for i := range test.calls {
			addCall(t, store, id, fmt.Sprint("call ", i), test.call, test.result)
		}
		added, err := window.Compact(t.Context(), store, id, o, short)
		if added != test.added || errors.Is(err, repo.ErrLimit) != test.tooLarge || err != nil && !test.tooLarge {
			t.Errorf("%s: %t, %v", name, added, err)
		}
		if test.tooLarge {
			continue
		}
		w := check(t, store, id, o)
		at := slices.IndexFunc(w.Messages, func(m repo.Message) bool { return m.ID == question.ID })
		if at < 0 || len(w.Messages) != at+1+2*test.calls || w.Cut || test.added && w.Messages[0].Kind != repo.KindSummary {
			t.Errorf("%s: the question is message %d of %d, cut: %t", name, at, len(w.Messages), w.Cut)
		}
	}
}

// So does one so far behind that it may or may not be the last one.
func testUnansweredFar(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 5000}
	add(t, store, id, 3)
	for page := range 2 {
		var calls []repo.NewMessage
		for i := range 300 {
			call := fmt.Sprint("call ", page, " of ", i)
			for _, role := range []repo.Role{repo.RoleAssistant, repo.RoleTool} {
				calls = append(calls, repo.NewMessage{Role: role, CallID: call, Tokens: 10})
			}
		}
		appendAll(t, store, id, calls...)
	}
	for range 2 {
		if _, err := window.Compact(t.Context(), store, id, o, short); err != nil {
			t.Fatal(err)
		}
		for m, err := range store.Sessions().Messages(t.Context(), id, 0) {
			if err != nil || m.Kind == repo.KindSummary && string(m.Metadata) != `{"summary":{"from":0,"to":1,"tokens":20}}` {
				t.Fatalf("%s, %v", m.Metadata, err)
			}
		}
	}
	add(t, store, id, 1) // the next question
	if added, err := window.Compact(t.Context(), store, id, o, short); !added || err != nil {
		t.Errorf("a run that has ended: %t, %v", added, err)
	}
	check(t, store, id, o)
}

// A call that is under way stays, although others have spoken since: its result would have no call.
func testUnderWay(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 100}
	add(t, store, id, 1)
	appendAll(t, store, id, repo.NewMessage{Role: repo.RoleAssistant, CallID: "c", Tokens: 5})
	add(t, store, id, 8)
	if added, err := window.Compact(t.Context(), store, id, o, short); !added || err != nil {
		t.Fatal(added, err)
	}
	appendAll(t, store, id, repo.NewMessage{Role: repo.RoleTool, CallID: "c", Tokens: 5, Content: "result"})
	add(t, store, id, 1)
	w := check(t, store, id, window.Options{Tokens: 1000})
	if w.Messages[1].CallID != "c" || w.Messages[2].Content != "result" {
		t.Errorf("%+v", w.Messages)
	}
}

// A call that was given up ends no compaction for good. Its result comes with it, if it comes after all.
func testGivenUp(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 100}
	appendAll(t, store, id, repo.NewMessage{Role: repo.RoleAssistant, CallID: "c", Tokens: 5})
	for range 10 {
		add(t, store, id, 6)
		if _, err := window.Compact(t.Context(), store, id, o, short); err != nil {
			t.Fatal(err)
		}
	}
	w := read(t, store, id, o)
	if w.Messages[0].Kind != repo.KindSummary || w.Cut || len(w.Dropped) > 0 {
		t.Errorf("%+v", w)
	}
	appendAll(t, store, id, repo.NewMessage{Role: repo.RoleTool, CallID: "c", Tokens: 5, Content: "result"})
	w = read(t, store, id, o)
	if w.Messages[0].CallID != "c" || w.Messages[1].Content != "result" || w.Messages[2].Kind != repo.KindSummary {
		t.Errorf("%+v", w)
	}
}
