package repotest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func historyEdgeTests() []test {
	return []test{
		on("MessagesRewound", testMessagesRewound),
		on("ForkTurns", testForkTurns),
		on("ForkIDs", testForkIDs),
		on("ForkRestored", testForkRestored),
		on("ForkPending", testForkPending),
		on("ForkExport", testForkExport),
		on("DeleteFamily", testDeleteFamily),
		on("PromptInstructions", testPromptInstructions),
	}
}

// Guarantee: History: A loop over a transcript that is rewound meanwhile takes no other branch.
func testMessagesRewound(t *testing.T, s repo.Sessions) {
	for _, rewind := range []repo.Turn{
		{After: ptr(int64(10)), Messages: users(3)},   // the next chunk is of another branch
		{After: ptr(int64(10))},                       // there is no next chunk
		{After: ptr(int64(-1)), Messages: users(300)}, // a whole one is
		{After: ptr(int64(299)), Messages: users(3)},  // the loop sees it, or not
	} {
		id := create(t, s)
		appendTo(t, s, id, users(300)...) // chunks end with 99 and 299
		last, ended := int64(-1), false
		for m, err := range s.Messages(t.Context(), id, 0) {
			if err != nil {
				var conflict *repo.SequenceConflictError
				if ended = errors.As(err, &conflict); !ended || conflict.Kind != "head" || conflict.Expected != last || conflict.ID != id || *rewind.After == 299 {
					t.Error(err)
				}
				break
			}
			if m.Follows != last {
				t.Fatalf("message %d, which follows %d, comes after %d", m.Sequence, m.Follows, last)
			}
			if last = m.Sequence; last == 70 || last == 270 && *rewind.After != 299 {
				turnOn(t, s, id, rewind)
			}
		}
		if !ended && last != 299 && (last != 302 || *rewind.After != 299) {
			t.Errorf("behind %d, the loop ended with %d", *rewind.After, last)
		}
	}
}

func testForkTurns(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	turnOn(t, s, id, repo.Turn{ID: "t", Messages: users(3)})
	fork, err := s.Fork(t.Context(), id, 1, repo.NewSession{})
	must(t, fork, err)
	got := turnOn(t, s, fork.ID, repo.Turn{ID: "t", Messages: users(2)})
	if len(got) != 2 || got[0].Sequence != 2 {
		t.Errorf("%+v", got)
	}
	again := turnOn(t, s, fork.ID, repo.Turn{ID: "t", Existing: true, Messages: users(1)})
	wantMessages(t, again, got)
	stored, err := s.Turn(t.Context(), fork.ID, "t")
	must(t, stored, err)
	wantMessages(t, stored.Messages, got)
}

// Ids are a session's: a message of a fork with the id of an inherited one is another message.
func testForkIDs(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	given := user("question")
	given.ID = repo.NewID()
	inherited := appendTo(t, s, id, given)
	fork, err := s.Fork(t.Context(), id, 0, repo.NewSession{})
	must(t, fork, err)
	given.Content = "another one"
	added := appendTo(t, s, fork.ID, given)
	wantMessages(t, appendTo(t, s, fork.ID, given), added)
	for of, want := range map[repo.ID]repo.Message{id: inherited[0], fork.ID: added[0]} {
		got, err := s.Message(t.Context(), of, given.ID)
		must(t, got, err)
		wantMessages(t, []repo.Message{got}, []repo.Message{want})
	}
	wantTranscript(t, s, fork.ID, 0, 1)
	wantRoundTrip(t, s, fork.ID)
}

// A fork that was deleted is imported again while another one has what both inherited, by way of a fork that is deleted, too.
func testForkRestored(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(3)...)
	first := fork(t, s, id, 1)
	appendTo(t, s, first, users(1)...)
	second := fork(t, s, first, 2)
	turnOn(t, s, second, repo.Turn{After: ptr(int64(1)), Messages: users(1)}) // nothing that is the first fork's own
	last := fork(t, s, second, 3)
	wantTranscript(t, s, last, 0, 1, 3)
	document := export(t, s, first)
	remove(t, s, second)
	remove(t, s, first)
	importFrom(t, s, bytes.NewReader(document))
	wantTranscript(t, s, first, 0, 1, 2)
	wantTranscript(t, s, last, 0, 1, 3)
	remove(t, s, id)
	remove(t, s, first)
	wantTranscript(t, s, last, 0, 1, 3)
}

