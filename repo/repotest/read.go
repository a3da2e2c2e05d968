package repotest

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	documents "github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/adapter"
)

func readTests() []test {
	return []test{
		onPlans("Sessions", testReadSessions),
		on("Messages", testReadMessages),
		on("Since", testReadSince),
		on("SinceImported", testReadSinceImported),
		on("Without", testReadWithout),
		onPlans("State", testReadState),
		on("Limits", testReadLimits),
	}
}

// read reads one session that exists.
func read(t *testing.T, s repo.Sessions, id repo.ID, read repo.ReadSessions) *repo.SessionSnapshot {
	t.Helper()
	read.IDs = []repo.ID{id}
	snapshot, err := s.Read(t.Context(), read)
	if must(t, snapshot, err); len(snapshot.Sessions) != 1 || snapshot.Sessions[0] == nil {
		t.Fatalf("one session gave %+v", snapshot.Sessions)
	}
	return snapshot.Sessions[0]
}

// Sessions are returned in the order of their ids, as Get returns them; one that does
// not exist is nil.
func testReadSessions(t *testing.T, r repo.Repositories) {
	s := r.Sessions()
	full, messages := stocked(t, r)
	for range 2 {
		if err := r.Plans().Link(t.Context(), full, fullPlan(t, r).ID); err != nil {
			t.Fatal(err)
		}
	}
	bare, missing := create(t, s), repo.NewID()
	snapshot, err := s.Read(t.Context(), repo.ReadSessions{IDs: []repo.ID{bare, missing, full, {}, bare}, Last: 2})
	if must(t, snapshot, err); len(snapshot.Sessions) != 5 {
		t.Fatalf("5 ids gave %d entries", len(snapshot.Sessions))
	}
	for i, id := range []repo.ID{0: bare, 2: full, 4: bare} {
		switch got := snapshot.Sessions[i]; {
		case id.IsZero() != (got == nil):
			t.Fatalf("entry %d is %+v", i, got)
		case got != nil:
			wantSession(t, got.Session, get(t, s, id))
			want := messages
			if id == bare {
				want = nil
			}
			if wantMessages(t, got.Messages, want); got.Cut {
				t.Error("messages are cut")
			}
		}
	}
	if snapshot.Sessions[3] != nil {
		t.Error("there is a session without an id")
	}
	// Without ids there is nothing, and without First or Last there are no messages.
	snapshot, err = s.Read(t.Context(), repo.ReadSessions{})
	if must(t, snapshot, err); len(snapshot.Sessions) > 0 {
		t.Errorf("no ids gave %d sessions", len(snapshot.Sessions))
	}
	got := read(t, s, full, repo.ReadSessions{})
	wantSession(t, got.Session, get(t, s, full))
	if got.Messages == nil || len(got.Messages) > 0 || got.Cut {
		t.Errorf("no messages were asked for: there are %d, nil: %t", len(got.Messages), got.Messages == nil)
	}
}

func testReadMessages(t *testing.T, s repo.Sessions) {
	id, other := create(t, s), create(t, s)
	all, others := appendTo(t, s, id, users(10)...), appendTo(t, s, other, users(4)...)
	for _, from := range []int64{0, 1, 4, 9, 10, 11, math.MaxInt64} {
		for _, count := range []int{1, 5, 10, 11, limits.MaxReadMessages / 2} {
			for _, ask := range []repo.ReadSessions{{First: count, From: from}, {Last: count, From: from}} {
				ask.IDs = []repo.ID{id, other}
				snapshot, err := s.Read(t.Context(), ask)
				must(t, snapshot, err)
				for i, stored := range [][]repo.Message{all, others} {
					want := stored[min(from, int64(len(stored))):]
					if ask.First > 0 {
						want = want[:min(count, len(want))]
					} else {
						want = want[max(0, len(want)-count):]
					}
					if wantMessages(t, snapshot.Sessions[i].Messages, want); snapshot.Sessions[i].Cut || t.Failed() {
						t.Fatalf("%+v: session %d, cut: %t", ask, i, snapshot.Sessions[i].Cut)
					}
				}
			}
		}
	}
}

