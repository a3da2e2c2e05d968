package repotest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

func historyTests() []test {
	return []test{
		on("Rewind", testRewind),
		on("Switch", testSwitch),
		on("Head", testHead),
		on("AfterInvalid", testAfterInvalid),
		on("AfterRepeated", testAfterRepeated),
		on("AfterOfSeveral", testAfterOfSeveral),
		on("Branches", testBranches),
		on("Fork", testFork),
		on("ForkAgain", testForkAgain),
		on("ForkDeep", testForkDeep),
		on("ForkInvalid", testForkInvalid),
		on("DeleteForked", testDeleteForked),
		on("Tokens", testTokens),
		on("Prompt", testPrompt),
		on("PromptSummary", testPromptSummary),
		on("Model", testHistoryModel),
	}
}

// turnOn adds a turn that must be accepted.
func turnOn(t *testing.T, s repo.Sessions, id repo.ID, turn repo.Turn) []repo.Message {
	t.Helper()
	turn.SessionID = id
	added, err := s.AppendTurn(t.Context(), turn)
	if err != nil {
		t.Fatalf("a turn: %v", err)
	}
	return added.Messages
}

// wantTranscript compares the sequences of a transcript, however it is read, and what each message follows.
func wantTranscript(t *testing.T, s repo.Sessions, id repo.ID, want ...int64) {
	t.Helper()
	for name, messages := range transcripts(t, s, id) {
		got := make([]int64, len(messages))
		for i, m := range messages {
			got[i] = m.Sequence
			if last := int64(-1); i > 0 && m.Follows != messages[i-1].Sequence || i == 0 && m.Follows != last || m.SessionID != id {
				t.Errorf("%s: message %d of session %s follows %d", name, m.Sequence, m.SessionID, m.Follows)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: the transcript is %v, want %v", name, got, want)
		}
	}
}

// transcripts reads a transcript in each way, ascending.
func transcripts(t *testing.T, s repo.Sessions, id repo.ID) map[string][]repo.Message {
	t.Helper()
	from, err := s.MessagesFrom(t.Context(), id, 0, 1000) // first: the others note that the session has branches
	must(t, from, err)
	first := read(t, s, id, repo.ReadSessions{First: 1000})
	last := read(t, s, id, repo.ReadSessions{Last: 1000})
	since := read(t, s, id, repo.ReadSessions{Last: 1000, Since: time.Unix(1, 0)})
	end, err := s.LastMessages(t.Context(), id, 1000)
	must(t, end, err)
	return map[string][]repo.Message{
		"First": first.Messages, "Last": last.Messages, "Since": since.Messages, "MessagesFrom": from, "LastMessages": end,
		"Stream": readAll(t, s, id),
	}
}

// Guarantee: History: A turn with After begins a branch; what came after that message stays stored.
func testRewind(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(4)...)
	got := turnOn(t, s, id, repo.Turn{After: ptr(int64(1)), Messages: users(2)})
	if got[0].Sequence != 4 || got[0].Follows != 1 || got[1].Sequence != 5 || got[1].Follows != 4 {
		t.Errorf("the messages are %+v", got)
	}
	wantTranscript(t, s, id, 0, 1, 4, 5)
	appendTo(t, s, id, user("x"))
	wantTranscript(t, s, id, 0, 1, 4, 5, 6)
	turnOn(t, s, id, repo.Turn{After: ptr(int64(-1)), Messages: users(1)})
	wantTranscript(t, s, id, 7)
	// The last message is no other one than usual.
	turnOn(t, s, id, repo.Turn{After: ptr(int64(7)), Messages: users(1)})
	wantTranscript(t, s, id, 7, 8)
	if got := get(t, s, id).MessageCount; got != 9 {
		t.Errorf("there are %d messages", got)
	}
	all := read(t, s, id, repo.ReadSessions{First: 100, Branches: true}).Messages
	if wantDense(t, all, 0); len(all) != 9 || all[4].Follows != 1 || all[7].Follows != -1 || all[8].Follows != 7 {
		t.Errorf("all messages are %+v", all)
	}
	last := read(t, s, id, repo.ReadSessions{Last: 3, Branches: true}).Messages
	wantMessages(t, last, all[6:])
	wantMessages(t, read(t, s, id, repo.ReadSessions{From: 2, First: 3, Branches: true}).Messages, all[2:5])
	message, err := s.Message(t.Context(), id, all[2].ID)
	wantMessage(t, must(t, message, err), all[2])
}