// A fork of a session with a pending switch, and of a fork with one, at the pending place and elsewhere.
func testForkPending(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(4)...)
	turnOn(t, s, id, repo.Turn{After: ptr(int64(1))})
	fork, err := s.Fork(t.Context(), id, 3, repo.NewSession{})
	must(t, fork, err)
	wantTranscript(t, s, fork.ID, 0, 1, 2, 3)
	turnOn(t, s, fork.ID, repo.Turn{After: ptr(int64(0))})
	wantTranscript(t, s, fork.ID, 0)
	second, err := s.Fork(t.Context(), fork.ID, 2, repo.NewSession{})
	must(t, second, err)
	wantTranscript(t, s, second.ID, 0, 1, 2)
	appendTo(t, s, fork.ID, users(1)...)
	wantTranscript(t, s, fork.ID, 0, 4)
	turnOn(t, s, fork.ID, repo.Turn{After: ptr(int64(-1))})
	wantTranscript(t, s, fork.ID)
	appendTo(t, s, fork.ID, users(1)...)
	wantTranscript(t, s, fork.ID, 5)
	third, err := s.Fork(t.Context(), fork.ID, 5, repo.NewSession{})
	must(t, third, err)
	wantTranscript(t, s, third.ID, 5)
	appendTo(t, s, third.ID, users(1)...)
	wantTranscript(t, s, third.ID, 5, 6)
	_, err = s.Fork(t.Context(), third.ID, 4, repo.NewSession{})
	if !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("a fork at what a fork does not have: %v", err)
	}
	_, err = s.AppendTurn(t.Context(), repo.Turn{SessionID: third.ID, After: ptr(int64(4)), Messages: users(1)})
	if !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("behind what a fork does not have: %v", err)
	}
	turnOn(t, s, third.ID, repo.Turn{After: ptr(int64(5)), Messages: users(1)})
	wantTranscript(t, s, third.ID, 5, 7)
	if _, err := s.Delete(t.Context(), fork.ID); err != nil {
		t.Error(err)
	}
	wantTranscript(t, s, third.ID, 5, 7)
	wantTranscript(t, s, second.ID, 0, 1, 2)
	if _, err := s.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
	wantTranscript(t, s, third.ID, 5, 7)
	wantTranscript(t, s, second.ID, 0, 1, 2)
	fourth, err := s.Fork(t.Context(), second.ID, 0, repo.NewSession{})
	must(t, fourth, err)
	if _, err := s.Delete(t.Context(), second.ID); err != nil {
		t.Error(err)
	}
	wantTranscript(t, s, fourth.ID, 0)
}

// Exports of edited sessions, and of forks whose others are gone, read back equal, also those with a switch that is pending.
func testForkExport(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(4)...)
	turnOn(t, s, id, repo.Turn{After: ptr(int64(1)), Messages: users(1)})
	turnOn(t, s, id, repo.Turn{After: ptr(int64(2))})
	fork, err := s.Fork(t.Context(), id, 4, repo.NewSession{})
	must(t, fork, err)
	turnOn(t, s, fork.ID, repo.Turn{After: ptr(int64(0))})
	second, err := s.Fork(t.Context(), fork.ID, 1, repo.NewSession{})
	must(t, second, err)
	turnOn(t, s, second.ID, repo.Turn{After: ptr(int64(-1))})
	documents := map[repo.ID][]byte{}
	for _, of := range []repo.ID{id, fork.ID, second.ID} {
		var out bytes.Buffer
		if err := s.Export(t.Context(), of, &out); err != nil {
			t.Fatal(err)
		}
		documents[of] = out.Bytes()
	}
	for _, of := range []repo.ID{id, fork.ID, second.ID} {
		if _, err := s.Delete(t.Context(), of); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range []repo.ID{second.ID, fork.ID, id} {
		if _, err := s.Import(t.Context(), bytes.NewReader(documents[of]), true); err != nil {
			t.Fatalf("%v\n%s", err, documents[of])
		}
		var out bytes.Buffer
		if err := s.Export(t.Context(), of, &out); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), documents[of]) {
			t.Errorf("exported again:\n%s\nwant\n%s", out.Bytes(), documents[of])
		}
	}
	wantTranscript(t, s, id, 0, 1, 2)
	wantTranscript(t, s, fork.ID, 0)
	wantTranscript(t, s, second.ID)
	got := appendTo(t, s, second.ID, users(1)...)
	if got[0].Sequence != 2 || got[0].Follows != -1 {
		t.Errorf("%+v", got)
	}
	got = appendTo(t, s, fork.ID, users(1)...)
	if got[0].Sequence != 5 || got[0].Follows != 0 {
		t.Errorf("%+v", got)
	}
}

