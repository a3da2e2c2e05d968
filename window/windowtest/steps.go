package windowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/window"
)

func thought(content string, tokens int64) repo.NewMessage {
	return repo.NewMessage{Role: repo.RoleAssistant, Kind: repo.KindReasoning, Content: content, Tokens: tokens}
}

func said(role repo.Role, content string) repo.NewMessage {
	return repo.NewMessage{Role: role, Content: content, Tokens: 5}
}

// addStep appends reasoning, a call, its result, and every third time an answer that has reasoning of its own.
func addStep(t *testing.T, store repo.Store, id repo.ID, i int) {
	t.Helper()
	n := fmt.Sprint(i)
	appendAll(t, store, id, thought("r"+n, 7), called(n, "c"+n))
	appendAll(t, store, id, result(n, "o"+n))
	if i%3 == 0 {
		appendAll(t, store, id, thought("t"+n, 3), said(repo.RoleAssistant, "a"+n))
	}
}

// checkSteps checks that no step of addStep is cut.
func checkSteps(t *testing.T, messages []repo.Message) {
	t.Helper()
	all := contents(messages) + " "
	for _, m := range messages {
		kind, n := m.Content[:1], m.Content[1:]
		step := fmt.Sprintf("r%s c%s o%s ", n, n, n)
		if kind == "t" || kind == "a" {
			step = fmt.Sprintf("t%s a%s ", n, n)
		}
		if strings.Contains("rcota", kind) && !strings.Contains(all, step) {
			t.Fatalf("%s is without its step: %s", m.Content, all)
		}
	}
}

// Reasoning stays with the call or the answer that follows it, and that with its result: they are in a prompt together, or not at
// all.
func testSteps(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	for i := range 100 {
		addStep(t, store, id, i)
	}
	for tokens := int64(17); tokens < 330; tokens++ {
		w := read(t, store, id, window.Options{Tokens: tokens})
		if checkSteps(t, w.Messages); len(w.Messages) == 0 || len(w.Dropped) > 0 {
			t.Fatalf("%d tokens: %+v", tokens, w)
		}
	}
	for messages := 3; messages < 60; messages++ {
		checkSteps(t, read(t, store, id, window.Options{Tokens: 5000, Messages: messages}).Messages)
	}
	all, err := store.Sessions().MessagesFrom(t.Context(), id, 30, 8)
	if err != nil {
		t.Fatal(err)
	}
	for _, pin := range all {
		w := read(t, store, id, window.Options{Tokens: 100, Pins: []repo.ID{pin.ID}})
		if checkSteps(t, w.Messages); !slices.ContainsFunc(w.Messages, func(m repo.Message) bool { return m.ID == pin.ID }) {
			t.Errorf("%s is pinned: %s", pin.Content, contents(w.Messages))
		}
	}
}

func testStepsCompacted(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 300}
	for i := range 40 {
		if i%4 == 0 {
			appendAll(t, store, id, said(repo.RoleUser, "question"))
		}
		n := fmt.Sprint(i)
		for _, m := range []repo.NewMessage{thought("r"+n, 7), called(n, "c"+n), result(n, "o"+n)} {
			appendAll(t, store, id, m)
			if _, err := window.Compact(t.Context(), store, id, o, short); err != nil {
				t.Fatal(err)
			}
		}
		w := read(t, store, id, window.Options{Tokens: 5000})
		if checkSteps(t, w.Messages); len(w.Dropped) > 0 || w.Tokens > 300 {
			t.Fatalf("%d steps: %+v", i+1, w)
		}
	}
}

