package repotest

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

func appendTests() []test {
	return []test{
		on("Contiguous", testAppendContiguous),
		on("LargestBatch", testAppendLargestBatch),
		on("WithoutIDs", testAppendWithoutIDs),
		on("Arguments", testAppendArguments),
		on("Missing", testAppendMissing),
		on("Repeat", testAppendRepeat),
		on("RepeatWrittenOtherwise", testAppendRepeatWrittenOtherwise),
		on("RepeatInOtherBatches", testAppendRepeatInOtherBatches),
		on("PartlyStored", testAppendPartlyStored),
		on("Conflicts", testAppendConflicts),
		on("SameIDInTwoSessions", testAppendSameIDInTwoSessions),
		on("AppendAt", testAppendAt),
		on("AppendAtConflict", testAppendAtConflict),
		on("AppendAtRepeat", testAppendAtRepeat),
	}
}

// fullMessage sets every field.
func fullMessage() repo.NewMessage {
	return repo.NewMessage{
		ID: repo.NewID(), Role: repo.RoleAssistant, Content: secret,
		Metadata: json.RawMessage(`{"a":1,"b":["é",2.50]}`), Payload: []byte{0, 1, 255},
		Kind: secret + " kind", CallID: secret + " call", OccurredAt: time.Date(2026, 2, 3, 4, 5, 6, 789012000, time.UTC),
	}
}

// wantStored compares what an append returned with what it was given.
func wantStored(t *testing.T, session repo.ID, first int64, given []repo.NewMessage, stored []repo.Message) {
	t.Helper()
	if len(stored) != len(given) {
		t.Errorf("%d messages were given, %d stored", len(given), len(stored))
		return
	}
	for i, got := range stored {
		want := repo.Message{
			SessionID: session, ID: given[i].ID, Sequence: first + int64(i), Follows: first + int64(i) - 1, Role: given[i].Role,
			Content: given[i].Content, Metadata: given[i].Metadata, Payload: given[i].Payload,
			Kind: given[i].Kind, CallID: given[i].CallID, Tokens: given[i].Tokens, Counter: given[i].Counter,
			OccurredAt: given[i].OccurredAt.Truncate(time.Microsecond), CreatedAt: got.CreatedAt,
		}
		if want.ID.IsZero() {
			want.ID = got.ID
		}
		if want.Metadata == nil {
			want.Metadata = json.RawMessage(`{}`)
		}
		if got.ID.IsZero() || got.CreatedAt.IsZero() {
			t.Errorf("message %d has no id or no time: %s, %v", i, got.ID, got.CreatedAt)
		}
		wantMessage(t, got, want)
	}
}

// Guarantee: Messages: A batch is stored whole and contiguous, or not at all.
func testAppendContiguous(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	var all []repo.Message
	for _, size := range []int{1, 3, 1, 40, 2} {
		batch := users(size)
		stored := appendTo(t, s, id, batch...)
		wantStored(t, id, int64(len(all)), batch, stored)
		all = append(all, stored...)
	}
	wantMessages(t, wantCount(t, s, id, len(all)), all)
}

func testAppendLargestBatch(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	stored := appendTo(t, s, id, users(repo.MaxBatchMessages)...)
	wantDense(t, stored, 0)
	wantCount(t, s, id, repo.MaxBatchMessages)
}

// Messages without ids are always new, and get different ids.
func testAppendWithoutIDs(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(3)...)
	appendTo(t, s, id, users(3)...)
	seen := map[repo.ID]bool{}
	for _, message := range wantCount(t, s, id, 6) {
		seen[message.ID] = true
	}
	if len(seen) != 6 {
		t.Errorf("6 messages have %d ids", len(seen))
	}
}

// The arguments are not changed, and the results share no memory with the store.
func testAppendArguments(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	given := []repo.NewMessage{user("x"), fullMessage()}
	before := slices.Clone(given)
	stored := appendTo(t, s, id, given...)
	if !given[0].ID.IsZero() || given[0].Metadata != nil || given[1].Content != before[1].Content {
		t.Errorf("the arguments became %+v", given)
	}
	want := clone(readAll(t, s, id))
	given[1].Payload[0], given[1].Metadata[1] = 'x', 'x'
	stored[1].Payload, stored[1].Content = nil, "x"
	changed := readAll(t, s, id)
	if changed[1].Payload[0] == 'x' || changed[1].Metadata[1] == 'x' {
		t.Error("a change of the arguments reached the store")
	}
	changed[1].Payload[1], changed[1].Metadata[2] = 'y', 'y'
	wantMessages(t, readAll(t, s, id), want)

	// In every way of reading.
	for _, read := range []func() ([]repo.Message, error){
		func() ([]repo.Message, error) { return s.MessagesFrom(t.Context(), id, 0, 10) },
		func() ([]repo.Message, error) { return s.LastMessages(t.Context(), id, 10) },
		func() ([]repo.Message, error) {
			messages, err := s.MessagesBefore(t.Context(), id, 2, 10)
			slices.Reverse(messages)
			return messages, err
		},
		func() ([]repo.Message, error) {
			message, err := s.Message(t.Context(), id, given[1].ID)
			return []repo.Message{want[0], message}, err
		},
	} {
		for range 2 {
			messages, err := read()
			if wantMessages(t, must(t, messages, err), want); t.Failed() {
				return
			}
			messages[1].Payload[1], messages[1].Metadata[2] = 'z', 'z'
		}
	}
}

