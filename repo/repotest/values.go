package repotest

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

func valueTests() []test {
	return []test{
		on("Texts", testValueTexts),
		on("Objects", testValueObjects),
		on("Payloads", testValuePayloads),
		on("Times", testValueTimes),
		on("Roles", testValueRoles),
		on("Kinds", testValueKinds),
		on("EmptyContents", testValueEmptyContents),
		on("Long", testValueLong),
		on("InvalidSessions", testInvalidSessions),
		on("InvalidMessages", testInvalidMessages),
		on("InvalidBatches", testInvalidBatches),
	}
}

// texts are valid texts of the kinds that stores are known to corrupt.
func texts() []string {
	return []string{
		" ", "\n", "\t x \r\n", "é", "e\u0301", "😀👩‍👩‍👧", "\ufeff", "\u202e", "\ufffd", "\U0010ffff", "\x01\x1f\x7f",
		`\u0000`, `\`, `"`, `'`, `''; DROP TABLE messages; --`, "$1", "%s", "{{.}}", "../../etc/passwd", "NULL", "{}", `\x00`,
		"0", "null", "<script>", "a\u2028b",
	}
}

// objects are valid JSON objects that are returned byte for byte.
func objects() []string {
	deep := limits.MaxJSONDepth - 1
	return []string{
		`{}`, " {\n}\t", `{"":""}`, `{"a":null}`, `{"a":{},"b":[]}`, `{"b":1,"a":2}`,
		`{"n":1.0,"m":1e400,"o":-0,"p":123456789012345678901234567890.5}`, `{"é":"\u00e9","\/":"😀"}`,
		`{"a":"\"\\"}`, `{"sql":"'; DROP TABLE sessions"}`,
		`{"a":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}`,
		`{"a":"` + strings.Repeat("x", repo.MaxMetadataBytes-8) + `"}`,
	}
}

func tooLong() string { return strings.Repeat("x", repo.MaxNameBytes+1) }

// Guarantee: Messages: Any Unicode, JSON number and bytes are read back as written.
func testValueTexts(t *testing.T, s repo.Sessions) {
	for _, text := range append(texts(), strings.Repeat("é", repo.MaxNameBytes/2)) {
		given := repo.NewSession{Namespace: text + randomName()[:8], Actor: text, AutomationProfile: text}
		if len(given.Namespace) > repo.MaxNameBytes {
			given.Namespace = text
		}
		created := createAs(t, s, given)
		if created.Namespace != given.Namespace || created.Actor != text || created.AutomationProfile != text {
			t.Errorf("%q came back as %q, %q, %q", text, created.Namespace, created.Actor, created.AutomationProfile)
		}
		wantSession(t, get(t, s, created.ID), created)
		batch := []repo.NewMessage{user(text)}
		stored := appendTo(t, s, created.ID, batch...)
		wantStored(t, created.ID, 0, batch, stored)
		wantMessages(t, readAll(t, s, created.ID), stored)
	}
}

func testValueObjects(t *testing.T, s repo.Sessions) {
	for _, object := range objects() {
		metadata := json.RawMessage(object)
		created := createAs(t, s, repo.NewSession{Metadata: metadata})
		if string(get(t, s, created.ID).Metadata) != object {
			t.Errorf("%s came back as %s", brief(metadata), brief(created.Metadata))
		}
		batch := []repo.NewMessage{{Role: repo.RoleTool, Content: "x", Metadata: metadata}}
		stored := appendTo(t, s, created.ID, batch...)
		wantStored(t, created.ID, 0, batch, stored)
		wantMessages(t, readAll(t, s, created.ID), stored)
		if updated := update(t, s, create(t, s), repo.SessionUpdate{Metadata: metadata}); string(updated.Metadata) != object {
			t.Errorf("%s was updated to %s", brief(metadata), brief(updated.Metadata))
		}
	}
}

func testValuePayloads(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	var batch []repo.NewMessage
	for _, payload := range [][]byte{nil, {}, {0}, every, []byte(`\x00`), make([]byte, 1<<20)} {
		batch = append(batch, repo.NewMessage{Role: repo.RoleTool, Content: "x", Payload: payload})
	}
	stored := appendTo(t, s, id, batch...)
	wantStored(t, id, 0, batch, stored)
	wantMessages(t, readAll(t, s, id), stored)
}

// A time is returned as the same moment in UTC, truncated to the microsecond.
func testValueTimes(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	for _, given := range []time.Time{
		{},
		time.Unix(0, 0), time.Unix(-1, 999), time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(2026, 3, 29, 2, 30, 0, 1999, time.FixedZone("", 3600)),
		time.Now(),
	} {
		stored := appendTo(t, s, id, repo.NewMessage{Role: repo.RoleUser, Content: "x", OccurredAt: given})
		got, err := s.Message(t.Context(), id, stored[0].ID)
		wantMessage(t, must(t, got, err), stored[0])
		if want := given.Truncate(time.Microsecond); !got.OccurredAt.Equal(want) || got.OccurredAt.Location() != time.UTC {
			t.Errorf("%v came back as %v", given, got.OccurredAt)
		}
	}
}

