package adk_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/sessiontestsuite"
	"google.golang.org/genai"

	"github.com/seed-df90f812/agentstore/adapters/adk"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/window"
)

// calls is an event with calls or responses.
func calls(id, author string, parts ...*genai.Part) *session.Event {
	event := text(id, "", nil)
	event.Author, event.Content = author, &genai.Content{Parts: parts}
	return event
}

func call(id string) *genai.Part {
	return &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: "look", Args: map[string]any{"at": "it"}}}
}

func response(id string) *genai.Part {
	return &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: id, Name: "look", Response: map[string]any{"is": "there"}}}
}

// A prompt of package window has calls and their responses together, whatever its budget: an event may have several.
func TestWindow(t *testing.T) {
	t.Parallel()
	store := open(t)
	service := adk.NewSessionService(store)
	current := create(t, service, "jane", nil)
	for i := range 30 {
		n := fmt.Sprint(i)
		add(t, service, current, text("q"+n, "question", nil))
		add(t, service, current, calls("c"+n, "agent", &genai.Part{Text: "I think", Thought: true}, call("a"+n), call("b"+n), call("late"+n)))
		add(t, service, current, calls("r"+n, "agent", response("b"+n), response("a"+n)))
		add(t, service, current, calls("s"+n, "agent", call("single"+n)))
		add(t, service, current, calls("t"+n, "agent", response("single"+n)))
		if i%3 > 0 {
			add(t, service, current, calls("l"+n, "user", response("late"+n)))
		}
	}
	id, err := store.Sessions().Find(t.Context(), adk.SessionKey("shop", "jane", current.ID()))
	if err != nil {
		t.Fatal(err)
	}
	whole, cut := 0, 0
	for tokens := int64(200); tokens < 4000; tokens += 7 {
		for _, names := range []func(repo.Message) []string{adk.Calls, nil} {
			w, err := window.Read(t.Context(), store.Sessions(), id, window.Options{Tokens: tokens, Calls: names})
			if errors.Is(err, repo.ErrLimit) && tokens < 1000 {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			called := map[string]bool{}
			for _, m := range w.Messages {
				event, err := adk.Event(m)
				if err != nil {
					t.Fatal(err)
				}
				for _, part := range event.Content.Parts {
					switch {
					case part.FunctionCall != nil:
						called[part.FunctionCall.ID] = true
					case part.FunctionResponse != nil && !called[part.FunctionResponse.ID]:
						t.Fatalf("%d tokens: the response of %s has no call", tokens, part.FunctionResponse.ID)
					case part.FunctionResponse != nil:
						delete(called, part.FunctionResponse.ID)
						if part.FunctionResponse.ID[:1] == "l" {
							whole++
						}
					}
				}
			}
			if names != nil && len(called) > 0 {
				t.Fatalf("%d tokens: %v have no response", tokens, called)
			}
			if w.Cut {
				cut++
			}
		}
	}
	if whole == 0 || cut < 500 {
		t.Errorf("%d calls with two events of responses, %d prompts that were cut", whole, cut)
	}
	broken := repo.Message{Kind: "adk.event", CallID: "c", Payload: []byte("{")}
	if got := adk.Calls(repo.Message{CallID: "c"}); got != nil || adk.Calls(broken) != nil {
		t.Errorf("%q of what is no event", got)
	}
}

// An id that cannot be stored as one is in the event alone.
func TestCallIDs(t *testing.T) {
	t.Parallel()
	store := open(t)
	service := adk.NewSessionService(store)
	current := create(t, service, "jane", nil)
	for i, id := range []string{"", strings.Repeat("x", 2000), "a\x00b", "caf\xe9"} {
		add(t, service, current, calls(fmt.Sprint("c", i), "agent", call(id)))
	}
	wantEvents(t, get(t, service, current, session.GetRequest{}), "c0", "c1", "c2", "c3")
}

// The framework's own suite passes.
func TestSuite(t *testing.T) {
	t.Parallel()
	options := sessiontestsuite.SuiteOptions{SupportsUserProvidedSessionID: true}
	sessiontestsuite.RunServiceTests(t, options, func(t *testing.T) session.Service { return adk.NewSessionService(open(t)) })
}

func open(t *testing.T) repo.Store {
	t.Helper()
	store := memory.New()
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func create(t *testing.T, service session.Service, user string, state map[string]any) session.Session {
	t.Helper()
	created, err := service.Create(t.Context(), &session.CreateRequest{AppName: "shop", UserID: user, State: state})
	if err != nil {
		t.Fatal(err)
	}
	return created.Session
}

func get(t *testing.T, service session.Service, of session.Session, filter session.GetRequest) session.Session {
	t.Helper()
	filter.AppName, filter.UserID, filter.SessionID = of.AppName(), of.UserID(), of.ID()
	got, err := service.Get(t.Context(), &filter)
	if err != nil {
		t.Fatal(err)
	}
	return got.Session
}

func add(t *testing.T, service session.Service, to session.Session, event *session.Event) {
	t.Helper()
	if err := service.AppendEvent(t.Context(), to, event); err != nil {
		t.Fatal(err)
	}
}

func text(id, text string, delta map[string]any) *session.Event {
	return &session.Event{
		ID: id, Author: "user", Timestamp: time.Now(), Actions: session.EventActions{StateDelta: delta},
		LLMResponse: model.LLMResponse{Content: genai.NewContentFromText(text, genai.RoleUser)},
	}
}

func wantEvents(t *testing.T, of session.Session, want ...string) {
	t.Helper()
	var got []string
	for event := range of.Events().All() {
		got = append(got, event.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

func wantState(t *testing.T, of session.Session, want map[string]any) {
	t.Helper()
	if got := maps.Collect(of.State().All()); !maps.Equal(got, want) {
		t.Errorf("state %v, want %v", got, want)
	}
}

// An append to a session that was read before others appended is stored after theirs, and
// neither loses a key of the other.
func TestStaleHandles(t *testing.T) {
	t.Parallel()
	service := adk.NewSessionService(open(t))
	first := create(t, service, "ada", map[string]any{"step": "begin"})
	second := get(t, service, first, session.GetRequest{})
	for i, handle := range []session.Session{first, first, second, first} {
		id := fmt.Sprint(i)
		add(t, service, handle, text(id, id, map[string]any{id: id, "app:" + id: id, "user:" + id: id, "temp:" + id: id}))
	}
	wantEvents(t, first, "0", "1", "3")
	wantEvents(t, second, "2")
	now := get(t, service, first, session.GetRequest{})
	wantEvents(t, now, "0", "1", "2", "3")
	state := map[string]any{"step": "begin"}
	for i := range 4 {
		id := fmt.Sprint(i)
		state[id], state["app:"+id], state["user:"+id] = id, id, id
	}
	wantState(t, now, state)
	wantState(t, second, map[string]any{"step": "begin", "2": "2", "app:2": "2", "user:2": "2", "temp:2": "2"})

	if err := service.Delete(t.Context(), &session.DeleteRequest{AppName: "shop", UserID: "ada", SessionID: first.ID()}); err != nil {
		t.Fatal(err)
	}
	if err := service.AppendEvent(t.Context(), second, text("4", "4", nil)); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("an append to a deleted session: %v", err)
	}
	wantEvents(t, second, "2")
	wantState(t, create(t, service, "ada", nil), map[string]any{
		"app:0": "0", "app:1": "1", "app:2": "2", "app:3": "3", "user:0": "0", "user:1": "1", "user:2": "2", "user:3": "3",
	})
}

// An event is stored once, with its state; another one under its ID is refused whole.
func TestRepeatedEvents(t *testing.T) {
	t.Parallel()
	service := adk.NewSessionService(open(t))
	current := create(t, service, "ada", nil)
	event := text("e", "hello", map[string]any{"b": 1, "a": 2, "app:c": 3, "d": 4, "e": 5})
	add(t, service, current, event)
	add(t, service, current, text("f", "there", map[string]any{"a": "later"}))
	for range 8 { // the keys of a map have another order each time
		add(t, service, get(t, service, current, session.GetRequest{}), event)
	}
	add(t, service, current, event) // to a session that has it
	wantEvents(t, current, "e", "f")
	wantState(t, current, map[string]any{"a": "later", "b": 1, "app:c": 3, "d": 4, "e": 5})
	other, plain := create(t, service, "ada", nil), text("g", "only text", nil)
	add(t, service, other, plain)
	add(t, service, other, plain)
	wantEvents(t, other, "g")
	now := get(t, service, current, session.GetRequest{})
	wantEvents(t, now, "e", "f")
	wantState(t, now, map[string]any{"a": "later", "b": 1.0, "app:c": 3.0, "d": 4.0, "e": 5.0})
	for _, other := range []*session.Event{text("e", "other", nil), text("e", "hello", map[string]any{"a": "other"})} {
		if err := service.AppendEvent(t.Context(), current, other); !errors.Is(err, repo.ErrConflict) {
			t.Errorf("another event under a stored ID: %v", err)
		}
	}
	now = get(t, service, current, session.GetRequest{})
	wantEvents(t, now, "e", "f")
	wantState(t, now, map[string]any{"a": "later", "b": 1.0, "app:c": 3.0, "d": 4.0, "e": 5.0})
	for range 2 {
		add(t, service, current, text("", "without an id", nil))
	}
	wantEvents(t, get(t, service, current, session.GetRequest{}), "e", "f", "", "")
}

// Only the three prefixes make a scope, and only "temp:" is not stored. A handle that
// appends keeps what it was given; one that reads has what JSON has.
func TestState(t *testing.T) {
	t.Parallel()
	service := adk.NewSessionService(open(t))
	given := map[string]any{"app": 1, "apple:x": 2, "user": 3, "APP:x": 4, "app:": 5, "temp": 6, "temp:x": 7, "": 8}
	delete(given, "") // which the store refuses
	current := create(t, service, "ada", given)
	want := map[string]any{"app": 1.0, "apple:x": 2.0, "user": 3.0, "APP:x": 4.0, "app:": 5.0, "temp": 6.0}
	wantState(t, current, want)
	event := text("e", "hi", map[string]any{"n": 1, "temp:n": 2})
	add(t, service, current, event)
	if got, err := current.State().Get("n"); got != 1 || err != nil {
		t.Errorf("the handle has %v, %v", got, err)
	}
	if _, kept := event.Actions.StateDelta["temp:n"]; !kept {
		t.Error("the caller's event was changed")
	}
	event.Actions.StateDelta["n"] = "changed later"
	want["n"] = 1.0
	now := get(t, service, current, session.GetRequest{})
	wantState(t, now, want)
	if stored := now.Events().At(0).Actions.StateDelta; !maps.Equal(stored, map[string]any{"n": 1.0}) {
		t.Errorf("the event was stored with %v", stored)
	}
	wantState(t, create(t, service, "eve", nil), map[string]any{"app:": 5.0})
	if _, err := now.State().Get("no such key"); !errors.Is(err, session.ErrStateKeyNotExist) {
		t.Errorf("a missing key: %v", err)
	}
}

// Create makes a session that is new, with all of its state, or nothing.
func TestCreate(t *testing.T) {
	t.Parallel()
	service := adk.NewSessionService(open(t))
	request := session.CreateRequest{AppName: "a/b", UserID: "~", SessionID: "x/y", State: map[string]any{"app:k": "first"}}
	if _, err := service.Create(t.Context(), &request); err != nil {
		t.Fatal(err)
	}
	request.State = map[string]any{"app:k": "second", "own": "second"}
	if _, err := service.Create(t.Context(), &request); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("the second creation: %v", err)
	}
	got, err := service.Get(t.Context(), &session.GetRequest{AppName: "a/b", UserID: "~", SessionID: "x/y"})
	if err != nil {
		t.Fatal(err)
	}
	wantState(t, got.Session, map[string]any{"app:k": "first"})
	if s := got.Session; s.AppName() != "a/b" || s.UserID() != "~" || s.ID() != "x/y" || s.LastUpdateTime().IsZero() {
		t.Errorf("got %q %q %q at %v", s.AppName(), s.UserID(), s.ID(), s.LastUpdateTime())
	}
	if _, err := service.Get(t.Context(), &session.GetRequest{AppName: "a/b", UserID: "~/x", SessionID: "y"}); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("other names that join to the same text: %v", err)
	}
}

// What cannot be stored is refused before anything is written, without its contents.
func TestInvalid(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	service := adk.NewSessionService(open(t))
	current := create(t, service, "ada", nil)
	// A date without a year can be written as JSON, but not read.
	withoutYear := &genai.CitationMetadata{Citations: []*genai.Citation{{Title: secret}}}
	withoutYear.Citations[0].PublicationDate.Month = time.May
	for name, event := range map[string]*session.Event{
		"a channel":      text("1", secret, map[string]any{secret: make(chan int)}),
		"not a number":   text("2", secret, map[string]any{"k": math.NaN()}),
		"large state":    text("4", secret, map[string]any{"k": strings.Repeat("x", limits.MaxStateValueBytes)}),
		"a large event":  text("5", strings.Repeat("<", repo.MaxPayloadBytes/4), nil),
		"an empty key":   text("6", secret, map[string]any{"": 1}),
		"a large key":    text("7", secret, map[string]any{strings.Repeat("k", limits.MaxStateKeyBytes+1): 1}),
		"output":         {ID: "8", Output: func() {}},
		"a far year":     {ID: "9", Timestamp: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"no event":       nil,
		"unreadable":     {ID: "12", LLMResponse: model.LLMResponse{CitationMetadata: withoutYear}},
		"too many keys":  text("10", secret, manyKeys("k", limits.MaxStateChanges+1)),
		"one of several": text("11", secret, map[string]any{"app:ok": 1, "own": 2, "user:bad": make(chan int)}),
	} {
		err := service.AppendEvent(t.Context(), current, event)
		if invalid, ok := errors.AsType[*repo.InvalidError](err); !ok || invalid.Field == "" || strings.Contains(strings.ReplaceAll(err.Error(), `["hunter2"]`, ""), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, names := range [][3]string{{"", "u", "i"}, {"a", "", "i"}, {strings.Repeat("a", 252), "u", "i"}, {"a", strings.Repeat("u", 1000), strings.Repeat("i", 24)}, {"a", "\xff", "i"}} {
		if _, err := service.Create(t.Context(), &session.CreateRequest{AppName: names[0], UserID: names[1], SessionID: names[2]}); err == nil {
			t.Errorf("created %.9q", names)
		}
	}
	now := get(t, service, current, session.GetRequest{})
	wantEvents(t, now)
	wantState(t, now, map[string]any{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := service.AppendEvent(ended, current, text("e", "late", nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func manyKeys(prefix string, count int) map[string]any {
	state := map[string]any{}
	for i := range count {
		state[fmt.Sprint(prefix, i)] = i
	}
	return state
}

// Text that a message's content may not have is stored in the event all the same.
func TestText(t *testing.T) {
	t.Parallel()
	service := adk.NewSessionService(open(t))
	current := create(t, service, "ada", nil)
	const odd = "NUL \x00 <b> \u2028 \uFFFD \\ufffd עברית"
	event := text("e", odd, nil)
	event.Content.Parts = append(event.Content.Parts, nil) // which is no text at all
	add(t, service, current, event)
	if got := get(t, service, current, session.GetRequest{}).Events().At(0).Content.Parts[0].Text; got != odd {
		t.Errorf("read %q", got)
	}
}

// What a model or a tool says ends no run: U+FFFD stands for NUL in state, and for bytes that are no UTF-8.
func TestOddText(t *testing.T) {
	t.Parallel()
	service := adk.NewSessionService(open(t))
	current := create(t, service, "ada", map[string]any{"created": "a\x00b"})
	event := text("e", "caf\xe9", map[string]any{"k": "\x00\\\x00 \\u0000 \xff", "list": []string{"\x00"}, "object": map[string]any{"m\x00\xe9": 1}})
	event.Content.Parts = append(event.Content.Parts, genai.NewPartFromFunctionResponse("tool", map[string]any{"bytes": "\xff\xfe"}))
	add(t, service, current, event)
	add(t, service, current, event) // it is the same
	now := get(t, service, current, session.GetRequest{})
	wantEvents(t, now, "e")
	got := maps.Collect(now.State().All())
	want := map[string]any{
		"created": "a\ufffdb", "k": "\ufffd\\\ufffd \\u0000 \ufffd", "list": []any{"\ufffd"}, "object": map[string]any{"m\ufffd\ufffd": 1.0},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("state %q", got)
	}
	parts := now.Events().At(0).Content.Parts
	if parts[0].Text != "caf\ufffd" || parts[1].FunctionResponse.Response["bytes"] != "\ufffd\ufffd" {
		t.Errorf("%q, %q", parts[0].Text, parts[1].FunctionResponse.Response)
	}
}

// No caller can fill what others share, or a session, until they cannot be read: what would go beyond is refused,
// whole.
func TestStateBounds(t *testing.T) {
	t.Parallel()
	service := adk.NewSessionService(open(t))
	for prefix, keys := range map[string]int{"app:": 2500, "user:": 2500, "": 5000} {
		current := create(t, service, "ada", manyKeys(prefix+"created", 500))
		for i := 1; i < keys/500; i++ {
			add(t, service, current, text("", "more", manyKeys(fmt.Sprint(prefix, i, "-"), 500)))
		}
		for _, key := range []string{prefix + "beyond", "own"} { // as the framework does before it appends the event
			if err := current.State().Set(key, 1); err != nil {
				t.Fatal(err)
			}
		}
		event := text("beyond", "beyond", map[string]any{prefix + "beyond": 1, "own": 1})
		if err := service.AppendEvent(t.Context(), current, event); !errors.Is(err, repo.ErrLimit) {
			t.Errorf("%q: one key more: %v", prefix, err)
		}
		request := &session.CreateRequest{AppName: "shop", UserID: "ada", State: map[string]any{prefix + "beyond": 1}}
		if _, err := service.Create(t.Context(), request); prefix != "" && !errors.Is(err, repo.ErrLimit) {
			t.Errorf("%q: a creation: %v", prefix, err)
		}
		add(t, service, current, text("same", "same", map[string]any{prefix + "created0": 2}))
		now := get(t, service, current, session.GetRequest{})
		if value, _ := now.State().Get(prefix + "created0"); now.Events().Len() != keys/500 || value != 2.0 {
			t.Errorf("%q: %d events, %v", prefix, now.Events().Len(), value)
		}
	}
	current, large := create(t, service, "eve", nil), strings.Repeat("x", limits.MaxStateValueBytes/2)
	var err error
	for i := 0; i < 30 && err == nil; i++ {
		err = service.AppendEvent(t.Context(), current, text("", "large", map[string]any{fmt.Sprint("user:", i): large}))
	}
	if !errors.Is(err, repo.ErrLimit) || current.Events().Len() != 23 {
		t.Errorf("after %d values of 512 KiB: %v", current.Events().Len(), err)
	}
}

// However values that are there grow, a session can be read.
func TestStateGrows(t *testing.T) {
	t.Parallel()
	service := adk.NewSessionService(open(t))
	current := create(t, service, "ada", nil)
	grow := func(prefix string, from, to, size, each int) {
		values := map[string]any{}
		for i := from; i < to; i++ {
			values[fmt.Sprint(prefix, i)] = strings.Repeat("x", size)
			if len(values) == each {
				if err := service.AppendEvent(t.Context(), current, text("", "more", values)); err != nil && (size == 1 || !errors.Is(err, repo.ErrLimit)) {
					t.Fatal(err)
				}
				clear(values)
			}
		}
	}
	for prefix, count := range map[string]int{"app:": 2500, "user:": 2500, "": 5000} {
		grow(prefix, 0, count, 1, 250)
		grow(prefix, 0, count/200, limits.MaxStateValueBytes-2, 1)
		grow(prefix, count/200, count, 4<<10-2, 250)
	}
	get(t, service, current, session.GetRequest{})
}

// A session whose state is too large, which was made by other means, is listed, and the others with it.
func TestListTooLarge(t *testing.T) {
	t.Parallel()
	store := open(t)
	service := adk.NewSessionService(store)
	var all []session.Session
	for range 3 {
		all = append(all, create(t, service, "ada", map[string]any{"k": "v"}))
	}
	id, err := store.Sessions().Find(t.Context(), adk.SessionKey("shop", "ada", all[1].ID()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 11 {
		var changes []repo.StateChange
		for key := range manyKeys(fmt.Sprint(i, "-"), limits.MaxStateChanges) {
			changes = append(changes, repo.StateChange{Scope: repo.Scope{SessionID: id}, Key: key, Value: []byte("1")})
		}
		if _, err := store.State().Change(t.Context(), changes); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := service.List(t.Context(), &session.ListRequest{AppName: "shop"})
	if err != nil || len(listed.Sessions) != 3 {
		t.Fatalf("%d sessions, %v", len(listed.Sessions), err)
	}
	for _, s := range listed.Sessions {
		value, err := s.State().Get("k")
		if tooLarge := s.ID() == all[1].ID(); tooLarge != errors.Is(err, repo.ErrLimit) || !tooLarge && value != "v" {
			t.Errorf("%v, %v", value, err)
		}
	}
}

// NumRecentEvents and After select; messages that are no events are left out.
func TestFilters(t *testing.T) {
	t.Parallel()
	store := open(t)
	service := adk.NewSessionService(store)
	current := create(t, service, "ada", nil)
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, after := range []int{3, 1, 2, 4} { // their times need not ascend
		event := text(fmt.Sprint(i), "x", nil)
		event.Timestamp = begin.Add(time.Duration(after) * time.Second)
		add(t, service, current, event)
	}
	id, err := store.Sessions().Find(t.Context(), adk.SessionKey("shop", "ada", current.ID()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Sessions().Append(t.Context(), id, repo.NewMessage{Role: repo.RoleUser, Content: "by other means"}); err != nil {
		t.Fatal(err)
	}
	wantEvents(t, get(t, service, current, session.GetRequest{}), "0", "1", "2", "3")
	wantEvents(t, get(t, service, current, session.GetRequest{NumRecentEvents: -1}), "0", "1", "2", "3")
	wantEvents(t, get(t, service, current, session.GetRequest{NumRecentEvents: 3}), "2", "3")
	wantEvents(t, get(t, service, current, session.GetRequest{After: begin.Add(2 * time.Second)}), "0", "2", "3")
	wantEvents(t, get(t, service, current, session.GetRequest{NumRecentEvents: 4, After: begin.Add(3 * time.Second)}), "3")
	if err := service.AppendEvent(t.Context(), current, &session.Event{ID: "p", LLMResponse: model.LLMResponse{Partial: true}}); err != nil {
		t.Error(err)
	}
	wantEvents(t, current, "0", "1", "2", "3")
}

// A session that was made by other means does not keep those of ADK from being listed.
func TestListBesideOthers(t *testing.T) {
	t.Parallel()
	store := open(t)
	service := adk.NewSessionService(store)
	create(t, service, "ada", nil)
	for _, key := range []string{"", "no user", "ada"} {
		if _, err := store.Sessions().Create(t.Context(), repo.NewSession{Namespace: adk.AppScope("shop").Name, Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	if listed, err := service.List(t.Context(), &session.ListRequest{AppName: "shop"}); err != nil || len(listed.Sessions) != 1 {
		t.Errorf("listed %d sessions: %v", len(listed.Sessions), err)
	}
}

// A list has every session once, with its state, also if the states are too large to be
// read together.
func TestList(t *testing.T) {
	t.Parallel()
	service := adk.NewSessionService(open(t))
	const sessions, keys = 150, 990 // the user's keys count once for each session
	for i := range sessions {
		create(t, service, fmt.Sprint("user", i%3), map[string]any{"i": i})
	}
	create(t, service, "user0", manyKeys("own", keys))
	create(t, service, "user0", manyKeys("user:", keys))
	for user, want := range map[string]int{"": sessions + 2, "user0": sessions/3 + 2, "user1": sessions / 3, "nobody": 0} {
		listed, err := service.List(t.Context(), &session.ListRequest{AppName: "shop", UserID: user})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, s := range listed.Sessions {
			seen[s.ID()] = true
			count := len(maps.Collect(s.State().All()))
			if s.UserID() == "user0" {
				count -= keys // the user's
			}
			if count != 1 && count != keys && count != 0 || s.Events().Len() > 0 {
				t.Errorf("a session of %s has %d keys", s.UserID(), count)
			}
		}
		if len(seen) != want || len(listed.Sessions) != want {
			t.Errorf("%q: %d sessions, %d of them different, want %d", user, len(listed.Sessions), len(seen), want)
		}
	}
}