// wantSince compares what Since selects with a search from end to end.
func wantSince(t *testing.T, s repo.Sessions, id repo.ID, all []repo.Message, since time.Time) {
	t.Helper()
	var from []repo.Message // those that are not before it
	for i, message := range all {
		if !message.CreatedAt.Before(since.Truncate(time.Microsecond)) {
			from = all[i:]
			break
		}
	}
	n := len(from)
	wantMessages(t, read(t, s, id, repo.ReadSessions{First: 100, Since: since}).Messages, from)
	wantMessages(t, read(t, s, id, repo.ReadSessions{First: 2, Since: since}).Messages, from[:min(2, n)])
	wantMessages(t, read(t, s, id, repo.ReadSessions{Last: 100, Since: since}).Messages, from)
	wantMessages(t, read(t, s, id, repo.ReadSessions{Last: 2, Since: since}).Messages, from[max(0, n-2):])
	later := from
	if first := len(all) - n; first < 5 {
		later = all[5:]
	}
	wantMessages(t, read(t, s, id, repo.ReadSessions{First: 100, From: 5, Since: since}).Messages, later)
	if t.Failed() {
		t.Fatalf("since %v: %d messages", since, n)
	}
}

func testReadSince(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	var all []repo.Message
	for count := range 5 {
		tick()
		all = append(all, appendTo(t, s, id, users(count+1)...)...)
	}
	for _, message := range all {
		for _, distance := range []time.Duration{-time.Microsecond, 0, 999, time.Microsecond} {
			wantSince(t, s, id, all, message.CreatedAt.Add(distance).In(time.FixedZone("", 3600)))
		}
	}
	for _, since := range []time.Time{time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		wantSince(t, s, id, all, since)
	}
	if got := read(t, s, create(t, s), repo.ReadSessions{First: 1, Since: time.Now()}); len(got.Messages) > 0 {
		t.Error("an empty session has messages")
	}
}