// Guarantee: History: A turn with nothing but After makes another branch the transcript.
func testSwitch(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(3)...)
	turnOn(t, s, id, repo.Turn{After: ptr(int64(0)), Messages: users(1)})
	wantTranscript(t, s, id, 0, 3)
	if got := turnOn(t, s, id, repo.Turn{After: ptr(int64(2))}); len(got) > 0 {
		t.Errorf("a switch added %v", got)
	}
	wantTranscript(t, s, id, 0, 1, 2)
	turnOn(t, s, id, repo.Turn{After: ptr(int64(3))})
	wantTranscript(t, s, id, 0, 3)
	turnOn(t, s, id, repo.Turn{After: ptr(int64(1))})
	got := appendTo(t, s, id, users(2)...)
	if got[0].Follows != 1 || got[1].Follows != 4 {
		t.Errorf("an append behind a switch follows %d and %d", got[0].Follows, got[1].Follows)
	}
	wantTranscript(t, s, id, 0, 1, 4, 5)
	turnOn(t, s, id, repo.Turn{After: ptr(int64(-1))})
	wantTranscript(t, s, id)
	if stored := turnOn(t, s, id, repo.Turn{Expected: ptr(int64(6)), Messages: users(1)}); stored[0].Follows != -1 {
		t.Errorf("%+v", stored)
	}
	wantTranscript(t, s, id, 6)
}

// Guarantee: History: A turn with Head is refused unless the transcript ends there.
func testHead(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	head := func(head int64, want int64, turn repo.Turn) {
		t.Helper()
		turn.SessionID, turn.Head = id, &head
		_, err := s.AppendTurn(t.Context(), turn)
		if head == want {
			if err != nil {
				t.Errorf("head %d: %v", head, err)
			}
			return
		}
		wantSequenceConflict(t, err, repo.SequenceConflictError{Kind: "head", ID: id, Expected: head, Next: want})
	}
	head(0, -1, repo.Turn{Messages: users(1)})
	head(-1, -1, repo.Turn{Messages: users(3)})
	head(3, 2, repo.Turn{Messages: users(1)})
	head(2, 2, repo.Turn{After: ptr(int64(0)), Messages: users(1)})
	head(2, 3, repo.Turn{After: ptr(int64(0)), Messages: users(1)})
	head(3, 3, repo.Turn{After: ptr(int64(1))})
	head(3, 1, repo.Turn{Messages: users(1)})
	head(1, 1, repo.Turn{Messages: users(1)})
	wantTranscript(t, s, id, 0, 1, 4)
}

func testAfterInvalid(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(2)...)
	for _, after := range []int64{-2, 2, 100} {
		_, err := s.AppendTurn(t.Context(), repo.Turn{SessionID: id, After: &after, Messages: users(1)})
		wantInvalid(t, err, "after")
	}
	_, err := s.AppendTurn(t.Context(), repo.Turn{SessionID: id, Head: ptr(int64(-2)), Messages: users(1)})
	wantInvalid(t, err, "head")
	_, err = s.AppendTurn(t.Context(), repo.Turn{SessionID: id, Head: ptr(int64(1))})
	wantInvalid(t, err, "turn")
	wantTranscript(t, s, id, 0, 1)
}

// A turn that is added again changes nothing, also if its head has moved, and not if it follows another message.
func testAfterRepeated(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(3)...)
	turn := repo.Turn{SessionID: id, ID: "again", After: ptr(int64(0)), Head: ptr(int64(2)), Messages: users(1)}
	first := turnOn(t, s, id, turn)
	appendTo(t, s, id, user("x"))
	again, err := s.AppendTurn(t.Context(), turn)
	if must(t, again, err); !again.Repeated {
		t.Error("it was added again")
	}
	wantMessages(t, again.Messages, first)
	wantTranscript(t, s, id, 0, 3, 4)
	turn.After = ptr(int64(1))
	_, err = s.AppendTurn(t.Context(), turn)
	_, _ = wantError[*repo.ExistsError](t, err, repo.ErrConflict)
	appendTo(t, s, id, user("y"))
	turnOn(t, s, id, repo.Turn{After: ptr(int64(0)), Messages: users(1)})
	found, err := s.Turn(t.Context(), id, "again") // of a branch that is not the transcript
	wantMessages(t, must(t, found, err).Messages, first)
}