// A step has all that the assistant does until the next reasoning or another role, and blocks of reasoning that follow each other.
// What has no reasoning is no step, so that messages of several agents stay apart. Reasoning alone, which a provider
// refuses, is left out.
func testStepsOdd(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	appendAll(t, store, id, said(repo.RoleUser, "q"), thought("r1", 5), thought("r2", 5), said(repo.RoleAssistant, "text"), called("a", "A"), called("b", "B"),
		result("b", "rb"), result("a", "ra"), thought("alone", 5), said(repo.RoleUser, "next"), thought("r3", 5), called("c", "given-up"), said(repo.RoleUser, "last"),
		thought("begun", 5))
	w := read(t, store, id, window.Options{Tokens: 1000})
	if got := contents(w.Messages); got != "q r1 r2 text A B rb ra next last" || contents(w.Dropped) != "alone r3 given-up begun" {
		t.Errorf("%s, without %s", got, contents(w.Dropped))
	}
	for tokens := int64(10); tokens < 50; tokens++ {
		got := contents(read(t, store, id, window.Options{Tokens: tokens}).Messages)
		if strings.Contains("q r1 r2 text A B rb ra next last", got) && (strings.HasSuffix(got, "ra next last") && got[0] != 'q' && got[:2] != "r1") {
			t.Errorf("%d tokens: %s", tokens, got)
		}
	}
	id = newSession(t, store)
	appendAll(t, store, id, slices.Repeat([]repo.NewMessage{said(repo.RoleAssistant, "agent")}, 900)...)
	if w := read(t, store, id, window.Options{Tokens: 100}); len(w.Messages) < 10 || w.Tokens > 100 {
		t.Errorf("of several agents: %d messages", len(w.Messages))
	}
	appendAll(t, store, id, thought("large", 60), called("a", "call"), result("a", "result"), said(repo.RoleUser, "next"))
	if got := contents(read(t, store, id, window.Options{Tokens: 66}).Messages); got != "next" {
		t.Errorf("a step that does not fit: %s", got)
	}
}

// A message with several calls is found by its late result, and by a pin of a result, however these are named.
func testFarCalls(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	o := window.Options{Tokens: 100, Calls: func(m repo.Message) []string { return strings.Fields(string(m.Payload)) }}
	calls := repo.NewMessage{Role: repo.RoleAssistant, Content: "calls", Payload: []byte("a b"), Tokens: 5}
	all := appendAll(t, store, id, said(repo.RoleUser, "q"), thought("r", 5), calls, result("b", "B"), result("a", "A"))
	appendAll(t, store, id, said(repo.RoleUser, "q2"), thought("r2", 5), calls, result("a", "A2"))
	for i := range 300 {
		addCall(t, store, id, fmt.Sprint("call ", i), 5, 5)
	}
	for _, pin := range all[1:] {
		o.Pins = []repo.ID{pin.ID}
		if got := contents(read(t, store, id, o).Messages); !strings.HasPrefix(got, "q2 r calls B A ") && !strings.HasPrefix(got, "r calls B A ") {
			t.Errorf("%s is pinned: %s", pin.Content, got)
		}
	}
	o.Pins = nil
	appendAll(t, store, id, result("b", "B2"))
	if w := read(t, store, id, o); !strings.Contains(contents(w.Messages), "r2 calls A2 B2 ") || len(w.Dropped) > 0 {
		t.Errorf("late: %s, without %s", contents(w.Messages), contents(w.Dropped))
	}
	appendAll(t, store, id, said(repo.RoleUser, "and?"))
	if w := read(t, store, id, o); !strings.Contains(contents(w.Messages), "r2 calls A2 B2 ") {
		t.Errorf("late, and a question: %s", contents(w.Messages))
	}
}

// A message may have the results of several calls, which Options.Calls names.
func testSeveralResults(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	o := window.Options{Tokens: 1000, Calls: func(m repo.Message) []string { return strings.Fields(string(m.Payload)) }}
	with := func(role repo.Role, content, ids string) repo.NewMessage {
		return repo.NewMessage{Role: role, Content: content, Payload: []byte(ids), Tokens: 5}
	}
	all := appendAll(t, store, id, said(repo.RoleUser, "q"), with(repo.RoleAssistant, "calls", "a b"), with(repo.RoleUser, "results", "b a"),
		with(repo.RoleAssistant, "one", "c"), with(repo.RoleAssistant, "two", "d e"), with(repo.RoleUser, "half", "d c"),
		with(repo.RoleUser, "again", "a b"), said(repo.RoleUser, "next"))
	w := read(t, store, id, o)
	if got := contents(w.Messages); got != "q calls results next" || contents(w.Dropped) != "one two half again" {
		t.Errorf("%s, without %s", got, contents(w.Dropped))
	}
	for i := range 100 {
		addCall(t, store, id, fmt.Sprint("call ", i), 5, 5)
	}
	for _, pin := range all[1:3] {
		w := read(t, store, id, window.Options{Tokens: 100, Calls: func(m repo.Message) []string {
			if ids := o.Calls(m); len(ids) > 0 || m.CallID == "" {
				return ids
			}
			return []string{m.CallID}
		}, Pins: []repo.ID{pin.ID}})
		if got := contents(w.Messages); !strings.HasPrefix(got, "calls results ") {
			t.Errorf("%s is pinned: %s", pin.Content, got)
		}
	}
}