func testAppendMissing(t *testing.T, s repo.Sessions) {
	id := repo.NewID()
	_, err := s.Append(t.Context(), id, user(secret))
	wantNotFound(t, err, "session", id)
	_, err = s.Append(t.Context(), id, fullMessage())
	wantNotFound(t, err, "session", id)
	for _, expected := range []int64{0, 1} {
		_, err = appendAt(t.Context(), s, id, expected, user(secret))
		wantNotFound(t, err, "session", id)
	}
}

// Guarantee: Messages: A message with an id of the caller's is stored once.
func testAppendRepeat(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	single := []repo.NewMessage{fullMessage()}
	batch := []repo.NewMessage{user("a"), fullMessage(), user("c")}
	batch[0].ID, batch[2].ID = repo.NewID(), repo.NewID()
	for _, given := range [][]repo.NewMessage{single, batch} {
		first := appendTo(t, s, id, given...)
		appendTo(t, s, id, user("another"))
		before := get(t, s, id)
		for range 2 {
			wantMessages(t, appendTo(t, s, id, given...), first)
		}
		wantSession(t, get(t, s, id), before)
	}
	wantCount(t, s, id, 6)
}

// The same values in another spelling are a repetition, and the first spelling is
// kept.
func testAppendRepeatWrittenOtherwise(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	given := fullMessage()
	first := appendTo(t, s, id, given)

	otherwise := given
	otherwise.Metadata = json.RawMessage(" {\"b\":[\"\\u00e9\", 2.50],\n\"a\":1}")
	otherwise.OccurredAt = given.OccurredAt.Add(999).In(time.FixedZone("", -3600))
	wantMessages(t, appendTo(t, s, id, otherwise), first)
	wantMessages(t, wantCount(t, s, id, 1), first)

	plain := user("plain")
	plain.ID = repo.NewID()
	first = appendTo(t, s, id, plain)
	plain.Metadata = json.RawMessage("{ }")
	wantMessages(t, appendTo(t, s, id, plain), first)
}

// A repetition may be another batch than the one that stored the messages, and in
// another order: only all of its messages must be stored.
func testAppendRepeatInOtherBatches(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	given := withIDs(users(4))
	first := appendTo(t, s, id, given[:2]...)
	first = append(first, appendTo(t, s, id, given[2:]...)...)
	wantMessages(t, appendTo(t, s, id, given...), first)
	wantMessages(t, appendTo(t, s, id, given[1:3]...), first[1:3])
	wantMessages(t, appendTo(t, s, id, given[3], given[0]), []repo.Message{first[3], first[0]})
	wantCount(t, s, id, 4)
}

func testAppendPartlyStored(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	stored := fullMessage()
	appendTo(t, s, id, stored)
	before := get(t, s, id)
	for _, batch := range [][]repo.NewMessage{
		{stored, user(secret)},
		{user(secret), stored},
		{withIDs(users(1))[0], stored, user(secret)},
	} {
		_, err := s.Append(t.Context(), id, batch...)
		wantMessageConflict(t, err, id, stored.ID, "batch")
		_, err = appendAt(t.Context(), s, id, 1, batch...)
		wantMessageConflict(t, err, id, stored.ID, "batch")
	}
	wantSession(t, get(t, s, id), before)
	wantCount(t, s, id, 1)
}