// An import stores the times of its document, which may go backwards, or be ahead of the
// clock. Whatever they are, all that was appended since a time is selected, and what is
// selected is contiguous.
func testReadSinceImported(t *testing.T, s repo.Sessions) {
	now := time.Now().UTC().Truncate(time.Hour)
	for _, hours := range [][]int{{-3, -1, -2, -1, -4}, {9, 8, 7}, {-5, 9}, {-5, -4, 9, 8, -3, 9}} {
		id := create(t, s)
		session := get(t, s, id)
		session.MessageCount = int64(len(hours))
		remove(t, s, id)
		var document bytes.Buffer
		writer, err := documents.NewWriter(&document, session, nil)
		must(t, writer, err)
		for i, hour := range hours {
			err := writer.Write(repo.Message{
				SessionID: id, ID: repo.NewID(), Sequence: int64(i), Follows: int64(i) - 1, Role: repo.RoleUser, Content: "x", Metadata: []byte("{}"),
				CreatedAt: now.Add(time.Duration(hour) * time.Hour),
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		importFrom(t, s, &document)
		for range 4 {
			appendTo(t, s, id, user("appended"))
			tick()
		}
		all := readAll(t, s, id)
		for at := len(hours); at < len(all); at++ {
			since := all[at].CreatedAt
			got := read(t, s, id, repo.ReadSessions{First: 100, Since: since}).Messages
			if len(got) < len(all)-at {
				t.Fatalf("times %v: of %d messages appended since then there are %d", hours, len(all)-at, len(got))
			}
			wantMessages(t, got, all[len(all)-len(got):])
			first := got[0]
			if first.CreatedAt.Before(since) || first.Sequence > 0 && !all[first.Sequence-1].CreatedAt.Before(since) {
				t.Errorf("times %v: message %d is not the first one since then", hours, first.Sequence)
			}
		}
	}
}

func testReadWithout(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	empty := user("empty payload")
	empty.Payload = []byte{}
	stored := appendTo(t, s, id, fullMessage(), empty, user("x"))
	for _, ask := range []repo.ReadSessions{{}, {WithoutContent: true}, {WithoutPayload: true}, {WithoutContent: true, WithoutPayload: true}} {
		want := clone(stored)
		for i := range want {
			if ask.WithoutContent {
				want[i].Content = ""
			}
			if ask.WithoutPayload {
				want[i].Payload = nil
			}
		}
		ask.First = 3
		wantMessages(t, read(t, s, id, ask).Messages, want)
	}
}

// After MaxReadBytes, further messages are left out.
func testReadCut(t *testing.T, s repo.Sessions) {
	const half = limits.MaxReadBytes / 2
	long := user(strings.Repeat("x", half))
	heavy := user("x")
	heavy.Payload = make([]byte, half)
	a, b := create(t, s), create(t, s)
	inA, inB := appendTo(t, s, a, long, user("small")), appendTo(t, s, b, heavy, user("small"), heavy)
	for _, test := range []struct {
		ask  repo.ReadSessions
		a, b []repo.Message
	}{
		{repo.ReadSessions{IDs: []repo.ID{a, b}, First: 3}, inA, inB[:1]},
		{repo.ReadSessions{IDs: []repo.ID{b, a}, First: 3}, nil, inB},
		{repo.ReadSessions{IDs: []repo.ID{a, b}, Last: 3}, inA, inB[2:]},
		{repo.ReadSessions{IDs: []repo.ID{b, a}, Last: 3}, nil, inB},
		{repo.ReadSessions{IDs: []repo.ID{b, a}, Last: 2}, inA, inB[1:]},
		{repo.ReadSessions{IDs: []repo.ID{a, b}, First: 3, WithoutContent: true}, without(inA), without(inB)},
	} {
		snapshot, err := s.Read(t.Context(), test.ask)
		must(t, snapshot, err)
		for i, id := range test.ask.IDs {
			got, want, all := snapshot.Sessions[i], test.a, len(inA)
			if id == b {
				want, all = test.b, min(len(inB), max(test.ask.First, test.ask.Last))
			}
			wantMessages(t, got.Messages, want)
			if got.Cut != (len(want) < all) || t.Failed() {
				got.Session.Metadata = nil
				t.Fatalf("First %d, Last %d, entry %d: %d messages, cut: %t", test.ask.First, test.ask.Last, i, len(got.Messages), got.Cut)
			}
		}
	}
}

// EachSession yields all sessions of a list, in its order, however large they are.
func testEachSession(t *testing.T, r repo.Repositories) {
	s, namespace := r.Sessions(), spaceOf(r)
	filter := repo.SessionFilter{Namespace: namespace, Owner: "o"}
	each := func(ask repo.ReadSessions) (all []repo.SessionSnapshot) {
		t.Helper()
		for session, err := range adapter.EachSession(t.Context(), s, filter, ask) {
			all = append(all, must(t, session, err))
		}
		return all
	}
	if all := each(repo.ReadSessions{Last: 1}); len(all) != 0 {
		t.Errorf("%d of no sessions", len(all))
	}
	half := user(strings.Repeat("x", limits.MaxReadBytes/2)) // only two fit into one Read
	messages := [][]repo.NewMessage{{half}, {half, user("a")}, {half, half, half}, nil, {user("b")}, {half, user("c")}}
	made := largeSessions(t, r, namespace, messages)
	createAs(t, s, repo.NewSession{Namespace: namespace, Owner: "another"})
	page, err := s.List(t.Context(), filter, repo.Page{})
	must(t, page, err)
	for _, ask := range []repo.ReadSessions{{}, {Last: 2, State: true}, {First: 3}, {Last: limits.MaxReadMessages}, {Last: 2, WithoutContent: true}} {
		all := each(ask)
		if len(all) != len(page.Items) {
			t.Fatalf("%+v: %d of %d sessions", ask, len(all), len(page.Items))
		}
		for i, session := range all {
			wantSession(t, session.Session, page.Items[i])
			added := messages[made[session.Session.ID]]
			cut := len(added) == 3 && max(ask.First, ask.Last) >= 3
			wanted := min(len(added), max(ask.First, ask.Last))
			if session.Cut != cut || !cut && len(session.Messages) != wanted {
				t.Errorf("%+v: session %d has %d messages of %d, cut: %t", ask, i, len(session.Messages), wanted, session.Cut)
			}
			if keys := len(session.State.Values); ask.State && made[session.Session.ID] < 3 && keys != limits.MaxStateReadKeys {
				t.Errorf("session %d has %d keys", i, keys)
			}
		}
	}
	for session, err := range adapter.EachSession(t.Context(), s, filter, repo.ReadSessions{}) {
		must(t, session, err)
		break // it yields nothing after that
	}
	for ask, field := range map[*repo.ReadSessions]string{{Last: -1}: "last", {Last: limits.MaxReadMessages + 1}: "last"} {
		yielded := 0
		for session, err := range adapter.EachSession(t.Context(), s, filter, *ask) {
			wantInvalid(t, err, field)
			if yielded++; yielded > 1 || !session.Session.ID.IsZero() {
				t.Errorf("%d yielded, %+v", yielded, session.Session)
			}
		}
	}
}

// largeSessions makes a session for each list of messages, and returns which is whose. The first three have as much state as fits into one
// Read.
func largeSessions(t *testing.T, r repo.Repositories, namespace string, messages [][]repo.NewMessage) map[repo.ID]int {
	t.Helper()
	s := r.Sessions()
	changes := make([]repo.StateChange, limits.MaxStateChanges)
	made := map[repo.ID]int{} // the server's clock may step, so that the list has another order
	for i, messages := range messages {
		id := createAs(t, s, repo.NewSession{Namespace: namespace, Owner: "o"}).ID
		made[id] = i
		if len(messages) > 0 {
			appendTo(t, s, id, messages...)
		}
		for first := 0; first < limits.MaxStateReadKeys && i < 3; first += len(changes) {
			for n := range changes {
				changes[n] = repo.StateChange{Scope: repo.Scope{SessionID: id}, Key: strconv.Itoa(first + n), Value: []byte("1")}
			}
			versions, err := r.State().Change(t.Context(), changes)
			must(t, versions, err)
		}
	}
	return made
}

// without returns the messages without their contents.
func without(messages []repo.Message) []repo.Message {
	messages = clone(messages)
	for i := range messages {
		messages[i].Content = ""
	}
	return messages
}

func namesOf(scopes []repo.Scope) []string {
	names := make([]string, len(scopes))
	for i, scope := range scopes {
		names[i] = scope.Name
	}
	return names
}

// States are those that State.Read returns.
func testReadState(t *testing.T, r repo.Repositories) {
	s := r.Sessions()
	mine, other, full, empty := own(t, r), own(t, r), shared(), shared()
	for _, scope := range []repo.Scope{mine, full} {
		change(t, r, set(scope, "b", " 2.50 "), set(scope, "ä", `"x"`), set(scope, "a", `{"b":1,"a":2}`))
	}
	scopes, missing := []repo.Scope{full, empty, full}, repo.NewID()
	want, err := r.State().Read(t.Context(), append(scopes, other, mine)...)
	must(t, want, err)
	snapshot, err := s.Read(t.Context(), repo.ReadSessions{
		IDs: []repo.ID{other.SessionID, missing, mine.SessionID}, State: true, Scopes: namesOf(scopes),
	})
	must(t, snapshot, err)
	wantSame(t, "shared states", snapshot.Scopes, want[:3])
	wantSame(t, "first session's state", snapshot.Sessions[0].State, want[3])
	wantSame(t, "last session's state", snapshot.Sessions[2].State, want[4])
	if snapshot.Sessions[1] != nil {
		t.Error("there is a session that does not exist")
	}
	// Nothing of this is read unless it is asked for.
	if entry := read(t, s, mine.SessionID, repo.ReadSessions{Last: 1, Scopes: namesOf(scopes)}); entry.State.Version != 0 || len(entry.State.Values) > 0 {
		t.Errorf("the state that was not asked for is %+v", entry.State)
	}
	if snapshot, err = s.Read(t.Context(), repo.ReadSessions{IDs: []repo.ID{mine.SessionID}, State: true}); len(must(t, snapshot, err).Scopes) > 0 {
		t.Errorf("the scopes that were not asked for are %+v", snapshot.Scopes)
	}
}

func testReadLimits(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	ids := func(count int) []repo.ID {
		ids := make([]repo.ID, count)
		for i := range ids {
			ids[i] = id
		}
		return ids
	}
	for _, test := range []struct {
		field string
		ask   repo.ReadSessions
	}{
		{"ids", repo.ReadSessions{IDs: ids(repo.MaxPageSize + 1)}},
		{"first", repo.ReadSessions{IDs: ids(1), First: -1}},
		{"last", repo.ReadSessions{IDs: ids(1), Last: math.MinInt}},
		{"last", repo.ReadSessions{IDs: ids(1), First: 1, Last: 1}},
		{"first", repo.ReadSessions{IDs: ids(1), First: limits.MaxReadMessages + 1}},
		{"first", repo.ReadSessions{IDs: ids(2), First: limits.MaxReadMessages/2 + 1}},
		{"last", repo.ReadSessions{IDs: ids(repo.MaxPageSize), Last: limits.MaxReadMessages/repo.MaxPageSize + 1}},
		{"last", repo.ReadSessions{Last: math.MaxInt}},
		{"from", repo.ReadSessions{IDs: ids(1), First: 1, From: -1}},
		{"from", repo.ReadSessions{IDs: ids(1), From: 1}},
		{"since", repo.ReadSessions{IDs: ids(1), Since: time.Now()}},
		{"since", repo.ReadSessions{IDs: ids(1), First: 1, Since: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)}},
	} {
		_, err := s.Read(t.Context(), test.ask)
		wantInvalid(t, err, test.field)
	}
	_, err := s.Read(t.Context(), repo.ReadSessions{Scopes: make([]string, limits.MaxStateScopes+1)})
	wantInvalid(t, err, "scopes")
	for _, name := range append(invalidTexts(), "", strings.Repeat("x", limits.MaxScopeBytes+1)) {
		_, err := s.Read(t.Context(), repo.ReadSessions{Scopes: []string{"x", name}})
		wantInvalid(t, err, "scopes[1]")
	}
	for _, ask := range []repo.ReadSessions{
		{IDs: ids(1), First: limits.MaxReadMessages},
		{IDs: ids(repo.MaxPageSize), Last: limits.MaxReadMessages / repo.MaxPageSize},
	} {
		snapshot, err := s.Read(t.Context(), ask)
		if must(t, snapshot, err); len(snapshot.Sessions) != len(ask.IDs) {
			t.Errorf("%d ids gave %d sessions", len(ask.IDs), len(snapshot.Sessions))
		}
	}
}

// Each transaction changes two sessions, a state of one, and a shared state. A Read sees both changes or none, also in a
// transaction. Two Gets see one of them, sooner or later.
func testReadIsOneMoment(t *testing.T, store repo.Store) {
	s := store.Sessions()
	ids, common := []repo.ID{create(t, s), create(t, s)}, shared()
	defer changeTogether(t, store, ids, common)()
	for round := range 50 {
		wantOneMoment(t, s, ids, common)
		for range 10 { // whose statements follow one another closely
			wantOneMomentOf(t, s, ids[1], common)
		}
		first := get(t, s, ids[0]).MessageCount
		await.For(t, "two Gets differ", func() bool { return get(t, s, ids[1]).MessageCount != first })
		if round%10 > 0 {
			continue
		}
		err := store.InTx(t.Context(), func(_ context.Context, tx repo.Repositories) error {
			for range 20 {
				wantOneMoment(t, tx.Sessions(), ids, common)
				wantOneMomentOf(t, tx.Sessions(), ids[1], common)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("InTx: %v", err)
		}
	}
}

// changeTogether changes two sessions, a state of the second one, and a shared state, again and again, until it is stopped.
func changeTogether(t *testing.T, store repo.Store, ids []repo.ID, common repo.Scope) (stop func()) {
	t.Helper()
	var done atomic.Bool
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for !done.Load() {
			err := store.InTx(t.Context(), func(ctx context.Context, tx repo.Repositories) error {
				for _, id := range ids {
					if _, err := tx.Sessions().Append(ctx, id, user("x")); err != nil {
						return err
					}
				}
				_, err := tx.State().Change(ctx, []repo.StateChange{
					increment(common, "rounds", 1), increment(repo.Scope{SessionID: ids[1]}, "rounds", 1),
				})
				return err
			})
			if err != nil && !errors.Is(err, repo.ErrContention) {
				t.Errorf("InTx: %v", err)
				return
			}
		}
	}()
	return func() { done.Store(true); <-stopped }
}

// wantOneMoment wants a Read of two sessions to see the same changes in all.
func wantOneMoment(t *testing.T, s repo.Sessions, ids []repo.ID, common repo.Scope) {
	t.Helper()
	snapshot, err := s.Read(t.Context(), repo.ReadSessions{IDs: ids, Last: 1, State: true, Scopes: []string{common.Name}})
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	a, b := snapshot.Sessions[0], snapshot.Sessions[1]
	if a.Session.MessageCount != b.Session.MessageCount {
		t.Fatalf("a Read saw %d messages in one session, and %d in the other", a.Session.MessageCount, b.Session.MessageCount)
	}
	for _, state := range []repo.ScopeState{b.State, snapshot.Scopes[0]} {
		rounds := "0"
		if len(state.Values) == 1 {
			rounds = string(state.Values[0].Value)
		}
		if rounds != strconv.FormatInt(a.Session.MessageCount, 10) {
			t.Fatalf("a Read saw %d messages, and %s rounds in a state", a.Session.MessageCount, rounds)
		}
	}
	for _, entry := range snapshot.Sessions {
		if last := entry.Messages; int64(len(last)) != min(1, a.Session.MessageCount) || len(last) > 0 && last[0].Sequence != a.Session.MessageCount-1 {
			t.Fatalf("of %d messages a Read saw the last one %+v", a.Session.MessageCount, last)
		}
	}
}

// wantOneMomentOf wants that of a Read of one session and its states.
func wantOneMomentOf(t *testing.T, s repo.Sessions, id repo.ID, common repo.Scope) {
	t.Helper()
	snapshot, err := s.Read(t.Context(), repo.ReadSessions{IDs: []repo.ID{id}, Last: 1, State: true, Scopes: []string{common.Name}})
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	entry := snapshot.Sessions[0]
	want := entry.Session.MessageCount
	for _, state := range []repo.ScopeState{entry.State, snapshot.Scopes[0]} {
		if got := len(state.Values); want > 0 && (got != 1 || string(state.Values[0].Value) != strconv.FormatInt(want, 10)) {
			t.Fatalf("a Read saw %d messages, and a state %+v", want, state.Values)
		}
	}
	if last := entry.Messages; want > 0 && (len(last) != 1 || last[0].Sequence != want-1) {
		t.Fatalf("of %d messages a Read saw the last one %+v", want, last)
	}
}
