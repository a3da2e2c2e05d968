package windowtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/window"
)

func short(context.Context, []repo.Message) (string, error) { return "short", nil }

func appendAll(t *testing.T, store repo.Store, id repo.ID, messages ...repo.NewMessage) []repo.Message {
	t.Helper()
	stored, err := store.Sessions().Append(t.Context(), id, messages...)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// addCall appends a call and its result, of so many tokens.
func addCall(t *testing.T, store repo.Store, id repo.ID, call string, tokens, result int64) {
	t.Helper()
	appendAll(t, store, id, repo.NewMessage{Role: repo.RoleAssistant, CallID: call, Tokens: tokens}, repo.NewMessage{Role: repo.RoleTool, CallID: call, Tokens: result})
}

// The question stays, also if it is far behind what can be read, and a prompt without the newest message is an error.
func testQuestion(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 400}
	appendAll(t, store, id, repo.NewMessage{Role: repo.RoleUser, Content: "before", Tokens: 10}, repo.NewMessage{Role: repo.RoleUser, Content: "the question", Tokens: 10})
	for i := range 30 {
		addCall(t, store, id, fmt.Sprint("call ", i), 10, 40)
		w := check(t, store, id, o)
		if at := slices.IndexFunc(w.Messages, func(m repo.Message) bool { return m.Role == repo.RoleUser && m.Content == "the question" }); at < 0 {
			t.Fatalf("%d calls later the question is missing: %+v", i+1, w.Messages)
		}
	}
	addCall(t, store, id, "large", 10, 385)
	if w, err := window.Read(t.Context(), store.Sessions(), id, o); !errors.Is(err, repo.ErrLimit) {
		t.Errorf("a prompt without the newest result: %+v, %v", w, err)
	}
	added, err := window.Compact(t.Context(), store, id, o, short)
	if !added || !errors.Is(err, repo.ErrLimit) {
		t.Errorf("a run that cannot fit: %t, %v", added, err)
	}
	check(t, store, id, window.Options{Tokens: 500})
}

// A summary that was added meanwhile keeps no answer from being appended whose question it follows. Anything else does.
func testHead(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 100}
	compact := func() {
		t.Helper()
		if added, err := window.Compact(t.Context(), store, id, o, short); !added || err != nil {
			t.Fatalf("%t, %v", added, err)
		}
	}
	add(t, store, id, 9)
	head := int64(8)
	answer := repo.Turn{SessionID: id, ID: "answer", Head: &head, Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Content: "an answer", Tokens: 60}}}
	compact()
	if _, err := store.Sessions().AppendTurn(t.Context(), answer); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("the way without: %v", err)
	}
	appended, err := window.AppendTurn(t.Context(), store.Sessions(), answer)
	if err != nil || len(appended.Messages) != 1 || appended.Messages[0].Follows != 9 || head != 8 {
		t.Errorf("%+v, %v", appended, err)
	}
	answer.ID, answer.Messages[0].Content = "another", "another answer"
	if _, err := window.AppendTurn(t.Context(), store.Sessions(), answer); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("two answers: %v", err)
	}
	head = appended.Messages[0].Sequence
	compact()
	again := int64(8)
	if _, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, After: &again}); err != nil {
		t.Fatal(err)
	}
	if _, err := window.AppendTurn(t.Context(), store.Sessions(), answer); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("an answer on another branch: %v", err)
	}
}

// There may be more summaries than one look finds.
func testHeadFar(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	add(t, store, id, 1)
	for range 2 {
		summaries := make([]repo.NewMessage, 700)
		for i := range summaries {
			summaries[i] = repo.NewMessage{Role: repo.RoleSystem, Kind: repo.KindSummary, Content: "short", Metadata: []byte(`{"summary":{"to":0}}`)}
		}
		appendAll(t, store, id, summaries...)
	}
	turn := repo.Turn{SessionID: id, ID: "answer", Head: new(int64), Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Content: "an answer"}}}
	for again := range 2 {
		appended, err := window.AppendTurn(t.Context(), store.Sessions(), turn)
		if err != nil || appended.Messages[0].Sequence != 1401 || appended.Repeated != (again == 1) {
			t.Errorf("%+v, %v", appended, err)
		}
	}
}

// meanwhile does something once, before the first Read.
type meanwhile struct {
	repo.Sessions
	do func()
}

