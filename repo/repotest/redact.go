package repotest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

func redactTests() []test {
	return []test{
		onPlans("Messages", testRedactMessages),
		on("Repeated", testRedactRepeated),
		on("Retries", testRedactRetries),
		on("Forks", testRedactForks),
		on("Branch", testRedactBranch),
		on("Held", testRedactHeld),
		on("Invalid", testRedactInvalid),
		on("Export", testRedactExport),
		onPlans("Streams", testRedactStreams),
	}
}

// canary is what nothing has after a redaction, and by is who makes it.
const canary = "hunter2-canary"

var by = repo.Cause{Actor: "ann", Reason: "a password"}

func redact(t *testing.T, s repo.Sessions, id repo.ID, sequences ...int64) {
	t.Helper()
	must(t, id, s.Redact(t.Context(), id, sequences, by))
}

// leaked is a message that has the canary wherever a message may.
func leaked() repo.NewMessage {
	return repo.NewMessage{
		ID: repo.NewID(), Role: repo.RoleAssistant, Content: canary, Metadata: json.RawMessage(`{"x":"` + canary + `"}`), Payload: []byte(canary),
		Kind: canary, CallID: "call", Tokens: 7, Counter: canary, OccurredAt: time.Unix(1e9, 0),
	}
}

// wantRedacted wants a message of which the place is left.
func wantRedacted(t *testing.T, got, before repo.Message) {
	t.Helper()
	before.Content, before.Kind, before.Metadata, before.Payload = "erased", repo.KindRedacted, json.RawMessage(`{}`), nil
	before.Tokens, before.Counter = 0, ""
	wantMessages(t, []repo.Message{got}, []repo.Message{before})
}

// Guarantee: Deletion: A redacted message keeps its place and says nothing, wherever it is read.
// Guarantee: Deletion: The audit trail has who redacted messages, and why.
func testRedactMessages(t *testing.T, r repo.Repositories) {
	s := r.Sessions()
	id := create(t, s)
	stored := appendTo(t, s, id, user("before"), leaked(), repo.NewMessage{Role: repo.RoleTool, CallID: "call", Content: canary}, user("after"))
	redact(t, s, id, 2, 1, 2)
	all := readAll(t, s, id)
	if len(all) != 5 {
		t.Fatalf("there are %d messages", len(all))
	}
	wantMessages(t, []repo.Message{all[0], all[3]}, []repo.Message{stored[0], stored[3]})
	wantRedacted(t, all[1], stored[1])
	wantRedacted(t, all[2], stored[2])
	event := all[4]
	if event.Role != repo.RoleSystem || event.Kind != repo.KindRedacted || event.Content != "" || string(event.Metadata) != `{"sequences":[1,2]}` || event.Payload != nil {
		t.Errorf("followers get %+v", event)
	}
	one, err := s.Message(t.Context(), id, stored[1].ID)
	wantRedacted(t, must(t, one, err), stored[1])
	ofCall, err := s.MessagesOfCall(t.Context(), id, "call")
	wantMessages(t, must(t, ofCall, err), all[1:3])
	prompt := read(t, s, id, repo.ReadSessions{Last: 10, Tokens: 1000})
	if text, err := json.Marshal(prompt); err != nil || bytes.Contains(text, []byte(canary)) {
		t.Errorf("a prompt has %s, %v", text, err)
	}
	entries, err := r.Audit().List(t.Context(), repo.AuditFilter{SessionID: id, Type: "entity_deleted"}, repo.Page{})
	found := must(t, entries, err).Items
	if len(found) != 1 || found[0].Actor != "ann" || string(found[0].Details) != `{"entity":"messages","sequences":[1,2],"reason":"a password"}` ||
		found[0].Namespace != get(t, s, id).Namespace {
		t.Errorf("the audit trail has %+v", found)
	}
}

// Guarantee: Deletion: Redacting a message again changes nothing, and is not recorded again.
func testRedactRepeated(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, leaked(), user("b"), user("c"))
	redact(t, s, id, 0)
	before := readAll(t, s, id)
	redact(t, s, id, 0)
	redact(t, s, id, 0, 3) // and what tells of it
	wantMessages(t, readAll(t, s, id), before)
	redact(t, s, id, 0, 1)
	if all := readAll(t, s, id); len(all) != 5 || string(all[4].Metadata) != `{"sequences":[1]}` {
		t.Errorf("there are %+v", all)
	}
}