func testAppendConflicts(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	given, bare, empty := fullMessage(), user("bare"), user("empty")
	bare.ID, empty.ID, empty.Payload = repo.NewID(), repo.NewID(), []byte{}
	first := appendTo(t, s, id, given, bare, empty)
	before := get(t, s, id)
	for _, test := range []struct {
		name, field string
		message     repo.NewMessage
		change      func(*repo.NewMessage)
	}{
		{"role", "role", given, func(m *repo.NewMessage) { m.Role = repo.RoleTool }},
		{"content", "content", given, func(m *repo.NewMessage) { m.Content += " " }},
		{"another member", "metadata", given, func(m *repo.NewMessage) { m.Metadata = json.RawMessage(`{"` + secret + `":1}`) }},
		{"another number", "metadata", given, func(m *repo.NewMessage) { m.Metadata = json.RawMessage(`{"a":2,"b":["é",2.50]}`) }},
		{"no metadata", "metadata", given, func(m *repo.NewMessage) { m.Metadata = nil }},
		{"payload", "payload", given, func(m *repo.NewMessage) { m.Payload = []byte{0, 1, 254} }},
		{"no payload", "payload", given, func(m *repo.NewMessage) { m.Payload = nil }},
		{"none, empty payload", "payload", bare, func(m *repo.NewMessage) { m.Payload = []byte{} }},
		{"empty, no payload", "payload", empty, func(m *repo.NewMessage) { m.Payload = nil }},
		{"kind", "kind", given, func(m *repo.NewMessage) { m.Kind += " " }},
		{"no kind", "kind", given, func(m *repo.NewMessage) { m.Kind = "" }},
		{"none, a kind", "kind", bare, func(m *repo.NewMessage) { m.Kind = secret }},
		{"call", "call_id", given, func(m *repo.NewMessage) { m.CallID += " " }},
		{"no call", "call_id", given, func(m *repo.NewMessage) { m.CallID = "" }},
		{"none, a call", "call_id", bare, func(m *repo.NewMessage) { m.CallID = secret }},
		{"a microsecond later", "occurred_at", given, func(m *repo.NewMessage) { m.OccurredAt = m.OccurredAt.Add(time.Microsecond) }},
		{"no time", "occurred_at", given, func(m *repo.NewMessage) { m.OccurredAt = time.Time{} }},
		{"none, a time", "occurred_at", bare, func(m *repo.NewMessage) { m.OccurredAt = time.Unix(0, 0) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			other := test.message
			test.change(&other)
			_, err := s.Append(t.Context(), id, other)
			wantMessageConflict(t, err, id, other.ID, test.field)
			_, err = appendAt(t.Context(), s, id, 3, other)
			wantMessageConflict(t, err, id, other.ID, test.field)
		})
	}
	// The error names the message that differs, not the first.
	other := bare
	other.Content = secret
	_, err := s.Append(t.Context(), id, given, other, empty)
	wantMessageConflict(t, err, id, bare.ID, "content")
	wantSession(t, get(t, s, id), before)
	wantMessages(t, wantCount(t, s, id, 3), first)
}

// The id of a message is unique only within its session.
func testAppendSameIDInTwoSessions(t *testing.T, s repo.Sessions) {
	first, second := create(t, s), create(t, s)
	message := fullMessage()
	appendTo(t, s, first, message)
	message.Content = "another"
	wantStored(t, second, 0, []repo.NewMessage{message}, appendTo(t, s, second, message))
	wantCount(t, s, first, 1)
	wantCount(t, s, second, 1)
}

func testAppendAt(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	var all []repo.Message
	for _, size := range []int{1, 3, 2} {
		batch := users(size)
		stored, err := appendAt(t.Context(), s, id, int64(len(all)), batch...)
		if err != nil {
			t.Fatalf("AppendAt %d: %v", len(all), err)
		}
		wantStored(t, id, int64(len(all)), batch, stored)
		all = append(all, stored...)
	}
	appendTo(t, s, id, user("x"))
	if _, err := appendAt(t.Context(), s, id, 7, user("x")); err != nil {
		t.Errorf("AppendAt after Append: %v", err)
	}
	wantCount(t, s, id, 8)
}

// Guarantee: Messages: An append at an expected sequence fails with the actual one.
func testAppendAtConflict(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	_, err := appendAt(t.Context(), s, id, 1, user(secret))
	wantSequenceConflict(t, err, repo.SequenceConflictError{Kind: "session", ID: id, Expected: 1, Next: 0})
	appendTo(t, s, id, users(3)...)
	before := get(t, s, id)
	for _, expected := range []int64{0, 2, 4, 1<<63 - 1} {
		for _, message := range []repo.NewMessage{user(secret), fullMessage()} {
			_, err := appendAt(t.Context(), s, id, expected, message)
			wantSequenceConflict(t, err, repo.SequenceConflictError{Kind: "session", ID: id, Expected: expected, Next: 3})
			_, err = appendAt(t.Context(), s, id, expected, message, user(secret))
			wantSequenceConflict(t, err, repo.SequenceConflictError{Kind: "session", ID: id, Expected: expected, Next: 3})
		}
	}
	wantSession(t, get(t, s, id), before)
	wantCount(t, s, id, 3)
}

// A repetition by id does not conflict, although its sequence is no longer the
// next.
func testAppendAtRepeat(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	given := []repo.NewMessage{fullMessage(), fullMessage()}
	first, err := appendAt(t.Context(), s, id, 0, given...)
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, s, id, users(3)...)
	again, err := appendAt(t.Context(), s, id, 0, given...)
	if err != nil {
		t.Fatalf("repeating AppendAt: %v", err)
	}
	wantMessages(t, again, first)
	wantCount(t, s, id, 5)
}