func (m *meanwhile) Read(ctx context.Context, read repo.ReadSessions) (repo.Snapshot, error) {
	if do := m.do; do != nil {
		m.do = nil
		do()
	}
	return m.Sessions.Read(ctx, read)
}

// Another caller stores the same turn while it is found out that only summaries came between.
func testHeadMeanwhile(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	add(t, store, id, 1)
	appendAll(t, store, id, repo.NewMessage{Role: repo.RoleSystem, Kind: repo.KindSummary, Content: "short", Metadata: []byte(`{"summary":{"to":0}}`)})
	turn := repo.Turn{SessionID: id, ID: "answer", Head: new(int64), Messages: []repo.NewMessage{{Role: repo.RoleAssistant, Content: "an answer"}}}
	sessions := &meanwhile{Sessions: store.Sessions()}
	sessions.do = func() {
		if appended, err := window.AppendTurn(t.Context(), store.Sessions(), turn); err != nil || appended.Repeated {
			t.Errorf("%+v, %v", appended, err)
		}
	}
	if appended, err := window.AppendTurn(t.Context(), sessions, turn); err != nil || !appended.Repeated || sessions.do != nil {
		t.Errorf("%+v, %v", appended, err)
	}
}

// A pinned call that a summary covers comes with its results, before the summary. A pin that none covers comes after it.
func testPinsCovered(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 100}
	add(t, store, id, 1)
	addCall(t, store, id, "pinned", 5, 5)
	appendAll(t, store, id, repo.NewMessage{Role: repo.RoleSystem, Kind: repo.KindSummary, Content: "short", Metadata: []byte(`{"summary":{"to":2}}`), Tokens: 5})
	pin := appendAll(t, store, id, repo.NewMessage{Role: repo.RoleUser, Content: "after", Tokens: 5})[0]
	calls, err := store.Sessions().MessagesOfCall(t.Context(), id, "pinned")
	if err != nil || len(calls) != 2 {
		t.Fatalf("%+v, %v", calls, err)
	}
	o.Pins = []repo.ID{calls[0].ID, pin.ID}
	var sequences []int64
	for _, m := range check(t, store, id, o).Messages {
		sequences = append(sequences, m.Sequence)
	}
	if !slices.Equal(sequences, []int64{1, 2, 3, 4}) {
		t.Errorf("%d, want the call, its result, the summary, and the message after it", sequences)
	}
}

// A result whose call is far behind brings it, and stays: the call is not joined with others that were made later.
func testLateResult(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 100}
	appendAll(t, store, id, repo.NewMessage{Role: repo.RoleUser, Content: "the question", Tokens: 5}, repo.NewMessage{Role: repo.RoleAssistant, CallID: "slow", Tokens: 5},
		repo.NewMessage{Role: repo.RoleAssistant, Content: "wait", Tokens: 5})
	for i := range 20 {
		addCall(t, store, id, fmt.Sprint("call ", i), 5, 5)
	}
	appendAll(t, store, id, repo.NewMessage{Role: repo.RoleTool, CallID: "slow", Tokens: 20})
	w := check(t, store, id, o)
	if len(w.Messages) < 3 || w.Messages[0].Content != "the question" || w.Messages[1].CallID != "slow" || w.Messages[2].CallID != "slow" || w.Messages[2].Role != repo.RoleTool {
		t.Errorf("%+v", w.Messages)
	}
}