func testValueRoles(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	var stored []repo.Message
	for _, role := range []repo.Role{repo.RoleUser, repo.RoleAssistant, repo.RoleSystem, repo.RoleDeveloper, repo.RoleTool} {
		got := appendTo(t, s, id, repo.NewMessage{Role: role, Content: "x"})
		if got[0].Role != role {
			t.Errorf("the role %s came back as %s", role, got[0].Role)
		}
		stored = append(stored, got...)
	}
	wantMessages(t, wantCount(t, s, id, len(stored)), stored)
}

// Kinds and call ids are kept in batches in which some messages have them and others
// do not.
func testValueKinds(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	var all []repo.Message
	for _, text := range append(texts(), strings.Repeat("é", repo.MaxNameBytes/2)) {
		kind, call, both := user("kind"), user("call"), user("both")
		kind.Kind, call.CallID, both.Kind, both.CallID = text, text, text, strings.Repeat("x", limits.MaxUserIDBytes-len(text))+text
		for _, batch := range [][]repo.NewMessage{{kind}, {user("x"), kind, user("y")}, {call}, {both, user("x"), call, kind, user("y")}} {
			stored := appendTo(t, s, id, batch...)
			wantStored(t, id, int64(len(all)), batch, stored)
			all = append(all, stored...)
		}
	}
	wantMessages(t, readAll(t, s, id), all)
	wantCalls(t, s, id, all)
}

// A content is empty where a payload or metadata says the rest.
func testValueEmptyContents(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	batch := []repo.NewMessage{
		{Role: repo.RoleAssistant, Payload: []byte{0}},
		{Role: repo.RoleAssistant, Payload: []byte{0}, Metadata: json.RawMessage(`{ }`)},
		{Role: repo.RoleAssistant, Metadata: json.RawMessage(`{"":null}`)},
		{Role: repo.RoleAssistant, Metadata: json.RawMessage(" {\n\"a\":{}}"), Payload: []byte{}},
		{Role: repo.RoleTool, CallID: "call"},
		{Role: repo.RoleAssistant, Kind: "answer"},
		{Role: repo.RoleUser, Kind: "answer"},
	}
	stored := appendTo(t, s, id, batch...)
	wantStored(t, id, 0, batch, stored)
	for _, message := range batch {
		stored = append(stored, appendTo(t, s, id, message)...)
	}
	wantMessages(t, wantCount(t, s, id, len(stored)), stored)
	wantRoundTrip(t, s, id)
}

func testValueLong(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	for _, content := range []string{strings.Repeat("é", 1<<19), strings.Repeat("x", repo.MaxContentBytes)} {
		stored := appendTo(t, s, id, user(content))
		got, err := s.Message(t.Context(), id, stored[0].ID)
		if must(t, got, err).Content != content {
			t.Errorf("%d bytes of content came back as %d, other ones", len(content), len(got.Content))
		}
	}
}

// invalidTexts are refused in every field of text.
func invalidTexts() []string {
	return []string{secret + "\x00", "\x00", secret + "\xff", "\xc3", "\xed\xa0\x80"}
}

func invalidObjects() []json.RawMessage {
	deep := limits.MaxJSONDepth
	objects := []json.RawMessage{
		[]byte(`{"a":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}`),
		[]byte(`{"a":"` + strings.Repeat("x", repo.MaxMetadataBytes) + `"}`),
	}
	for _, text := range []string{
		``, ` `, `null`, `[]`, `"x"`, `1`, `{`, `{}}`, `{} {}`, `{"a":1,}`, `{'a':1}`, `{"a":01}`, `{"a":NaN}`, `{"a":"` + secret,
		`{"a":"\u0000"}`, `{"\u0000":1}`, `{"a":"\ud800"}`, `{"a":1,"a":2}`, "{\"a\":\"\xff\"}", "{\"a\":\"\x00\"}",
	} {
		objects = append(objects, json.RawMessage(text))
	}
	return objects
}

