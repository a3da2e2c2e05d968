package repotest

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

func messageTests() []test {
	return []test{
		on("ByID", testMessageByID),
		on("From", testMessagesFrom),
		on("Before", testMessagesBefore),
		on("Last", testLastMessages),
		on("Limits", testMessageLimits),
		on("DefaultLimit", testMessageDefaultLimit),
		on("Walk", testMessageWalk),
		on("OfCall", testMessagesOfCall),
		on("OfLongCall", testMessagesOfLongCall),
		on("EmptySession", testMessagesOfEmptySession),
		on("MissingSession", testMessagesOfMissingSession),
	}
}

func testMessageByID(t *testing.T, s repo.Sessions) {
	id, other := create(t, s), create(t, s)
	stored := appendTo(t, s, id, user("a"), fullMessage(), user("c"))
	foreign := appendTo(t, s, other, user("foreign"))
	for _, want := range stored {
		got, err := s.Message(t.Context(), id, want.ID)
		if err != nil {
			t.Fatalf("Message: %v", err)
		}
		wantMessage(t, got, want)
	}
	for _, missing := range []repo.ID{repo.NewID(), {}, id, foreign[0].ID} {
		_, err := s.Message(t.Context(), id, missing)
		wantNotFound(t, err, "message", missing)
	}
	missing := repo.NewID()
	_, err := s.Message(t.Context(), missing, stored[0].ID)
	wantNotFound(t, err, "session", missing)
}

func testMessagesFrom(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	all := appendTo(t, s, id, users(10)...)
	appendTo(t, s, create(t, s), users(3)...) // those of another session are not read
	for _, from := range []int64{0, 1, 4, 9, 10, 11, math.MaxInt64} {
		for _, limit := range []int{1, 5, 10, 11, repo.MaxPageSize} {
			got, err := s.MessagesFrom(t.Context(), id, from, limit)
			if err != nil {
				t.Fatalf("MessagesFrom %d: %v", from, err)
			}
			first := min(from, 10)
			wantMessages(t, got, all[first:min(first+int64(limit), 10)])
		}
	}
}

func testMessagesBefore(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	all := appendTo(t, s, id, users(10)...)
	for _, before := range []int64{0, 1, 5, 9, 10, 11, math.MaxInt64} {
		for _, limit := range []int{1, 5, 10, 11, repo.MaxPageSize} {
			got, err := s.MessagesBefore(t.Context(), id, before, limit)
			if err != nil {
				t.Fatalf("MessagesBefore %d: %v", before, err)
			}
			end := min(before, 10)
			want := slices.Clone(all[max(0, end-int64(limit)):end])
			slices.Reverse(want)
			wantMessages(t, got, want)
		}
	}
}

func testLastMessages(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	all := appendTo(t, s, id, users(10)...)
	for _, limit := range []int{1, 5, 9, 10, 11, repo.MaxPageSize} {
		got, err := s.LastMessages(t.Context(), id, limit)
		if err != nil {
			t.Fatalf("LastMessages %d: %v", limit, err)
		}
		wantMessages(t, got, all[max(0, 10-limit):])
	}
}

func testMessageLimits(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, user("x"))
	for _, session := range []repo.ID{id, repo.NewID()} { // arguments are checked first
		for _, limit := range []int{-1, math.MinInt, repo.MaxPageSize + 1, math.MaxInt} {
			_, err := s.MessagesFrom(t.Context(), session, 0, limit)
			wantInvalid(t, err, "limit")
			_, err = s.MessagesBefore(t.Context(), session, 1, limit)
			wantInvalid(t, err, "limit")
			_, err = s.LastMessages(t.Context(), session, limit)
			wantInvalid(t, err, "limit")
		}
	}
}

func testMessageDefaultLimit(t *testing.T, s repo.Sessions) {
	const count = repo.DefaultPageSize + 5
	id := create(t, s)
	all := appendTo(t, s, id, users(count)...)
	got, err := s.MessagesFrom(t.Context(), id, 2, 0)
	wantMessages(t, must(t, got, err), all[2:2+repo.DefaultPageSize])
	got, err = s.LastMessages(t.Context(), id, 0)
	wantMessages(t, must(t, got, err), all[5:])
	got, err = s.MessagesBefore(t.Context(), id, count, 0)
	got = must(t, got, err)
	slices.Reverse(got)
	wantMessages(t, got, all[5:])
}

// Every way of reading page by page, as documented, returns every message once.
func testMessageWalk(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	all := appendTo(t, s, id, users(23)...)
	for _, limit := range []int{1, 7, 23} {
		var up, down []repo.Message
		for from := int64(0); ; {
			page, err := s.MessagesFrom(t.Context(), id, from, limit)
			up = append(up, must(t, page, err)...)
			if len(page) < limit {
				break
			}
			from = page[len(page)-1].Sequence + 1
		}
		wantMessages(t, up, all)
		for before := int64(len(all)); before > 0; {
			page, err := s.MessagesBefore(t.Context(), id, before, limit)
			down = append(down, must(t, page, err)...)
			if len(page) == 0 {
				break
			}
			before = page[len(page)-1].Sequence
		}
		slices.Reverse(down)
		wantMessages(t, down, all)
	}
}

