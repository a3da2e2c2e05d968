package export_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/seed-df90f812/agentstore/internal/jsonvalue"
	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

// slowChecksum implements the definition in docs/export.md differently from the
// writer, with the whole document in memory.
func slowChecksum(t testing.TB, text string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		t.Fatal(err)
	}
	delete(members, "checksum")
	// Marshal compacts and escapes, which does not affect the canonical form.
	rest, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := jsonvalue.AppendCanonical(nil, rest)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func ptr[T any](value T) *T { return &value }

func fullSession() repo.Session {
	key := repo.SessionKey{Namespace: "tenant/é \"quoted\"", Key: repo.JoinKey("a/b", "<c>")}
	return repo.Session{
		ID: repo.NewID(), Namespace: key.Namespace, Key: key.Key, Owner: strings.Repeat("é", limits.MaxUserIDBytes/2), Version: 1, Actor: "openai/gpt", AutomationProfile: "careful\\",
		Metadata: json.RawMessage("{\"z\": 1,\n\t\"a\": [1.0, 12345678901234567890.123e400, \"<&>\\u2028\\/\"]}"),
		Usage:    repo.Usage{InputTokens: math.MaxInt64, OutputTokens: 7, Cost: 1500},
		Budget:   ptr(repo.Cost(1500)), CreatedAt: day, UpdatedAt: day,
	}
}

func fullMessages(session repo.ID) []repo.Message {
	deep := strings.Repeat(`{"a":[`, limits.MaxJSONDepth/2) + strings.Repeat(`]}`, limits.MaxJSONDepth/2)
	messages := []repo.Message{
		{Role: repo.RoleUser, Content: "plain"},
		{Role: repo.RoleAssistant, Content: "\"\\/\b\f\n\r\t\x01\x1f\x7f<&>  é 你好 👩‍👩‍👧‍👦 \uFFFD \U0010FFFF", Payload: []byte{}},
		{Role: repo.RoleSystem, Content: " ", Payload: []byte{0, 1, 2, 0xff, 0xfe}, OccurredAt: day.Add(-time.Hour)},
		{Role: repo.RoleTool, Content: "x", Metadata: json.RawMessage(deep), OccurredAt: time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC)},
		{Role: repo.RoleTool, Content: "x", Metadata: json.RawMessage(" \n{ \"b\" : 1e5,\"a\":-0 , \"\\u00e9\":\"\\ud83d\\ude00\" }\t ")},
		{Role: repo.RoleUser, Content: strings.Repeat("é\n", 200_000), OccurredAt: time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)},
		{Role: repo.RoleAssistant, Payload: []byte{0}, Kind: "tool \"call\"", CallID: strings.Repeat("é", limits.MaxUserIDBytes/2)},
		{Role: repo.RoleDeveloper, Metadata: json.RawMessage(`{"":0}`), Kind: strings.Repeat("k", repo.MaxNameBytes)},
		{Role: repo.RoleTool, Content: "x", CallID: "\u0001"},
		{Role: repo.RoleUser, Content: "}],\"checksum\":\"", Metadata: json.RawMessage(`{"]}":"\"}\\"}`)},
	}
	for i := range messages {
		m := &messages[i]
		m.SessionID, m.ID, m.Sequence, m.Follows, m.CreatedAt = session, repo.NewID(), int64(i), int64(i)-1, day.Add(time.Duration(i)*time.Microsecond)
		if m.Metadata == nil {
			m.Metadata = json.RawMessage("{}")
		}
	}
	return messages
}

func TestRoundTrip(t *testing.T) {
	full := fullSession()
	messages := fullMessages(full.ID)
	full.MessageCount = int64(len(messages))
	empty := smallSession(0)
	zeroBudget := smallSession(1)
	zeroBudget.Budget = new(repo.Cost)
	for name, test := range map[string]struct {
		session  repo.Session
		plans    []repo.ID
		messages []repo.Message
	}{
		"full":        {full, []repo.ID{testID(3), testID(7)}, messages},
		"no messages": {empty, nil, nil},
		"zero budget": {zeroBudget, nil, []repo.Message{messageAt(0)}},
	} {
		t.Run(name, func(t *testing.T) {
			text := encode(t, test.session, test.plans, test.messages...)
			if !json.Valid([]byte(text)) {
				t.Fatal("the document is not valid JSON")
			}
			if want := slowChecksum(t, text); !strings.HasSuffix(text, want+"\"}\n") {
				t.Errorf("the checksum is not %s", want)
			}
			got := mustDecode(t, text)
			if want := (content{test.session, test.plans, test.messages}); !reflect.DeepEqual(got, want) {
				t.Errorf("read back\n%.2000v\nwant\n%.2000v", got, want)
			}
			if again := encode(t, got.session, got.plans, got.messages...); again != text {
				t.Error("exporting what was imported gives another document")
			}
			byByte, err := decode(iotest.OneByteReader(strings.NewReader(text)))
			if err != nil || !reflect.DeepEqual(byByte, got) {
				t.Errorf("read byte by byte: %v", err)
			}
			if _, err := decode(iotest.DataErrReader(strings.NewReader(text))); err != nil {
				t.Errorf("read with the end beside the data: %v", err)
			}
		})
	}
}

// Formatting with white space changes neither the checksum nor the values, except
// for white space around metadata.
func TestFormattedDocument(t *testing.T) {
	message := messageAt(0)
	message.Metadata = json.RawMessage(`{"a":{"b":[1,2]}}`)
	text := encode(t, smallSession(2), []repo.ID{testID(3)}, message, messageAt(1))
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(text), " ", "\t"); err != nil {
		t.Fatal(err)
	}
	got := mustDecode(t, indented.String()+" \r\n\t ")
	if string(got.session.Metadata) != "{}" || string(got.messages[1].Metadata) != "{}" {
		t.Errorf("white space of the formatting got into the metadata: %q", got.messages[1].Metadata)
	}
	if !jsonvalue.Equal(got.messages[0].Metadata, message.Metadata) {
		t.Errorf("metadata is %s", got.messages[0].Metadata)
	}
	again := encode(t, got.session, got.plans, got.messages...)
	if slowChecksum(t, again) != slowChecksum(t, text) {
		t.Error("another checksum")
	}
}

// Escapes that the writer does not use are read as the same characters.
func TestEscapesAreRead(t *testing.T) {
	text := encode(t, smallSession(1), nil, messageAt(0))
	text = strings.Replace(text, `"hello"`, `"h\u0065\u006C\/\ud83D\uDE00\n"`, 1)
	text = strings.Replace(text, `"role"`, `"r\u006fle"`, 1)
	got := mustDecode(t, resign(t, text))
	if got.messages[0].Content != "hel/😀\n" {
		t.Errorf("content is %q", got.messages[0].Content)
	}
}

func TestPlansAreSorted(t *testing.T) {
	text := encode(t, smallSession(0), []repo.ID{testID(9), testID(3), testID(9), testID(5)})
	want := []repo.ID{testID(3), testID(5), testID(9)}
	if got := mustDecode(t, text).plans; !reflect.DeepEqual(got, want) {
		t.Errorf("plans are %v, want %v", got, want)
	}
}