func testInvalidSessions(t *testing.T, s repo.Sessions) {
	refuse := func(field string, session repo.NewSession) {
		t.Helper()
		session.ID = repo.NewID()
		_, err := s.Create(t.Context(), session)
		wantInvalid(t, err, field)
		_, err = s.Get(t.Context(), session.ID)
		wantNotFound(t, err, "session", session.ID)
	}
	for _, text := range append(invalidTexts(), tooLong()) {
		refuse("namespace", repo.NewSession{Namespace: text})
		refuse("actor", repo.NewSession{Actor: text})
		refuse("automation_profile", repo.NewSession{AutomationProfile: text})
		_, err := s.List(t.Context(), repo.SessionFilter{AnyOwner: true, Namespace: text}, repo.Page{})
		wantInvalid(t, err, "namespace")
		_, err = s.List(t.Context(), repo.SessionFilter{AnyOwner: true, Actor: text}, repo.Page{})
		wantInvalid(t, err, "actor")
	}
	for _, text := range append(invalidTexts(), strings.Repeat("x", repo.MaxKeyBytes+1)) {
		refuse("key", repo.NewSession{Key: text})
	}
	for _, text := range append(invalidTexts(), strings.Repeat("x", limits.MaxUserIDBytes+1)) {
		refuse("owner", repo.NewSession{Owner: text})
		_, err := s.List(t.Context(), repo.SessionFilter{Owner: text}, repo.Page{})
		wantInvalid(t, err, "owner")
	}
	// An owner that is empty by mistake is not any owner.
	for _, byActivity := range []bool{false, true} {
		_, err := s.List(t.Context(), repo.SessionFilter{ByActivity: byActivity}, repo.Page{})
		wantInvalid(t, err, "owner")
		_, err = s.List(t.Context(), repo.SessionFilter{Owner: "a", AnyOwner: true, ByActivity: byActivity}, repo.Page{})
		wantInvalid(t, err, "any_owner")
	}
	for _, object := range invalidObjects() {
		refuse("metadata", repo.NewSession{Metadata: object})
	}
	refuse("existing", repo.NewSession{Existing: secret})
	refuse("budget", repo.NewSession{Budget: ptr(repo.Cost(-1))})
	for _, limit := range []int{-1, repo.MaxPageSize + 1} {
		_, err := s.List(t.Context(), repo.SessionFilter{AnyOwner: true}, repo.Page{Limit: limit})
		wantInvalid(t, err, "limit")
	}
	late := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	_, err := s.List(t.Context(), repo.SessionFilter{AnyOwner: true, CreatedFrom: late}, repo.Page{})
	wantInvalid(t, err, "created_from")
	_, err = s.List(t.Context(), repo.SessionFilter{AnyOwner: true, CreatedBefore: late}, repo.Page{})
	wantInvalid(t, err, "created_before")
}

// One invalid message refuses its batch, and the error names it.
// Guarantee: Messages: A value that PostgreSQL cannot store is refused before anything is sent.
func testInvalidMessages(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	refuse := func(field string, message repo.NewMessage) {
		t.Helper()
		if message.Role == "" {
			message.Role = repo.RoleUser
		}
		_, err := s.Append(t.Context(), id, message)
		wantInvalid(t, err, "messages[0]."+field)
		_, err = appendAt(t.Context(), s, id, 0, user("x"), message)
		wantInvalid(t, err, "messages[1]."+field)
	}
	for _, text := range append(invalidTexts(), "", strings.Repeat("x", repo.MaxContentBytes+1)) {
		refuse("content", user(text))
	}
	for _, object := range invalidObjects() {
		refuse("metadata", repo.NewMessage{Content: "x", Metadata: object})
	}
	for _, empty := range []string{`{}`, `{ }`, " {\n}\t"} {
		refuse("content", repo.NewMessage{Metadata: json.RawMessage(empty), Payload: []byte{}})
	}
	for _, text := range append(invalidTexts(), strings.Repeat("x", limits.MaxUserIDBytes+1)) {
		refuse("kind", repo.NewMessage{Content: "x", Kind: text})
		refuse("call_id", repo.NewMessage{Content: "x", CallID: text})
	}
	refuse("kind", repo.NewMessage{Content: "x", Kind: tooLong()})
	for _, role := range []repo.Role{"User", "Developer", "user ", secret} {
		refuse("role", repo.NewMessage{Role: role, Content: "x"})
	}
	_, err := s.Append(t.Context(), id, repo.NewMessage{Content: "x"})
	wantInvalid(t, err, "messages[0].role")
	refuse("payload", repo.NewMessage{Content: "x", Payload: make([]byte, repo.MaxPayloadBytes+1)})
	refuse("occurred_at", repo.NewMessage{Content: "x", OccurredAt: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)})
	refuse("occurred_at", repo.NewMessage{Content: "x", OccurredAt: time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)})
	wantCount(t, s, id, 0)
}

func testInvalidBatches(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	twice := fullMessage()
	large := user(strings.Repeat("x", repo.MaxContentBytes))
	for field, batch := range map[string][]repo.NewMessage{
		"messages":       nil,
		"messages[2].id": {twice, user("x"), twice},
	} {
		_, err := s.Append(t.Context(), id, batch...)
		wantInvalid(t, err, field)
	}
	for _, batch := range [][]repo.NewMessage{users(repo.MaxBatchMessages + 1), {large, large, large, large, user("x")}} {
		_, err := s.Append(t.Context(), id, batch...)
		wantInvalid(t, err, "messages")
	}
	_, err := appendAt(t.Context(), s, id, -1, user("x"))
	wantInvalid(t, err, "expected")
	for from, read := range map[string]func() ([]repo.Message, error){
		"from":   func() ([]repo.Message, error) { return s.MessagesFrom(t.Context(), id, -1, 1) },
		"before": func() ([]repo.Message, error) { return s.MessagesBefore(t.Context(), id, -1, 1) },
	} {
		_, err := read()
		wantInvalid(t, err, from)
	}
	wantCount(t, s, id, 0)
}