// ofCall makes messages of one call.
func ofCall(callID string, contents ...string) (messages []repo.NewMessage) {
	for _, content := range contents {
		messages = append(messages, repo.NewMessage{Role: repo.RoleTool, Content: content, CallID: callID})
	}
	return messages
}

func messagesOfCall(t *testing.T, s repo.Sessions, id repo.ID, callID string) []repo.Message {
	t.Helper()
	messages, err := s.MessagesOfCall(t.Context(), id, callID)
	return must(t, messages, err)
}

// wantCalls checks that the messages of each call are found, if these are all messages
// of the session.
func wantCalls(t *testing.T, s repo.Sessions, id repo.ID, messages []repo.Message) {
	t.Helper()
	calls := map[string][]repo.Message{}
	for _, message := range messages {
		if message.CallID != "" {
			calls[message.CallID] = append(calls[message.CallID], message)
		}
	}
	for callID, want := range calls {
		wantMessages(t, messagesOfCall(t, s, id, callID), want)
	}
}

func testMessagesOfCall(t *testing.T, s repo.Sessions) {
	id, other := create(t, s), create(t, s)
	batch := slices.Concat(users(1), ofCall("a", "call"), ofCall("b", "call"), users(2))
	first := appendTo(t, s, id, batch...)
	appendTo(t, s, other, ofCall("a", "of another session")...)
	second := appendTo(t, s, id, ofCall("a", "progress", "result")...)
	wantMessages(t, messagesOfCall(t, s, id, "a"), slices.Concat(first[1:2], second))
	wantMessages(t, messagesOfCall(t, s, id, "b"), first[2:3])
	for _, unknown := range []string{"c", "A", "a ", " a", "ab", "%", strings.Repeat("x", limits.MaxUserIDBytes)} {
		wantMessages(t, messagesOfCall(t, s, id, unknown), nil)
	}
	for _, session := range []repo.ID{id, repo.NewID()} { // the argument is checked first
		for _, bad := range append(invalidTexts(), "", strings.Repeat("x", limits.MaxUserIDBytes+1)) {
			_, err := s.MessagesOfCall(t.Context(), session, bad)
			wantInvalid(t, err, "call_id")
		}
	}

	// A repetition is not found twice, and what was refused not at all.
	named := fullMessage()
	stored := appendTo(t, s, id, named)
	appendTo(t, s, id, named)
	_, err := appendAt(t.Context(), s, id, 0, ofCall(named.CallID, "too late")...)
	wantSequenceConflict(t, err, repo.SequenceConflictError{Kind: "session", ID: id, Expected: 0, Next: 8})
	inTime, err := appendAt(t.Context(), s, id, 8, ofCall(named.CallID, "in time")...)
	wantMessages(t, messagesOfCall(t, s, id, named.CallID), append(stored, must(t, inTime, err)...))

	// The calls are deleted with their session.
	remove(t, s, id)
	_, err = s.MessagesOfCall(t.Context(), id, "a")
	wantNotFound(t, err, "session", id)
	wantMessages(t, messagesOfCall(t, s, other, "a"), readAll(t, s, other))
}

// Of a call with more messages than a page the first are returned.
func testMessagesOfLongCall(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	all := appendTo(t, s, id, ofCall("long", slices.Repeat([]string{"part"}, repo.MaxPageSize+5)...)...)
	wantMessages(t, messagesOfCall(t, s, id, "long"), all[:repo.MaxPageSize])
}

func testMessagesOfEmptySession(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	for name, read := range reads(t, s, id) {
		if got, err := read(); err != nil || len(got) != 0 {
			t.Errorf("%s of an empty session gave %d messages, %v", name, len(got), err)
		}
	}
}

func testMessagesOfMissingSession(t *testing.T, s repo.Sessions) {
	id := repo.NewID()
	for _, read := range reads(t, s, id) {
		_, err := read()
		wantNotFound(t, err, "session", id)
	}
}

// reads are all ways of reading a session's messages.
func reads(t *testing.T, s repo.Sessions, id repo.ID) map[string]func() ([]repo.Message, error) {
	ctx := t.Context()
	return map[string]func() ([]repo.Message, error){
		"MessagesFrom":         func() ([]repo.Message, error) { return s.MessagesFrom(ctx, id, 0, 10) },
		"MessagesFrom 5":       func() ([]repo.Message, error) { return s.MessagesFrom(ctx, id, 5, 10) },
		"MessagesBefore":       func() ([]repo.Message, error) { return s.MessagesBefore(ctx, id, 5, 10) },
		"MessagesBefore first": func() ([]repo.Message, error) { return s.MessagesBefore(ctx, id, 0, 10) },
		"LastMessages":         func() ([]repo.Message, error) { return s.LastMessages(ctx, id, 10) },
		"MessagesOfCall":       func() ([]repo.Message, error) { return s.MessagesOfCall(ctx, id, "x") },
		"Stream":               func() ([]repo.Message, error) { return collect(s.Messages(ctx, id, 0)) },
		"Stream 5":             func() ([]repo.Message, error) { return collect(s.Messages(ctx, id, 5)) },
	}
}