// Turns meet what those before them have done.
func testAfterOfSeveral(t *testing.T, s repo.Sessions) {
	a := create(t, s)
	appendTo(t, s, a, users(2)...)
	turnOn(t, s, a, repo.Turn{After: ptr(int64(0)), Messages: users(2)})
	turnOn(t, s, a, repo.Turn{After: ptr(int64(2)), Head: ptr(int64(3))})
	added := turnOn(t, s, a, repo.Turn{Messages: users(1)})
	if added[0].Follows != 2 || added[0].Sequence != 4 {
		t.Errorf("%+v", added)
	}
	turnOn(t, s, a, repo.Turn{After: ptr(int64(1))})
	wantTranscript(t, s, a, 0, 1)
	turnOn(t, s, a, repo.Turn{After: ptr(int64(4))})
	wantTranscript(t, s, a, 0, 2, 4)
}

// Guarantee: History: Branches returns the branches behind a message, and which is the transcript.
func testBranches(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(3)...)                                       // 0 1 2
	turnOn(t, s, id, repo.Turn{After: ptr(int64(0)), Messages: users(2)}) // 3 4
	turnOn(t, s, id, repo.Turn{After: ptr(int64(1)), Messages: users(1)}) // 5
	turnOn(t, s, id, repo.Turn{After: ptr(int64(0)), Messages: users(1)}) // 6
	want := func(sequence int64, want ...repo.Branch) {
		t.Helper()
		got, err := s.Branches(t.Context(), id, sequence)
		if must(t, got, err); !slices.Equal(got, want) {
			t.Errorf("the branches at %d are %v, want %v", sequence, got, want)
		}
	}
	for _, sequence := range []int64{1, 3, 6} {
		want(sequence, repo.Branch{Sequence: 1, Last: 5}, repo.Branch{Sequence: 3, Last: 4}, repo.Branch{Sequence: 6, Last: 6, Current: true})
	}
	want(5, repo.Branch{Sequence: 2, Last: 2}, repo.Branch{Sequence: 5, Last: 5})
	want(0, repo.Branch{Sequence: 0, Last: 6, Current: true})
	turnOn(t, s, id, repo.Turn{After: ptr(int64(5))})
	want(3, repo.Branch{Sequence: 1, Last: 5, Current: true}, repo.Branch{Sequence: 3, Last: 4}, repo.Branch{Sequence: 6, Last: 6})
	want(4, repo.Branch{Sequence: 4, Last: 4})
	_, err := s.Branches(t.Context(), id, 7)
	wantSentinel(t, err, repo.ErrNotFound)
	_, err = s.Branches(t.Context(), repo.NewID(), 0)
	wantSentinel(t, err, repo.ErrNotFound)
	_, err = s.Branches(t.Context(), id, -1)
	wantInvalid(t, err, "sequence")
}

// fork forks a session, which must be possible.
func fork(t *testing.T, s repo.Sessions, id repo.ID, at int64) repo.ID {
	t.Helper()
	created, err := s.Fork(t.Context(), id, at, repo.NewSession{})
	if err != nil {
		t.Fatalf("Fork at %d: %v", at, err)
	}
	return created.ID
}

