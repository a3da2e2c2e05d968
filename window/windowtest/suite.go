// Package windowtest tests package window on a store.
package windowtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/window"
)

// Run tests the package on a store.
func Run(t *testing.T, store repo.Store) {
	for name, test := range map[string]func(*testing.T, repo.Store){
		"Read": testRead, "Pins": testPins, "Invalid": testInvalid, "Compact": testCompact,
		"Concurrent": testConcurrent, "Rewound": testRewound, "Fails": testFails, "Unanswered": testUnanswered,
		"UnansweredFar": testUnansweredFar, "UnderWay": testUnderWay, "GivenUp": testGivenUp,
		"Estimate": testEstimate, "Picture": testPicture, "ResultTwice": testResultTwice,
		"SameCallIDs": testSameCallIDs, "SeveralCalls": testSeveralCalls, "CompactLong": testCompactLong,
		"PinsRewound": testPinsRewound, "ForeignSummaries": testForeignSummaries, "CompactCalls": testCompactCalls,
		"Question": testQuestion, "QuestionFar": testQuestionFar, "Head": testHead, "HeadFar": testHeadFar, "HeadMeanwhile": testHeadMeanwhile,
		"LateResult": testLateResult, "PinsCovered": testPinsCovered, "CompactPinned": testCompactPinned,
		"CompactMessages": testCompactMessages, "Steps": testSteps, "StepsCompacted": testStepsCompacted, "StepsOdd": testStepsOdd,
		"FarCalls": testFarCalls, "SeveralResults": testSeveralResults,
		"CompactLittleRoom": testCompactLittleRoom, "Instructions": testInstructions,
		"AskedOnce": testAskedOnce, "CompactUnsure": testCompactUnsure, "CompactCounted": testCompactCounted, "Branch": testBranch, "Aside": testAside,
		"Prompts": func(t *testing.T, store repo.Store) { Prompts(t, store, 200) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, store)
		})
	}
}

func newSession(t *testing.T, store repo.Store) repo.ID {
	t.Helper()
	session, err := store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	return session.ID
}