// Guarantee: Deletion: A call that stored a redacted message is answered as before, whatever it says.
func testRedactRetries(t *testing.T, s repo.Sessions) {
	id, message := create(t, s), leaked()
	appendTo(t, s, id, message, user("with it"))
	turn := repo.Turn{ID: "t", SessionID: id, Messages: []repo.NewMessage{user(canary), user("second")}, State: []repo.StateChange{{Key: "k", Value: []byte("1")}}}
	added := turnOn(t, s, id, turn)
	own := user(canary)
	own.ID = repo.NewID()
	byMessage := repo.Turn{SessionID: id, Messages: []repo.NewMessage{own}, Usage: &repo.NewUsage{InputTokens: 1}}
	turnOn(t, s, id, byMessage)
	redact(t, s, id, 0, added[0].Sequence, added[1].Sequence+1)
	before := readAll(t, s, id)
	again := []repo.NewMessage{message}
	for _, content := range []string{canary, "another"} {
		again[0].Content = content
		got := appendTo(t, s, id, again...)
		wantMessages(t, got, before[:1])
		turn.Messages[0].Content, byMessage.Messages[0].Content = content, content
		for i, turn := range []repo.Turn{turn, byMessage} {
			got, err := s.AppendTurn(t.Context(), turn)
			if must(t, got, err); !got.Repeated {
				t.Error("the turn is added again")
			}
			wantMessages(t, got.Messages, [][]repo.Message{before[2:4], before[4:5]}[i])
		}
	}
	again[0].Role = repo.RoleUser
	_, err := s.Append(t.Context(), id, again...)
	_, _ = wantError[*repo.ExistsError](t, err, repo.ErrConflict)
	got, err := s.Turn(t.Context(), id, "t")
	wantMessages(t, must(t, got, err).Messages, before[2:4])
	wantMessages(t, readAll(t, s, id), before)
}

// Guarantee: Deletion: A redacted message is gone from all forks, also of deleted sessions.
func testRedactForks(t *testing.T, s repo.Sessions) {
	fork := func(of repo.ID, at int64) repo.ID {
		t.Helper()
		made, err := s.Fork(t.Context(), of, at, repo.NewSession{})
		return must(t, made, err).ID
	}
	id := create(t, s)
	for range 4 {
		appendTo(t, s, id, leaked())
	}
	first := fork(id, 3)
	appendTo(t, s, first, leaked())
	second := fork(first, 4)
	appendTo(t, s, second, user("own"))
	want := func(of repo.ID, sequence int64) {
		t.Helper()
		if all := readAll(t, s, of); all[sequence].Kind != repo.KindRedacted || all[sequence].SessionID != of {
			t.Errorf("message %d is %+v", sequence, all[sequence])
		}
	}
	redact(t, s, id, 0)
	for _, of := range []repo.ID{id, first, second} {
		want(of, 0)
	}
	redact(t, s, second, 1, 4)
	for _, of := range []repo.ID{id, first, second} {
		want(of, 1)
		if last := readAll(t, s, of); !isRedaction(last[len(last)-1]) {
			t.Errorf("the last message is %+v", last[len(last)-1])
		}
	}
	want(first, 4)
	again, err := s.Fork(t.Context(), id, 3, repo.NewSession{ID: first, Existing: repo.ExistingSame})
	if err != nil || again.ID != first {
		t.Errorf("the fork made again: %v", err)
	}
	remove(t, s, id)
	redact(t, s, first, 2)
	want(first, 2)
	want(second, 2)
	remove(t, s, first)
	redact(t, s, second, 3)
	want(second, 3)
	wantNotFound(t, s.Redact(t.Context(), first, []int64{3}, by), "session", first)
	if text, err := json.Marshal(readAll(t, s, second)); err != nil || bytes.Contains(text, []byte(canary)) {
		t.Errorf("the fork has %s, %v", text, err)
	}
}

func isRedaction(m repo.Message) bool {
	return m.Kind == repo.KindRedacted && strings.Contains(string(m.Metadata), "sequences")
}

func wantNoMessage(t *testing.T, err error, sequence int64) {
	t.Helper()
	if missing, is := wantError[*repo.NotFoundError](t, err, repo.ErrNotFound); is {
		wantEqual(t, missing, repo.NotFoundError{Kind: "message", Name: fmt.Sprint(sequence)})
	}
}

// A branch, which is not in the transcript, is redacted by its sequences; a fork does not reach it.
func testRedactBranch(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, user("a"), leaked(), leaked())
	turnOn(t, s, id, repo.Turn{After: ptr(int64(0)), Messages: users(2)})
	fork, err := s.Fork(t.Context(), id, 4, repo.NewSession{})
	must(t, fork, err)
	for _, sequence := range []int64{1, 5, 9} {
		wantNoMessage(t, s.Redact(t.Context(), fork.ID, []int64{0, sequence}, by), sequence)
	}
	branches, err := s.Branches(t.Context(), id, 1)
	branch := must(t, branches, err)[0]
	redact(t, s, id, branch.Sequence, branch.Last)
	all := read(t, s, id, repo.ReadSessions{First: 10, Branches: true}).Messages
	if text, err := json.Marshal(all); err != nil || bytes.Contains(text, []byte(canary)) || len(all) != 6 || all[5].Follows != 4 {
		t.Errorf("the branches have %s, %v", text, err)
	}
	// A rewound session goes on where it was.
	turnOn(t, s, id, repo.Turn{After: ptr(int64(3))})
	redact(t, s, id, 0)
	if all := readAll(t, s, id); len(all) != 3 || all[2].Follows != 3 || all[0].Kind != repo.KindRedacted {
		t.Errorf("the transcript is %+v", all)
	}
}