// Guarantee: History: A fork begins with a transcript; neither session sees what the other adds later.
func testFork(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	all := appendTo(t, s, id, users(4)...)
	turnOn(t, s, id, repo.Turn{After: ptr(int64(1)), Messages: users(2)}) // 4 5
	given := fullSession(s)
	created, err := s.Fork(t.Context(), id, 4, given)
	if must(t, created, err); created.ID != given.ID || created.Owner != given.Owner || created.MessageCount != 5 || created.Existed {
		t.Errorf("%+v", created)
	}
	wantSession(t, get(t, s, given.ID), created)
	wantTranscript(t, s, given.ID, 0, 1, 4)
	other := fork(t, s, id, 3) // of another branch
	wantTranscript(t, s, other, 0, 1, 2, 3)
	own := appendTo(t, s, other, users(2)...)
	if own[0].Sequence != 4 || own[0].Follows != 3 {
		t.Errorf("the fork's first message is %+v", own[0])
	}
	appendTo(t, s, id, user("x"))
	wantTranscript(t, s, other, 0, 1, 2, 3, 4, 5)
	wantTranscript(t, s, id, 0, 1, 4, 5, 6)
	turnOn(t, s, other, repo.Turn{After: ptr(int64(1)), Messages: users(1)})
	wantTranscript(t, s, other, 0, 1, 6)
	message, err := s.Message(t.Context(), other, all[2].ID)
	if must(t, message, err); message.SessionID != other || message.Sequence != 2 || message.ID != all[2].ID {
		t.Errorf("an inherited message is %+v", message)
	}
	_, err = s.Message(t.Context(), given.ID, all[2].ID) // is on another branch
	wantNotFound(t, err, "message", all[2].ID)
	_, err = s.AppendTurn(t.Context(), repo.Turn{SessionID: given.ID, After: ptr(int64(2)), Messages: users(1)})
	wantInvalid(t, err, "after")
	_, err = s.Fork(t.Context(), given.ID, 2, repo.NewSession{})
	wantSentinel(t, err, repo.ErrNotFound)
	// A fork of what a fork has of others.
	third := fork(t, s, other, 2)
	wantTranscript(t, s, third, 0, 1, 2)
	fourth := fork(t, s, other, 6)
	wantTranscript(t, s, fourth, 0, 1, 6)
	if got := read(t, s, other, repo.ReadSessions{First: 100, Branches: true}).Messages; len(got) != 7 {
		t.Errorf("all messages of a fork are %+v", got)
	}
	state := read(t, s, third, repo.ReadSessions{State: true})
	if state.State.Version != 0 || state.Session.Usage != (repo.Usage{}) || state.Session.Budget != nil {
		t.Errorf("a fork begins with %+v", state)
	}
	branches, err := s.Branches(t.Context(), other, 2)
	if want := []repo.Branch{{Sequence: 2, Last: 5}, {Sequence: 6, Last: 6, Current: true}}; err != nil || !slices.Equal(branches, want) {
		t.Errorf("the fork's branches are %v, %v; want %v", branches, err, want)
	}
}

func testForkAgain(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(3)...)
	given := fullSession(s)
	created, err := s.Fork(t.Context(), id, 1, given)
	must(t, created, err)
	again, err := s.Fork(t.Context(), id, 1, given)
	if must(t, again, err); !again.Existed || again.ID != created.ID {
		t.Errorf("%+v", again)
	}
	_, err = s.Fork(t.Context(), id, 2, given)
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: given.ID, Field: "fork"})
	plain := createAs(t, s, repo.NewSession{ID: repo.NewID()})
	_, err = s.Fork(t.Context(), id, 2, repo.NewSession{ID: plain.ID})
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: plain.ID, Field: "fork"})
	given.Existing = repo.ExistingNone
	_, err = s.Fork(t.Context(), id, 1, given)
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: given.ID})
	remove(t, s, given.ID)
	_, err = s.Fork(t.Context(), id, 1, given)
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: given.ID, Gone: true})
}

func testForkDeep(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, user("x"))
	for i := range int64(100) {
		id = fork(t, s, id, i)
		appendTo(t, s, id, user("x"))
	}
	if got := readAll(t, s, id); len(got) != 101 {
		t.Errorf("there are %d messages", len(got))
	}
	_, err := s.Fork(t.Context(), id, 100, repo.NewSession{})
	wantSentinel(t, err, repo.ErrLimit)
	fork(t, s, id, 50) // is one of an ancestor
}

func testForkInvalid(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(2)...)
	_, err := s.Fork(t.Context(), id, -1, repo.NewSession{})
	wantInvalid(t, err, "at")
	_, err = s.Fork(t.Context(), id, 2, repo.NewSession{})
	wantSentinel(t, err, repo.ErrNotFound)
	missing := repo.NewID()
	_, err = s.Fork(t.Context(), missing, 0, repo.NewSession{})
	wantNotFound(t, err, "session", missing)
}