// add appends questions and answers of 10 tokens each.
func add(t *testing.T, store repo.Store, id repo.ID, count int) {
	t.Helper()
	var messages []repo.NewMessage
	for i := range count {
		role := repo.RoleUser
		if i%2 == 1 {
			role = repo.RoleAssistant
		}
		messages = append(messages, repo.NewMessage{Role: role, Content: fmt.Sprint("message ", i), Tokens: 10, Counter: "test"})
	}
	if _, err := store.Sessions().Append(t.Context(), id, messages...); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, store repo.Store, id repo.ID, o window.Options) window.Window {
	t.Helper()
	w, err := window.Read(t.Context(), store.Sessions(), id, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The instructions stay, however old they are, with the newest of the others that fit.
func testRead(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	if _, err := store.Sessions().Append(t.Context(), id, repo.NewMessage{Role: repo.RoleSystem, Content: "be brief", Tokens: 5}); err != nil {
		t.Fatal(err)
	}
	add(t, store, id, 100)
	w := read(t, store, id, window.Options{Tokens: 205})
	if w.Messages[0].Content != "be brief" || !w.Cut || w.Tokens > 205 || w.Tokens < 105 || len(w.Dropped) > 0 {
		t.Errorf("%+v", w)
	}
	for i, m := range w.Messages[1:] {
		if m.Sequence != w.From+int64(i) {
			t.Errorf("message %d is %d, from %d", i, m.Sequence, w.From)
		}
	}
	if last := w.Messages[len(w.Messages)-1]; last.Sequence != 100 || w.Messages[1].Role != repo.RoleUser {
		t.Errorf("from %+v to %+v", w.Messages[1], last)
	}
	if w := read(t, store, id, window.Options{Tokens: 10_000}); len(w.Messages) != 101 || w.Cut {
		t.Errorf("%d messages, cut: %t", len(w.Messages), w.Cut)
	}
	if w := read(t, store, id, window.Options{Tokens: 10_000, Messages: 11}); len(w.Messages) > 11 || !w.Cut {
		t.Errorf("%d messages, cut: %t", len(w.Messages), w.Cut)
	}
	if w := read(t, store, newSession(t, store), window.Options{Tokens: 1}); len(w.Messages) > 0 || w.Cut {
		t.Errorf("of an empty session: %+v", w)
	}
}

func testPins(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	pinned, err := store.Sessions().Append(t.Context(), id, repo.NewMessage{Role: repo.RoleUser, Content: "my name is Ann", Tokens: 10})
	if err != nil {
		t.Fatal(err)
	}
	call, err := store.Sessions().Append(t.Context(), id,
		repo.NewMessage{Role: repo.RoleAssistant, Kind: "tool_call", CallID: "c", Tokens: 10},
		repo.NewMessage{Role: repo.RoleTool, CallID: "c", Tokens: 10})
	if err != nil {
		t.Fatal(err)
	}
	add(t, store, id, 100)
	w := read(t, store, id, window.Options{Tokens: 100, Pins: []repo.ID{pinned[0].ID, call[1].ID}})
	if len(w.Messages) < 4 || w.Messages[0].ID != pinned[0].ID || w.Messages[1].ID != call[0].ID || w.Messages[2].ID != call[1].ID || w.Tokens > 100 {
		t.Errorf("%+v", w)
	}
	last := appendAll(t, store, id, repo.NewMessage{Role: repo.RoleUser, Content: "last", Tokens: 5})[0]
	for _, test := range []struct {
		tokens   int64
		pins     []repo.ID
		messages string
		unpinned []repo.ID
	}{
		{34, []repo.ID{pinned[0].ID, call[1].ID}, "my name is Ann message 99 last", []repo.ID{call[1].ID}},
		{34, []repo.ID{call[1].ID, pinned[0].ID}, "  last", []repo.ID{pinned[0].ID}},
		{14, []repo.ID{call[1].ID, last.ID, pinned[0].ID}, "last", []repo.ID{call[1].ID, pinned[0].ID}},
		{100, []repo.ID{repo.NewID(), last.ID, all(t, store, id)[0].ID}, "", []repo.ID{repo.NewID()}},
	} {
		w := read(t, store, id, window.Options{Tokens: test.tokens, Pins: test.pins})
		if got := contents(w.Messages); test.messages != "" && got != test.messages {
			t.Errorf("%d tokens: %s", test.tokens, got)
		}
		if test.tokens == 100 {
			test.unpinned = test.pins[:1]
		}
		if !slices.Equal(w.Unpinned, test.unpinned) {
			t.Errorf("%d tokens: %v are not there", test.tokens, w.Unpinned)
		}
	}
}

// all returns the messages of a session.
func all(t *testing.T, store repo.Store, id repo.ID) (all []repo.Message) {
	t.Helper()
	for m, err := range store.Sessions().Messages(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func testInvalid(t *testing.T, store repo.Store) {
	for field, o := range map[string]window.Options{
		"options.Tokens":   {},
		"options.Messages": {Tokens: 1, Messages: 1001},
		"options.Pins":     {Tokens: 1, Pins: make([]repo.ID, 101)},
	} {
		_, err := window.Read(t.Context(), store.Sessions(), repo.NewID(), o)
		_, compacted := window.Compact(t.Context(), store, repo.NewID(), o, nil)
		for _, err := range []error{err, compacted} {
			if invalid, ok := errors.AsType[*repo.InvalidError](err); !ok || invalid.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
	}
	if _, err := window.Read(t.Context(), store.Sessions(), repo.NewID(), window.Options{Tokens: 1}); !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("of no session: %v", err)
	}
}

// join is a summary that says what it was given.
func join(_ context.Context, messages []repo.Message) (string, error) {
	var parts []string
	for _, m := range messages {
		parts = append(parts, fmt.Sprint(m.Sequence))
	}
	return strings.Join(parts, " "), nil
}

// A session is compacted at 80 % of the budget, to 40 %, and again on top of its last summary. What is covered stays stored. The
// begin of the prompt stays in between.
func testCompact(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 1000, Estimate: func(repo.Message) int64 { return 10 }}
	add(t, store, id, 80)
	if added, err := window.Compact(t.Context(), store, id, o, join); added || err != nil {
		t.Errorf("at 80 %%: %t, %v", added, err)
	}
	add(t, store, id, 2)
	if added, err := window.Compact(t.Context(), store, id, o, join); !added || err != nil {
		t.Fatalf("above 80 %%: %t, %v", added, err)
	}
	w := read(t, store, id, o)
	if w.Messages[0].Kind != repo.KindSummary || w.Tokens > 500 || w.Tokens < 300 || w.Cut {
		t.Fatalf("%+v", w)
	}
	next, text := w.Messages[1].Sequence, w.Messages[0].Content
	if !strings.HasSuffix(" "+text, fmt.Sprintf(" %d", next-1)) || !strings.HasPrefix(text, "0 1 2 ") {
		t.Errorf("the summary has %s; then comes %d", text, next)
	}
	for first := w.Messages[0]; ; {
		add(t, store, id, 2)
		w := read(t, store, id, o)
		if w.Messages[0].ID != first.ID || w.Cut {
			t.Errorf("the prompt begins with %+v", w.Messages[0])
		}
		if w.Tokens > 800 {
			break
		}
	}
	if added, err := window.Compact(t.Context(), store, id, o, join); !added || err != nil {
		t.Fatalf("again: %t, %v", added, err)
	}
	again := read(t, store, id, o)
	if !strings.HasPrefix(again.Messages[0].Content, fmt.Sprint(w.Messages[0].Sequence)+" ") || again.Messages[0].ID == w.Messages[0].ID {
		t.Errorf("the second summary has %s", again.Messages[0].Content)
	}
	// What was never compacted is more than fits.
	long := newSession(t, store)
	add(t, store, long, 500)
	if added, err := window.Compact(t.Context(), store, long, o, join); !added || err != nil {
		t.Fatalf("a long one: %t, %v", added, err)
	}
	if w := read(t, store, long, o); w.Cut || w.Tokens > 800 || w.Messages[0].Kind != repo.KindSummary {
		t.Errorf("%d tokens, cut: %t", w.Tokens, w.Cut)
	}
	all, err := store.Sessions().MessagesFrom(t.Context(), long, 0, 1000)
	if err != nil || len(all) < 501 {
		t.Errorf("%d messages are stored, %v", len(all), err)
	}
}

// One of any number of workers adds the summary, and appends go on meanwhile.
func testConcurrent(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 1000, Estimate: func(repo.Message) int64 { return 10 }}
	add(t, store, id, 90)
	var added, running atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			done, err := window.Compact(t.Context(), store, id, o, func(ctx context.Context, messages []repo.Message) (string, error) {
				if running.Add(1) > 1 {
					t.Error("two summarize at once")
				}
				defer running.Add(-1)
				add(t, store, id, 2)
				return join(ctx, messages)
			})
			if err != nil {
				t.Error(err)
			}
			if done {
				added.Add(1)
			}
		})
	}
	all.Wait()
	summaries := 0
	for m, err := range store.Sessions().Messages(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == repo.KindSummary {
			summaries++
		}
	}
	if added.Load() != 1 || summaries != 1 {
		t.Errorf("%d workers have added a summary, %d are stored", added.Load(), summaries)
	}
}

