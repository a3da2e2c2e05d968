package export_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/repo"
)

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
	zeroBudget := smallSession(1)
	zeroBudget.Budget = new(repo.Cost)
	for name, want := range map[string]content{
		"full":        {session: full, plans: []repo.ID{testID(3), testID(7)}, messages: messages},
		"no messages": {session: smallSession(0)},
		"zero budget": {session: zeroBudget, messages: []repo.Message{messageAt(0)}},
	} {
		t.Run(name, func(t *testing.T) { wantRoundTrip(t, want) })
	}
}

// wantRoundTrip writes and reads a document, which is returned.
func wantRoundTrip(t *testing.T, want content) (text string) {
	t.Helper()
	text = encodeAll(t, want)
	if !json.Valid([]byte(text)) {
		t.Fatal("the document is not valid JSON")
	}
	if checksum := slowChecksum(text); !strings.HasSuffix(text, checksum+"\"}\n") {
		t.Errorf("the checksum is not %s", checksum)
	}
	got := mustDecode(t, text)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back\n%.2000v\nwant\n%.2000v", got, want)
	}
	if again := encodeAll(t, got); again != text {
		t.Error("exporting what was imported gives another document")
	}
	byByte, err := decode(iotest.OneByteReader(strings.NewReader(text)))
	if err != nil || !reflect.DeepEqual(byByte, got) {
		t.Errorf("read byte by byte: %v", err)
	}
	if _, err := decode(iotest.DataErrReader(strings.NewReader(text))); err != nil {
		t.Errorf("read with the end beside the data: %v", err)
	}
	return text
}

// Metadata keeps its line breaks, of whichever kind, although each message has one line.
func TestLineBreaksOfMetadata(t *testing.T) {
	message := messageAt(0)
	message.Metadata = json.RawMessage("\r\n{\n\t\"a\\r\\n\" :\r\r[\t1\r\t,\n\n2 ]\r}\n")
	text := wantRoundTrip(t, content{session: smallSession(2), messages: []repo.Message{message, messageAt(1)}})
	if lines := strings.Count(text, "\n"); lines != 6 {
		t.Errorf("the document has %d lines", lines)
	}
}

// White space is not a matter of taste: a formatted document is refused, and its error says so.
func TestFormattedDocument(t *testing.T) {
	text := []byte(encode(t, smallSession(2), []repo.ID{testID(3)}, messageAt(0), messageAt(1)))
	var indented, compact bytes.Buffer
	if err := cmp.Or(json.Indent(&indented, text, "", "\t"), json.Compact(&compact, text)); err != nil {
		t.Fatal(err)
	}
	compact.WriteByte('\n')
	for _, formatted := range []*bytes.Buffer{&indented, &compact} {
		_, err := decode(formatted)
		checkImportError(t, err, "document", "a formatted copy cannot be read")
	}
}

func TestPlansAreSorted(t *testing.T) {
	text := encode(t, smallSession(0), []repo.ID{testID(9), testID(3), testID(9), testID(5)})
	want := []repo.ID{testID(3), testID(5), testID(9)}
	if got := mustDecode(t, text).plans; !reflect.DeepEqual(got, want) {
		t.Errorf("plans are %v, want %v", got, want)
	}
}