// Guarantee: History: Deleting a session keeps the messages that its forks have.
func testDeleteForked(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	all := appendTo(t, s, id, append(ofCall("call", "x"), users(3)...)...)
	turnOn(t, s, id, repo.Turn{After: ptr(int64(1)), Messages: users(2)}) // 4 5
	a, b := fork(t, s, id, 2), fork(t, s, id, 4)
	document := export(t, s, id)
	deleted, err := s.Delete(t.Context(), id)
	if must(t, deleted, err); deleted.Messages != 2 || deleted.Kept != 4 { // 3 5; 0 1 2 4
		t.Errorf("%+v", deleted)
	}
	_, err = s.Get(t.Context(), id)
	wantNotFound(t, err, "session", id)
	_, err = s.LastMessages(t.Context(), id, 1)
	wantNotFound(t, err, "session", id)
	_, err = s.Message(t.Context(), id, all[1].ID)
	wantNotFound(t, err, "session", id)
	_, err = s.MessagesOfCall(t.Context(), id, all[0].CallID)
	wantNotFound(t, err, "session", id)
	if found, err := s.Read(t.Context(), repo.ReadSessions{IDs: []repo.ID{id}, Last: 3}); err != nil || found.Sessions[0] != nil {
		t.Errorf("a deleted session is %+v, %v", found.Sessions[0], err)
	}
	if calls := messagesOfCall(t, s, a, all[0].CallID); len(calls) != 1 || calls[0].SessionID != a || calls[0].ID != all[0].ID {
		t.Errorf("the fork's messages of a call are %+v", calls)
	}
	wantTranscript(t, s, a, 0, 1, 2)
	wantTranscript(t, s, b, 0, 1, 4)
	_, err = s.Import(t.Context(), bytes.NewReader(document), true)
	wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: id, Field: "fork"})
	c := fork(t, s, a, 1) // of the deleted session's
	remove(t, s, a)
	wantTranscript(t, s, c, 0, 1)
	wantTranscript(t, s, b, 0, 1, 4)
	remove(t, s, b)
	wantTranscript(t, s, c, 0, 1)
	remove(t, s, c)
	imported, err := s.Import(t.Context(), bytes.NewReader(document), true)
	must(t, imported, err)
	wantTranscript(t, s, id, 0, 1, 4, 5)
}

// Guarantee: History: A message's tokens are stored with it, and not compared with a repetition's.
func testTokens(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	given := fullMessage()
	given.Tokens, given.Counter = 12, "exact"
	other := user("y")
	other.Tokens = 1<<31 - 1
	stored := appendTo(t, s, id, given, other, user("x"))
	wantStored(t, id, 0, []repo.NewMessage{given, other, user("x")}, stored)
	one := user("one")
	one.Tokens, one.Counter = 3, "other"
	stored = append(stored, appendTo(t, s, id, one)...)
	stored = append(stored, turnOn(t, s, id, repo.Turn{ID: "t", Messages: []repo.NewMessage{one}})...)
	if stored[3].Tokens != 3 || stored[3].Counter != "other" || stored[4].Tokens != 3 || stored[4].Counter != "other" {
		t.Errorf("%+v", stored[3:])
	}
	for _, got := range transcripts(t, s, id) {
		wantMessages(t, got, stored)
	}
	given.Tokens = 13
	wantMessages(t, appendTo(t, s, id, given), stored[:1])
	wantRoundTrip(t, s, id)
	for field, change := range map[string]func(*repo.NewMessage){
		"messages[0].tokens":  func(m *repo.NewMessage) { m.Tokens = 1 << 31 },
		"messages[0].counter": func(m *repo.NewMessage) { m.Counter = "x" },
	} {
		m := user("x")
		change(&m)
		_, err := s.Append(t.Context(), id, m)
		wantInvalid(t, err, field)
	}
}