// Guarantee: Deletion: A legal hold refuses redactions, also of messages of its forks.
func testRedactHeld(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, leaked(), leaked())
	fork, err := s.Fork(t.Context(), id, 0, repo.NewSession{Owner: "bob"})
	must(t, fork, err)
	namespace := get(t, s, id).Namespace
	for _, hold := range []repo.LegalHold{{SessionID: id}, {SessionID: fork.ID}, {Namespace: namespace, Owner: "bob"}} {
		hold.Reason = "x"
		must(t, hold, s.AddHold(t.Context(), hold))
		before := readAll(t, s, id)
		for _, of := range []repo.ID{id, fork.ID} {
			if refused, is := wantError[*repo.RefusedError](t, s.Redact(t.Context(), of, []int64{0}, by), repo.ErrConflict); is {
				wantSame(t, "kind", refused.Kind, "hold")
			}
		}
		wantMessages(t, readAll(t, s, id), before)
		must(t, hold, s.RemoveHold(t.Context(), hold))
	}
	redact(t, s, fork.ID, 0)
}

func testRedactInvalid(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, leaked())
	before := readAll(t, s, id)
	many := make([]int64, 1001)
	for field, call := range map[string]struct {
		sequences []int64
		by        repo.Cause
	}{
		"sequences":    {nil, by},
		"sequences[1]": {[]int64{0, -1}, by},
		"reason":       {[]int64{0}, repo.Cause{Actor: "ann"}},
		"actor":        {[]int64{0}, repo.Cause{Actor: strings.Repeat("x", 256), Reason: "x"}},
		"by":           {[]int64{0}, repo.Cause{Reason: "x", Fence: 1}},
	} {
		wantInvalid(t, s.Redact(t.Context(), id, call.sequences, call.by), field)
	}
	wantInvalid(t, s.Redact(t.Context(), id, many, by), "sequences")
	wantInvalid(t, s.Redact(t.Context(), id, []int64{0}, repo.Cause{Reason: strings.Repeat("x", 64<<10+1)}), "reason")
	wantNoMessage(t, s.Redact(t.Context(), id, []int64{7, 0, 5}, by), 5)
	wantMessages(t, readAll(t, s, id), before)
	_, err := s.Append(t.Context(), id, repo.NewMessage{Role: repo.RoleUser, Kind: repo.KindRedacted, Content: "x"})
	wantInvalid(t, err, "messages[0].kind")
	redact(t, s, id, many[:1000]...) // of which none is another one
}

// Guarantee: Deletion: Exports have redacted messages as such, and imports keep them so.
func testRedactExport(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, leaked(), leaked(), user("c"))
	redact(t, s, id, 0, 1)
	document := export(t, s, id)
	if bytes.Contains(document, []byte(canary)) {
		t.Errorf("the document is %s", document)
	}
	wantRoundTrip(t, s, id)
	redact(t, s, id, 0)
	wantSame(t, "messages after the import", int64(len(readAll(t, s, id))), int64(4))
}

// Guarantee: Deletion: What has streamed a redacted message is gone with it.
func testRedactStreams(t *testing.T, r repo.Repositories) {
	s := r.Sessions()
	id := create(t, s)
	added, err := s.AppendTurn(t.Context(), repo.Turn{SessionID: id, Messages: users(1), Open: &repo.NewStream{Key: randomName(), Owner: "w", TTL: time.Hour}})
	stream := *must(t, added, err).Stream
	next, err := r.Streams().Append(t.Context(), stream, []byte(canary))
	stream.Next = must(t, next, err)
	appendTo(t, s, id, leaked())
	redact(t, s, id, 1)
	_, err = r.Streams().Get(t.Context(), stream.Key)
	if !errors.Is(err, repo.ErrNotFound) {
		t.Errorf("the stream: %v", err)
	}
	if _, err := r.Streams().Append(t.Context(), stream, []byte("more")); !errors.Is(err, repo.ErrGone) {
		t.Errorf("its writer: %v", err)
	}
	must(t, stream, r.Streams().Finish(t.Context(), stream)) // the answer is stored
	reopened := openStream(t, r, repo.NewStream{Key: stream.Key, Owner: "w", TTL: time.Hour, Session: id})
	if slices.Contains([]repo.ID{stream.ID}, reopened.ID) || reopened.Next != 0 {
		t.Errorf("the next stream is %+v", reopened)
	}
}