// What is left of a session that was deleted is none of its messages, however it is asked for.
func testDeleteFamily(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	m := user("a")
	m.ID, m.CallID = repo.NewID(), "c"
	appendTo(t, s, id, m)
	appendTo(t, s, id, users(2)...)
	fork, err := s.Fork(t.Context(), id, 2, repo.NewSession{})
	must(t, fork, err)
	if _, err := s.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]func() error{
		"Get":            func() error { _, err := s.Get(t.Context(), id); return err },
		"Message":        func() error { _, err := s.Message(t.Context(), id, m.ID); return err },
		"MessagesFrom":   func() error { _, err := s.MessagesFrom(t.Context(), id, 0, 1); return err },
		"MessagesBefore": func() error { _, err := s.MessagesBefore(t.Context(), id, 2, 1); return err },
		"LastMessages":   func() error { _, err := s.LastMessages(t.Context(), id, 1); return err },
		"MessagesOfCall": func() error { _, err := s.MessagesOfCall(t.Context(), id, "c"); return err },
		"Branches":       func() error { _, err := s.Branches(t.Context(), id, 0); return err },
		"Turn":           func() error { _, err := s.Turn(t.Context(), id, m.ID.String()); return err },
		"Fork":           func() error { _, err := s.Fork(t.Context(), id, 0, repo.NewSession{}); return err },
		"Append":         func() error { _, err := s.Append(t.Context(), id, m); return err },
		"AppendTurn": func() error {
			_, err := s.AppendTurn(t.Context(), repo.Turn{SessionID: id, After: ptr(int64(0)), Messages: []repo.NewMessage{m}})
			return err
		},
		"Export": func() error { return s.Export(t.Context(), id, &bytes.Buffer{}) },
		"Messages": func() error {
			for _, err := range s.Messages(t.Context(), id, 0) {
				return err
			}
			return nil
		},
	} {
		if err := of(); !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, read := range []repo.ReadSessions{{First: 5}, {Last: 5}, {Last: 5, Tokens: 100}, {First: 5, Branches: true}} {
		read.IDs = []repo.ID{id}
		snapshot, err := s.Read(t.Context(), read)
		if err != nil || snapshot.Sessions[0] != nil {
			t.Errorf("%+v: %+v, %v", read, snapshot, err)
		}
	}
	wantTranscript(t, s, fork.ID, 0, 1, 2)
}

// A prompt has the newest 1,000 instructions, also if they are on several branches, before and behind a fork.
func testPromptInstructions(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	system := user("x")
	system.Role = repo.RoleSystem
	add := func(id repo.ID, count int, m repo.NewMessage) {
		batch := make([]repo.NewMessage, count)
		for i := range batch {
			batch[i] = m
		}
		appendTo(t, s, id, batch...)
	}
	want := func(id repo.ID, tokens, first, second int64, count int) {
		t.Helper()
		got := read(t, s, id, repo.ReadSessions{Last: 1000, Tokens: tokens})
		if len(got.Messages) != count || got.Messages[0].Sequence != first || got.Messages[1].Sequence != second || !got.Cut {
			t.Errorf("%d messages, %d, %d, …, cut: %t; want %d, %d, %d", len(got.Messages), got.Messages[0].Sequence, got.Messages[1].Sequence, got.Cut, count, first, second)
		}
	}
	add(id, 600, system) // 0 to 599
	add(id, 2, user("x"))
	add(id, 600, system)          // 602 to 1201
	want(id, 100, 200, 201, 1002) // all fit but the first 200
	add(id, 3, user("x"))
	want(id, 14, 200, 201, 1002)
	branch := fork(t, s, id, 1201)
	turnOn(t, s, branch, repo.Turn{After: ptr(int64(900)), Messages: []repo.NewMessage{system, system, user("x")}})
	want(branch, 5, 0, 1, 902)
	add(branch, 600, system)
	want(branch, 5, 501, 502, 1001)
}