// Guarantee: History: A read with Tokens has the instructions and the newest messages that fit.
func testPrompt(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	add := func(role repo.Role, tokens int64) {
		m := user("x")
		m.Role, m.Tokens = role, tokens
		appendTo(t, s, id, m)
	}
	add(repo.RoleSystem, 1000) // 0
	for range 4 {
		add(repo.RoleUser, 10) // 1 2 3 4
	}
	add(repo.RoleDeveloper, 1000) // 5
	add(repo.RoleUser, 0)         // 6: 5 bytes are 2 * 3 / 7, rounded up, and 4: 5
	want := func(r repo.ReadSessions, cut bool, want ...int64) {
		t.Helper()
		got := read(t, s, id, r)
		sequences := []int64{}
		for _, m := range got.Messages {
			sequences = append(sequences, m.Sequence)
		}
		if !slices.Equal(sequences, want) || got.Cut != cut {
			t.Errorf("%d tokens: %v, cut %v; want %v, %v", r.Tokens, sequences, got.Cut, want, cut)
		}
	}
	want(repo.ReadSessions{Last: 100, Tokens: 45}, false, 0, 1, 2, 3, 4, 5, 6)
	want(repo.ReadSessions{Last: 100, Tokens: 44}, true, 0, 2, 3, 4, 5, 6)
	want(repo.ReadSessions{Last: 2, Tokens: 44}, true, 0, 4, 5, 6)
	want(repo.ReadSessions{Last: 100, Tokens: 5}, true, 0, 5, 6)
	want(repo.ReadSessions{Last: 100, Tokens: 4}, true, 0, 5)
	turnOn(t, s, id, repo.Turn{After: ptr(int64(2)), Messages: users(1)})
	want(repo.ReadSessions{Last: 100, Tokens: 100}, false, 0, 1, 2, 7)
	want(repo.ReadSessions{Last: 100, Tokens: 15}, true, 0, 2, 7)
	other := fork(t, s, id, 7)
	id = other
	want(repo.ReadSessions{Last: 100, Tokens: 15}, true, 0, 2, 7)
	for _, r := range []repo.ReadSessions{{Tokens: 1}, {Tokens: 1, First: 1}, {Tokens: 1, Last: 1, From: 1}, {Tokens: -1, Last: 1}, {Tokens: 1, Last: 1, Branches: true}} {
		r.IDs = []repo.ID{id}
		_, err := s.Read(t.Context(), r)
		wantInvalid(t, err, "tokens")
	}
}

// Guarantee: History: A read with Tokens goes back to what the newest summary covers.
func testPromptSummary(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(6)...)
	summary := func(to int) {
		appendTo(t, s, id, repo.NewMessage{
			Role: repo.RoleSystem, Kind: repo.KindSummary, Content: "s", Metadata: fmt.Appendf(nil, `{"summary":{"from":0,"to":%d}}`, to),
		})
	}
	want := func(want ...int64) {
		t.Helper()
		got := read(t, s, id, repo.ReadSessions{Last: 100, Tokens: 1000})
		sequences := []int64{}
		for _, m := range got.Messages {
			sequences = append(sequences, m.Sequence)
		}
		if !slices.Equal(sequences, want) || got.Cut {
			t.Errorf("%v, cut %v; want %v", sequences, got.Cut, want)
		}
	}
	summary(2) // 6
	appendTo(t, s, id, user("x"))
	want(3, 4, 5, 6, 7)
	summary(7) // 8
	want(8)
	appendTo(t, s, id, user("x"))
	want(8, 9)
	for _, metadata := range []string{`{}`, `{"summary":1}`, `{"summary":{"to":"x"}}`, `{"summary":{"to":1000}}`, `{"summary":{"to":1.5}}`} {
		appendTo(t, s, id, repo.NewMessage{Role: repo.RoleUser, Kind: repo.KindSummary, Content: "s", Metadata: []byte(metadata)})
	}
	want(8, 9, 10, 11, 12, 13, 14)
	turnOn(t, s, id, repo.Turn{After: ptr(int64(7)), Messages: users(1)}) // before the newest
	want(3, 4, 5, 6, 7, 15)
	turnOn(t, s, id, repo.Turn{After: ptr(int64(1))})
	want(0, 1)
}

// modelMessage and modelSession are what a store must agree with, without a thought about how it is stored.
type modelMessage struct {
	id       repo.ID
	sequence int64
	follows  int64
	owner    repo.ID
}

type modelSession struct {
	id   repo.ID
	all  []modelMessage // of all branches, ascending
	next int64
	head int64
}

