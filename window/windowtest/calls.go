package windowtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/window"
)

// contents returns what messages have, for comparison.
func contents(messages []repo.Message) string {
	var all []string
	for _, m := range messages {
		all = append(all, m.Content)
	}
	return strings.Join(all, " ")
}

func called(call, content string) repo.NewMessage {
	return repo.NewMessage{Role: repo.RoleAssistant, CallID: call, Content: content, Tokens: 5}
}

func result(call, content string) repo.NewMessage {
	return repo.NewMessage{Role: repo.RoleTool, CallID: call, Content: content, Tokens: 5}
}

// A call has one result in a prompt, the first one. Others are said to be left out.
func testResultTwice(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	appendAll(t, store, id, called("a", "call"), called("b", "other"), result("a", "result"), result("a", "again"),
		result("b", "late"), repo.NewMessage{Role: repo.RoleUser, Content: "next"}, result("a", "late-again"))
	w := read(t, store, id, window.Options{Tokens: 1000})
	if got := contents(w.Messages); got != "call other result late next" || contents(w.Dropped) != "again late-again" {
		t.Errorf("%s, without %s", got, contents(w.Dropped))
	}
}

// Of calls with one id each has the result that follows it. A pin, or a late result, brings its own call, and not all.
func testSameCallIDs(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 100}
	var all []repo.Message
	for i := range 50 {
		if all = append(all, appendAll(t, store, id, called("call_0", fmt.Sprint("call", i)))...); i != 7 {
			all = append(all, appendAll(t, store, id, result("call_0", fmt.Sprint("result", i)))...)
		}
	}
	pinned := func(content string) {
		t.Helper()
		at := slices.IndexFunc(all, func(m repo.Message) bool { return m.Content == content })
		o.Pins = []repo.ID{all[at].ID}
		n := strings.TrimLeft(content, "calresut")
		w := read(t, store, id, o)
		if got, want := contents(w.Messages), "call"+n+" result"+n+" "; !strings.HasPrefix(got, want) || len(w.Messages) < 10 {
			t.Errorf("%s is pinned: %s", content, got)
		}
	}
	pinned("call3")
	pinned("result3")
	pinned("call8")
	pinned("result8")
	o.Pins = nil
	appendAll(t, store, id, called("call_1", "x"), result("call_1", "y"), result("call_0", "more"))
	if got := contents(read(t, store, id, o).Messages); !strings.HasSuffix(got, " call49 result49 x y") {
		t.Error(got)
	}
	appendAll(t, store, id, called("call_0", "slow"), repo.NewMessage{Role: repo.RoleAssistant, Content: "wait", Tokens: 5})
	for i := range 20 {
		addCall(t, store, id, fmt.Sprint("call ", i), 5, 5)
	}
	appendAll(t, store, id, result("call_0", "at-last"))
	if got := contents(read(t, store, id, o).Messages); !strings.HasPrefix(got, "slow at-last ") {
		t.Error(got)
	}
}

// A message may make several calls, which Options.Calls names. It stays with all of their results, or is left out with
// them.
func testSeveralCalls(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	o := window.Options{Tokens: 1000}
	o.Calls = func(m repo.Message) []string { return strings.Fields(string(m.Payload)) }
	appendAll(t, store, id, repo.NewMessage{
		Role: repo.RoleAssistant, CallID: "a", Content: "calls", Payload: []byte("a b"), Tokens: 5,
	})
	w := read(t, store, id, o)
	if got := contents(w.Messages); got != "calls" {
		t.Errorf("under way: %s", got)
	}
	appendAll(t, store, id, result("b", "B"))
	if got := contents(read(t, store, id, o).Messages); got != "calls B" {
		t.Errorf("half: %s", got)
	}
	appendAll(t, store, id, result("a", "A"), repo.NewMessage{Role: repo.RoleUser, Content: "next"})
	if got := contents(read(t, store, id, o).Messages); got != "calls B A next" {
		t.Error(got)
	}
	add(t, store, id, 40)
	all, err := store.Sessions().MessagesFrom(t.Context(), id, 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, pin := range []repo.Message{all[0], all[2]} {
		w := read(t, store, id, window.Options{Tokens: 100, Calls: o.Calls, Pins: []repo.ID{pin.ID}})
		if got := contents(w.Messages); !strings.HasPrefix(got, "calls B A message") {
			t.Errorf("%s is pinned: %s", pin.Content, got)
		}
	}
	more := repo.NewMessage{Role: repo.RoleAssistant, Content: "more", Payload: []byte("c d"), Tokens: 5}
	appendAll(t, store, id, more, result("c", "C"), repo.NewMessage{Role: repo.RoleUser, Content: "stop"})
	w = read(t, store, id, o)
	if got := contents(w.Dropped); got != "more C" || !strings.HasSuffix(contents(w.Messages), "stop") {
		t.Errorf("without %s", got)
	}
}