// A large pin is no reason to summarize again what a summary covers.
func testCompactPinned(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	pin := appendAll(t, store, id, repo.NewMessage{Role: repo.RoleUser, Content: "pinned", Tokens: 850})[0]
	add(t, store, id, 90)
	last, calls := int64(-1), 0
	_, err := window.Compact(t.Context(), store, id, window.Options{Tokens: 1000, Pins: []repo.ID{pin.ID}}, func(_ context.Context, messages []repo.Message) (string, error) {
		newest := messages[len(messages)-1].Sequence
		if calls++; calls > 1 && newest <= last || calls > 20 {
			return "", fmt.Errorf("call %d covers up to %d, the one before %d", calls, newest, last)
		}
		last = newest
		return "short", nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A session that has too many messages keeps the newest, as one that has too many tokens.
func testCompactMessages(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 1000, Messages: 10}
	add(t, store, id, 15)
	added, err := window.Compact(t.Context(), store, id, o, short)
	w := check(t, store, id, o)
	if !added || err != nil || len(w.Messages) < 3 || w.Messages[len(w.Messages)-1].Sequence != 14 || w.Cut {
		t.Errorf("%t, %v: %+v", added, err, w)
	}
}

// A summary that cannot be added is no reason to pay for another one at each turn, in whatever process.
func testCompactLong(t *testing.T, store repo.Store) {
	for name, text := range map[string]string{"long": strings.Repeat("long ", 1000), "empty": "", "no text": "a\x00"} {
		id, o := newSession(t, store), window.Options{Tokens: 1000}
		add(t, store, id, 90)
		calls, failures := 0, 0
		turn := func() {
			t.Helper()
			added, err := window.Compact(t.Context(), store, id, o, func(context.Context, []repo.Message) (string, error) {
				calls++
				return text, nil
			})
			if errors.Is(err, repo.ErrLimit) || errors.Is(err, repo.ErrInvalid) {
				failures++
			} else if err != nil || added {
				t.Errorf("%s: %t, %v", name, added, err)
			}
		}
		for range 20 {
			turn()
			add(t, store, id, 2)
		}
		if calls != 1 || failures != 1 {
			t.Errorf("%s: %d calls and %d failures in 20 turns", name, calls, failures)
		}
		if w := read(t, store, id, o); len(w.Messages) < 60 || w.Messages[0].Kind != "" {
			t.Errorf("%s: %+v", name, w)
		}
		leases, err := store.Leases().List(t.Context(), repo.LeaseFilter{Kind: "compact", Name: id.String(), Held: true}, repo.Page{})
		if err != nil || len(leases.Items) != 1 || leases.Items[0].ExpiresAt.Sub(leases.Items[0].AcquiredAt) < 50*time.Minute {
			t.Fatalf("%s: %+v, %v", name, leases, err)
		}
		if err := store.Leases().Release(t.Context(), leases.Items[0]); err != nil {
			t.Fatal(err)
		}
		if turn(); calls != 2 {
			t.Errorf("%s: %d calls after the pause", name, calls)
		}
	}
}

// unsure has sessions whose answers to AppendTurn are lost: the first one before it is stored, the second one afterwards.
type unsure struct {
	repo.Sessions
	turns int
}

func (u *unsure) AppendTurn(ctx context.Context, turn repo.Turn) (repo.AppendedTurn, error) {
	switch u.turns++; u.turns {
	case 1:
		return repo.AppendedTurn{}, repo.ErrUnavailable
	case 2:
		_, err := u.Sessions.AppendTurn(ctx, turn)
		return repo.AppendedTurn{}, errors.Join(repo.ErrUnknownOutcome, err)
	}
	return u.Sessions.AppendTurn(ctx, turn)
}

type unsureStore struct {
	repo.Store
	sessions *unsure
}

func (s unsureStore) Sessions() repo.Sessions { return s.sessions }

// counted has sessions that count a token for each byte, as a store with a counter does.
type counted struct{ repo.Sessions }

func (c counted) AppendTurn(ctx context.Context, turn repo.Turn) (repo.AppendedTurn, error) {
	for i := range turn.Messages {
		turn.Messages[i].Tokens = int64(len(turn.Messages[i].Content))
	}
	return c.Sessions.AppendTurn(ctx, turn)
}

type countedStore struct{ repo.Store }

func (s countedStore) Sessions() repo.Sessions { return counted{s.Store.Sessions()} }

// A summary in which the store counts more tokens than its part, so that no prompt would fit beside it, does not stay.
func testCompactCounted(t *testing.T, store repo.Store) {
	id, calls, o := newSession(t, store), 0, window.Options{Tokens: 1000}
	add(t, store, id, 90)
	for i := range 2 {
		added, err := window.Compact(t.Context(), countedStore{store}, id, o, func(context.Context, []repo.Message) (string, error) {
			calls++
			return strings.Repeat("x", 1100), nil
		})
		if added || errors.Is(err, repo.ErrLimit) != (i == 0) {
			t.Errorf("%t, %v", added, err)
		}
	}
	if w, err := window.Read(t.Context(), store.Sessions(), id, o); err != nil || len(w.Messages) < 60 || calls != 1 {
		t.Errorf("%d messages after %d calls: %v", len(w.Messages), calls, err)
	}
}

// A summary that was paid for is not thrown away because of one lost answer.
func testCompactUnsure(t *testing.T, store repo.Store) {
	id, calls := newSession(t, store), 0
	add(t, store, id, 90)
	added, err := window.Compact(t.Context(), unsureStore{store, &unsure{Sessions: store.Sessions()}}, id, window.Options{Tokens: 1000}, func(context.Context, []repo.Message) (string, error) {
		calls++
		return "short", nil
	})
	if !added || err != nil || calls != 1 || len(all(t, store, id)) != 91 {
		t.Errorf("%t, %v after %d calls: %d messages", added, err, calls, len(all(t, store, id)))
	}
}

// What always stays is not counted: a session that has little room is not compacted at each turn.
func testCompactLittleRoom(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 1000}
	instruction := repo.NewMessage{Role: repo.RoleSystem, Content: "instruction", Tokens: 300}
	pins := appendAll(t, store, id, instruction, repo.NewMessage{Role: repo.RoleUser, Content: "pin", Tokens: 200},
		repo.NewMessage{Role: repo.RoleUser, Content: "too large", Tokens: 900})
	o.Pins = []repo.ID{pins[1].ID, pins[2].ID}
	calls := 0
	for range 100 {
		add(t, store, id, 2)
		_, err := window.Compact(t.Context(), store, id, o, func(context.Context, []repo.Message) (string, error) {
			calls++
			return "short", nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if w := read(t, store, id, o); w.Cut {
			t.Fatal("messages were left out, though they can be summarized")
		}
	}
	if calls < 5 || calls > 15 {
		t.Errorf("%d summaries of 2,000 tokens with room for 500", calls)
	}
	for range 2 { // what stays leaves no room for any summary
		_, err := window.Compact(t.Context(), store, id, window.Options{Tokens: 330}, func(context.Context, []repo.Message) (string, error) {
			t.Error("a summary is paid for that cannot be added")
			return "s", nil
		})
		if !errors.Is(err, repo.ErrLimit) {
			t.Error(err)
		}
	}
}

// Instructions that do not fit have a way out: the transcript can begin again.
func testInstructions(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 100}
	for range 11 {
		appendAll(t, store, id, repo.NewMessage{Role: repo.RoleSystem, Content: "found in the library", Tokens: 10}, said(repo.RoleUser, "question"))
	}
	_, err := window.Read(t.Context(), store.Sessions(), id, o)
	_, compacted := window.Compact(t.Context(), store, id, o, short)
	for _, err := range []error{err, compacted} {
		if !errors.Is(err, repo.ErrLimit) || !strings.Contains(err.Error(), "instructions") || !strings.Contains(err.Error(), "After") {
			t.Errorf("%v", err)
		}
	}
	begin := int64(-1)
	_, err = store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, After: &begin, Messages: []repo.NewMessage{
		{Role: repo.RoleSystem, Content: "all in one", Tokens: 10}, {Role: repo.RoleUser, Content: "what was said", Tokens: 10},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(read(t, store, id, o).Messages); got != "all in one what was said" {
		t.Error(got)
	}
}

// A pin that is not in the transcript is not in the prompt, and neither are messages of its call on other branches.
func testPinsRewound(t *testing.T, store repo.Store) {
	id := newSession(t, store)
	add(t, store, id, 2)
	call := func(after *int64) []repo.Message {
		t.Helper()
		turn, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, After: after, Messages: []repo.NewMessage{
			{Role: repo.RoleAssistant, Kind: "tool_call", CallID: "c", Tokens: 10}, {Role: repo.RoleTool, CallID: "c", Content: "result", Tokens: 10},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return turn.Messages
	}
	one := int64(1)
	call(nil)
	second := call(&one)
	w := read(t, store, id, window.Options{Tokens: 1000, Pins: []repo.ID{second[0].ID}})
	if len(w.Messages) != 4 || w.Messages[2].ID != second[0].ID || w.Messages[3].ID != second[1].ID {
		t.Errorf("a call that was made on two branches: %+v", w.Messages)
	}
	if _, err := store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: id, After: &one}); err != nil {
		t.Fatal(err)
	}
	w = read(t, store, id, window.Options{Tokens: 1000, Pins: []repo.ID{second[0].ID}})
	if len(w.Messages) != 2 || len(w.Unpinned) != 1 {
		t.Errorf("a pin that was left behind: %+v", w)
	}
}

// Whatever the metadata of a message says that is called a summary, no other message gets lost.
func testForeignSummaries(t *testing.T, store repo.Store) {
	for _, metadata := range []string{
		`{}`, `{"summary":null}`, `{"summary":5}`, `{"summary":[5]}`, `{"summary":{"to":"5"}}`, `{"summary":{"to":5,"from":"x"}}`, `{"summary":{"to":1e400}}`,
		`{"summary":{"to":5.0}}`, `{"summary":{"to":-5}}`, `{"summary":{"to":99999999999999999999}}`, `{"summary":{"to":999999999999999999}}`,
		`{"Summary":{"TO":5}}`, `{"summary":{"to":10}}`, `{"summary":{"to":5},"Summary":{"to":7}}`, `{"summary":{"to":5,"To":9}}`, `{"summary":{"to":5,"tokens":"x"}}`,
		`{"summary":{"to":7},"summary":{"to":null}}`, `{"summary":{"to":7},"summary":{}}`,
	} {
		id := newSession(t, store)
		add(t, store, id, 10)
		if _, err := store.Sessions().Append(t.Context(), id, repo.NewMessage{Role: repo.RoleSystem, Kind: repo.KindSummary, Content: "s", Metadata: json.RawMessage(metadata)}); err != nil {
			if !errors.Is(err, repo.ErrInvalid) {
				t.Errorf("%s: %v", metadata, err)
			}
			continue
		}
		w, err := window.Read(t.Context(), store.Sessions(), id, window.Options{Tokens: 1000})
		if err != nil || w.Cut {
			t.Errorf("%s: %v, %+v", metadata, err, w)
			continue
		}
		var got []string
		for _, m := range w.Messages {
			got = append(got, fmt.Sprint(m.Sequence))
		}
		text := strings.Join(got, " ")
		if isDropped := len(w.Dropped) == 1 && w.Dropped[0].Sequence == 10; text != "10 6 7 8 9" && (text != "0 1 2 3 4 5 6 7 8 9" || !isDropped) {
			t.Errorf("%s: %s, without %+v", metadata, text, w.Dropped)
		}
	}
}

// Calls that are under way are not covered: their results come later. Nor is a call without its result because of where a page ends.
func testCompactCalls(t *testing.T, store repo.Store) {
	id, o := newSession(t, store), window.Options{Tokens: 1000, Messages: 10}
	add(t, store, id, 9)
	appendAll(t, store, id,
		repo.NewMessage{Role: repo.RoleAssistant, CallID: "c", Tokens: 10}, repo.NewMessage{Role: repo.RoleTool, CallID: "c", Tokens: 10})
	add(t, store, id, 20)
	if added, err := window.Compact(t.Context(), store, id, o, join); !added || err != nil {
		t.Fatal(added, err)
	}
	check(t, store, id, o)

	o = window.Options{Tokens: 100}
	id = newSession(t, store)
	add(t, store, id, 2)
	appendAll(t, store, id, repo.NewMessage{Role: repo.RoleAssistant, CallID: "c", Tokens: 70})
	if _, err := window.Compact(t.Context(), store, id, o, join); err != nil {
		t.Fatal(err)
	}
	appendAll(t, store, id, repo.NewMessage{Role: repo.RoleTool, CallID: "c", Tokens: 5, Content: "result"})
	w := check(t, store, id, o)
	if last := w.Messages[len(w.Messages)-1]; last.Content != "result" {
		t.Errorf("the prompt ends with %+v", last)
	}
}

// check checks that no summary covers a call without its results.
func check(t *testing.T, store repo.Store, id repo.ID, o window.Options) window.Window {
	t.Helper()
	w := read(t, store, id, o)
	if len(w.Dropped) > 0 {
		t.Errorf("dropped: %+v", w.Dropped)
	}
	for m, err := range store.Sessions().Messages(t.Context(), id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind != repo.KindSummary {
			continue
		}
		var says struct{ Summary struct{ From, To int64 } }
		if err := json.Unmarshal(m.Metadata, &says); err != nil {
			t.Fatal(err)
		}
		covered := map[string]int{}
		for c, err := range store.Sessions().Messages(t.Context(), id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if c.CallID != "" && c.Sequence <= says.Summary.To {
				covered[c.CallID]++
			}
		}
		for call, n := range covered {
			if n != 2 {
				t.Errorf("the summary covers up to %d: %d of call %s", says.Summary.To, n, call)
			}
		}
	}
	return w
}