func (m *modelSession) at(sequence int64) (modelMessage, bool) {
	for _, message := range m.all {
		if message.sequence == sequence {
			return message, true
		}
	}
	return modelMessage{}, false
}

func (m *modelSession) path(head int64) (path []modelMessage) {
	for head >= 0 {
		message, found := m.at(head)
		if !found {
			panic("the model is wrong")
		}
		path = append(path, message)
		head = message.follows
	}
	slices.Reverse(path)
	return path
}

// descends reports whether a message is another one, or follows it.
func (m *modelSession) descends(sequence, from int64) bool {
	return slices.ContainsFunc(m.path(sequence), func(p modelMessage) bool { return p.sequence == from })
}

// Guarantee: History: Whatever the order of appends, rewinds, switches, forks and deletions, transcripts are right.
func testHistoryModel(t *testing.T, s repo.Sessions) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	first := &modelSession{id: create(t, s), head: -1}
	live := []*modelSession{first}
	for step := range 150 {
		m := live[random.IntN(len(live))]
		turn := repo.Turn{SessionID: m.id, Messages: users(random.IntN(3))}
		var after int64 = -2
		if random.IntN(3) == 0 {
			if after = -1; len(m.all) > 0 && random.IntN(8) > 0 {
				after = m.all[random.IntN(len(m.all))].sequence
			}
			turn.After = &after
		}
		switch kind := random.IntN(10); {
		case kind == 0 && len(m.all) > 0 && len(live) < 12:
			at := m.all[random.IntN(len(m.all))].sequence
			live = append(live, &modelSession{id: fork(t, s, m.id, at), all: m.path(at), next: at + 1, head: at})
			continue
		case kind == 1 && len(live) > 3:
			live = slices.DeleteFunc(live, func(other *modelSession) bool { return other == m })
			wantKept(t, s, m, live)
			continue
		case kind == 2:
			wrong := m.head + 1 + random.Int64N(3)
			turn.Head = &wrong
			if turn.After == nil && len(turn.Messages) == 0 {
				continue
			}
			_, err := s.AppendTurn(t.Context(), turn)
			_, _ = wantError[*repo.SequenceConflictError](t, err, repo.ErrConflict)
			continue
		case turn.After == nil && len(turn.Messages) == 0:
			continue
		case turn.After == nil && kind < 6:
			m.add(t, after, appendTo(t, s, m.id, turn.Messages...))
		default:
			if kind == 7 {
				turn.Head = &m.head
			}
			m.add(t, after, turnOn(t, s, m.id, turn))
		}
		if step%15 == 0 || random.IntN(20) == 0 {
			for _, m := range live {
				m.check(t, s, random)
			}
		}
		if t.Failed() {
			t.Fatalf("at step %d", step)
		}
	}
	endHistories(t, s, live, random)
}

// endHistories deletes the sessions, one after the other, and restores those of which nothing is kept.
func endHistories(t *testing.T, s repo.Sessions, live []*modelSession, random *rand.Rand) {
	t.Helper()
	for _, m := range live {
		m.check(t, s, random)
	}
	for len(live) > 0 && !t.Failed() {
		m := live[0]
		document := export(t, s, m.id)
		live = live[1:]
		wantKept(t, s, m, live)
		if kept := keptOf(m, live); kept == 0 {
			importFrom(t, s, bytes.NewReader(document))
			if m.check(t, s, random); !bytes.Equal(export(t, s, m.id), document) {
				t.Errorf("an imported session is exported otherwise")
			}
			remove(t, s, m.id)
		}
		for _, m := range live {
			m.check(t, s, random)
		}
	}
}

// add adds messages that the store has returned.
func (m *modelSession) add(t *testing.T, after int64, messages []repo.Message) {
	t.Helper()
	if after >= -1 {
		m.head = after
	}
	for _, message := range messages {
		if message.Sequence != m.next || message.Follows != m.head {
			t.Errorf("message %d follows %d, want %d after %d", message.Sequence, message.Follows, m.next, m.head)
		}
		m.all = append(m.all, modelMessage{message.ID, m.next, m.head, m.id})
		m.head, m.next = m.next, m.next+1
	}
}