// If the session is rewound while a summary is written, none covers what is left behind, or what the user has said last. If it is rewound
// later to a message that is covered, there is no summary.
func testRewound(t *testing.T, store repo.Store) {
	o := window.Options{Tokens: 1000, Estimate: func(repo.Message) int64 { return 10 }}
	rewind := func(id repo.ID, after int64, messages ...repo.NewMessage) {
		if _, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, After: &after, Messages: messages}); err != nil {
			t.Error(err)
		}
	}
	edited := repo.NewMessage{Role: repo.RoleUser, Content: "no"}
	for name, test := range map[string]struct {
		after    int64 // from the last message that the summary would cover on
		messages []repo.NewMessage
		added    bool
	}{
		"before what is covered": {-20, []repo.NewMessage{edited}, false},
		"an answer made again":   {-1, nil, false}, // to a question
		"an answer shown again":  {0, nil, false},
		"a new question":         {0, []repo.NewMessage{edited}, true},
		"a question after that":  {1, nil, true},
	} {
		id, head := newSession(t, store), int64(0)
		add(t, store, id, 90)
		added, err := window.Compact(t.Context(), store, id, o, func(ctx context.Context, messages []repo.Message) (string, error) {
			head = messages[len(messages)-1].Sequence + test.after
			rewind(id, head, test.messages...)
			return join(ctx, messages)
		})
		w := read(t, store, id, o)
		asked := slices.ContainsFunc(w.Messages, func(m repo.Message) bool { return m.Role == repo.RoleUser })
		if added != test.added || err != nil || !asked || (w.Messages[0].Kind == repo.KindSummary) != test.added {
			t.Errorf("%s: %t, %v, %+v", name, added, err, w)
		}
	}
	id := newSession(t, store)
	add(t, store, id, 90)
	if added, err := window.Compact(t.Context(), store, id, o, join); !added || err != nil {
		t.Fatal(added, err)
	}
	if rewind(id, 3, edited); len(read(t, store, id, o).Messages) != 5 {
		t.Errorf("rewound later: %+v", read(t, store, id, o))
	}
}

// What summarize returns is returned, nothing is added, and the lease is free.
func testFails(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 1000, Estimate: func(repo.Message) int64 { return 10 }}
	add(t, store, id, 90)
	refused := errors.New("the model is away")
	added, err := window.Compact(t.Context(), store, id, o, func(context.Context, []repo.Message) (string, error) { return "", refused })
	if added || !errors.Is(err, refused) {
		t.Errorf("%t, %v", added, err)
	}
	if added, err := window.Compact(t.Context(), store, id, o, join); !added || err != nil {
		t.Errorf("again: %t, %v", added, err)
	}
}