// keptOf returns how many messages of a session others have.
func keptOf(m *modelSession, live []*modelSession) (kept int64) {
	for _, message := range m.all {
		if message.owner == m.id && slices.ContainsFunc(live, func(other *modelSession) bool {
			return other != m && slices.ContainsFunc(other.all, func(o modelMessage) bool { return o.id == message.id && o.owner == m.id })
		}) {
			kept++
		}
	}
	return kept
}

// wantKept deletes a session and compares what was kept.
func wantKept(t *testing.T, s repo.Sessions, m *modelSession, live []*modelSession) {
	t.Helper()
	own := int64(0)
	for _, message := range m.all {
		if message.owner == m.id {
			own++
		}
	}
	deleted, err := s.Delete(t.Context(), m.id)
	if kept := keptOf(m, live); must(t, deleted, err).Kept != kept || deleted.Messages != own-kept {
		t.Errorf("a deletion says %+v, want %d messages and %d kept", deleted, own-kept, kept)
	}
}

// check compares a session with the store's.
func (m *modelSession) check(t *testing.T, s repo.Sessions, random *rand.Rand) {
	t.Helper()
	path := m.path(m.head)
	for name, got := range transcripts(t, s, m.id) {
		m.want(t, name, got, path)
	}
	from, limit := random.Int64N(m.next+2), 1+random.IntN(5)
	begin := slices.IndexFunc(path, func(p modelMessage) bool { return p.sequence >= from })
	if begin < 0 {
		begin = len(path)
	}
	later, earlier := path[begin:], path[:begin]
	page, err := s.MessagesFrom(t.Context(), m.id, from, limit)
	m.want(t, "a page", must(t, page, err), later[:min(limit, len(later))])
	m.want(t, "first", read(t, s, m.id, repo.ReadSessions{From: from, First: limit}).Messages, later[:min(limit, len(later))])
	m.want(t, "last", read(t, s, m.id, repo.ReadSessions{From: from, Last: limit}).Messages, later[max(0, len(later)-limit):])
	page, err = s.MessagesBefore(t.Context(), m.id, from, limit)
	slices.Reverse(page)
	m.want(t, "a page before", must(t, page, err), earlier[max(0, len(earlier)-limit):])
	m.want(t, "all", read(t, s, m.id, repo.ReadSessions{First: 1000, Branches: true}).Messages, m.all)
	m.want(t, "last of all", read(t, s, m.id, repo.ReadSessions{Last: limit, Branches: true}).Messages, m.all[max(0, len(m.all)-limit):])
	m.want(t, "a prompt", read(t, s, m.id, repo.ReadSessions{Last: limit, Tokens: 1 << 40}).Messages, path[max(0, len(path)-limit):])
	if len(m.all) == 0 {
		return
	}
	place := m.all[random.IntN(len(m.all))]
	var want []repo.Branch
	for _, sibling := range m.all {
		if sibling.follows != place.follows {
			continue
		}
		branch := repo.Branch{Sequence: sibling.sequence, Current: m.descends(m.head, sibling.sequence)}
		for _, other := range m.all {
			if m.descends(other.sequence, sibling.sequence) {
				branch.Last = other.sequence
			}
		}
		want = append(want, branch)
	}
	if got, err := s.Branches(t.Context(), m.id, place.sequence); err != nil || !slices.Equal(got, want) {
		t.Errorf("the branches at %d are %v, %v; want %v", place.sequence, got, err, want)
	}
	message, err := s.Message(t.Context(), m.id, place.id)
	m.want(t, "a message", []repo.Message{must(t, message, err)}, []modelMessage{place})
}

func (m *modelSession) want(t *testing.T, what string, got []repo.Message, want []modelMessage) {
	t.Helper()
	same := slices.EqualFunc(got, want, func(g repo.Message, w modelMessage) bool {
		return g.ID == w.id && g.Sequence == w.sequence && g.Follows == w.follows && g.SessionID == m.id
	})
	if same {
		return
	}
	var text strings.Builder
	for _, g := range got {
		fmt.Fprintf(&text, " %d>%d", g.Follows, g.Sequence)
	}
	text.WriteString("; want")
	for _, w := range want {
		fmt.Fprintf(&text, " %d>%d", w.follows, w.sequence)
	}
	t.Errorf("%s: there are%s", what, text.String())
}
