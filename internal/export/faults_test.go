package export_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/seed-df90f812/agentstore/repo"
)

// faultDocument contains the word SECRET in every value that is content, so that a
// test can detect an error that repeats one.
func faultDocument(t testing.TB) string {
	session := smallSession(2)
	session.Actor, session.AutomationProfile = "SECRET actor", "SECRET profile"
	session.Metadata = []byte(`{"k":"SECRET"}`)
	session.Budget = ptr(repo.Cost(10))
	session.Usage = repo.Usage{InputTokens: 1, OutputTokens: 2, Cost: 3}
	first, second := messageAt(0), messageAt(1)
	first.Content, first.Metadata = "SECRET content", []byte(`{"m":"SECRET"}`)
	second.Payload, second.OccurredAt = []byte("SECRET payload"), day
	second.Kind, second.CallID = "SECRET kind", "SECRET call"
	return encode(t, session, []repo.ID{testID(3), testID(5)}, first, second)
}

const notWritten = "is not as an export writes it"

func TestFaults(t *testing.T) {
	id1, id2 := messageAt(0).ID.String(), testID(1).String()
	for _, test := range []struct {
		name, old, new string
		field, reason  string
	}{
		{"other version", `version":1`, `version":2`, "schema_version", "is not 1"},
		{"version as text", `version":1`, `version":"1"`, "schema_version", "is not 1"},
		{"version 1.0", `version":1`, `version":1.0`, "schema_version", "is not 1"},
		{"no version", `"schema_version":1,`, ``, "document", "a formatted copy"},
		{"version null", `version":1`, `version":null`, "schema_version", "is not 1"},
		{"an array", `{"schema`, `[{"schema`, "document", "a formatted copy"},
		{"nothing after a comma", `1,"linked`, `1,,"linked`, "document", notWritten},
		{"no comma", `1,"linked`, `1 "linked`, "schema_version", "is not 1"},
		{"no colon", `"session":`, `"session"`, "document", notWritten},
		{"unknown member", `"session":`, `"SECRET":1,"session":`, "document", notWritten},
		{"unknown long member", `"session":`, `"` + strings.Repeat("SECRET", 20) + `":1,"session":`, "document", notWritten},
		{"version twice", `"session":`, `"schema_version":1,"session":`, "document", notWritten},
		{"no session", `"session":`, `"linked_plan_ids":`, "document", notWritten},
		{"session null", "\"session\":\n{", "\"session\":null,\"x\":\n{", "document", "a formatted copy"},
		{"session a list", "\"session\":\n{", "\"session\":[],\"x\":\n{", "document", "a formatted copy"},

		{"session without id", `"id":"` + id2 + `",`, ``, "session", notWritten},
		{"session id a number", `"id":"` + id2 + `"`, `"id":1`, "session.id", notWritten},
		{"session id zero", id2, repo.ID{}.String(), "session.id", "is zero"},
		{"session id upper case", id2, strings.ToUpper(repo.ID{0xff, 15: 1}.String()), "session", notWritten},
		{"session id too long", id2, id2 + "0", "session.id", "not a UUID"},
		{"session id wrong", id2, "SECRET", "session.id", "not a UUID"},
		{"namespace empty", `"local"`, `""`, "session.namespace", "is empty"},
		{"namespace too long", `"local"`, `"` + strings.Repeat("n", 256) + `"`, "session.namespace", "has 256 bytes, more than 255"},
		{"namespace not UTF-8", `"local"`, "\"SECRET\xff\"", "session", notWritten},
		{"namespace with NUL", `"local"`, `"SECRET\u0000"`, "session.namespace", "NUL"},
		{"key empty", `"local",`, `"local","key":"",`, "session", notWritten},
		{"key too long", `"local",`, `"local","key":"` + strings.Repeat("k", 1025) + `",`, "session.key", "has 1025 bytes, more than 1024"},
		{"key with NUL", `"local",`, `"local","key":"SECRET\u0000",`, "session.key", "NUL"},
		{"key null", `"local",`, `"local","key":null,`, "session", notWritten},
		{"key after owner", `"local",`, `"local","owner":"SECRET","key":"SECRET",`, "session", notWritten},
		{"owner empty", `"local",`, `"local","owner":"",`, "session", notWritten},
		{"owner too long", `"local",`, `"local","owner":"` + strings.Repeat("o", 1025) + `",`, "session.owner", "has 1025 bytes, more than 1024"},
		{"owner not UTF-8", `"local",`, "\"local\",\"owner\":\"SECRET\xff\",", "session", notWritten},
		{"owner twice", `"local",`, `"local","owner":"SECRET","owner":"SECRET",`, "session", notWritten},
		{"added owner", `"local",`, `"local","owner":"SECRET",`, "checksum", "does not match the document"},
		{"actor empty", `"SECRET actor"`, `""`, "session", notWritten},
		{"actor null", `"SECRET actor"`, `null`, "session", notWritten},
		{"profile half a pair", `"SECRET profile"`, `"SECRET\udc00"`, "session", notWritten},
		{
			"actor after profile", `"actor":"SECRET actor","automation_profile":"SECRET profile"`,
			`"automation_profile":"SECRET profile","actor":"SECRET actor"`, "session", notWritten,
		},
		{"session metadata null", `{"k":"SECRET"}`, `null`, "session.metadata", "is not a JSON object"},
		{"session metadata a list", `{"k":"SECRET"}`, `["SECRET"]`, "session.metadata", "is not a JSON object"},
		{"session metadata member twice", `{"k":"SECRET"}`, `{"SECRET":1,"SECRET":1}`, "session.metadata", "twice"},
		{"no usage", `"usage":{"input_tokens":1,"output_tokens":2,"cost_nanos":3},`, ``, "session", notWritten},
		{"usage empty", `"usage":{"input_tokens":1,`, `"usage":{`, "session", notWritten},
		{"usage in another order", `"input_tokens":1,"output_tokens":2`, `"output_tokens":2,"input_tokens":1`, "session", notWritten},
		{"tokens negative", `"input_tokens":1`, `"input_tokens":-1`, "session.usage.input_tokens", "negative"},
		{"tokens too many", `"input_tokens":1`, `"input_tokens":9223372036854775808`, "session.usage.input_tokens", notWritten},
		{"tokens far too many", `"input_tokens":1`, `"input_tokens":` + strings.Repeat("9", 1000), "session.usage.input_tokens", notWritten},
		{"tokens minus zero", `"output_tokens":2`, `"output_tokens":-0`, "session", notWritten},
		{"tokens with leading zero", `"output_tokens":2`, `"output_tokens":02`, "session", notWritten},
		{"tokens with exponent", `"output_tokens":2`, `"output_tokens":2e0`, "session.usage.output_tokens", notWritten},
		{"cost negative", `"cost_nanos":3`, `"cost_nanos":-3`, "session.usage.cost_nanos", "negative"},
		{"budget below cost", `"budget_nanos":10`, `"budget_nanos":2`, "session.budget_nanos", "below the cost"},
		{"budget negative", `"budget_nanos":10`, `"budget_nanos":-2`, "session.budget_nanos", "negative"},
		{"time without fraction", `05:07.789000Z","metadata":{"k`, `05:07Z","metadata":{"k`, "session.updated_at", notWritten},
		{"time with an offset", `05:07.789000Z","metadata":{"k`, `05:07.789000+00:00","metadata":{"k`, "session.updated_at", notWritten},
		{"time with nanoseconds", `05:07.789000Z","metadata":{"k`, `05:07.789000000Z","metadata":{"k`, "session.updated_at", notWritten},
		{"time with a comma", `05:07.789000Z","metadata":{"k`, `05:07,789000Z","metadata":{"k`, "session", notWritten},
		{"time with lower-case t", `2026-02-03T04:05:07.789000Z","metadata":{"k`, `2026-02-03t04:05:07.789000Z","metadata":{"k`, "session.updated_at", notWritten},
		{"time of no day", `2026-02-03T04:05:07.789000Z","metadata":{"k`, `2026-02-30T04:05:07.789000Z","metadata":{"k`, "session.updated_at", notWritten},
		{"time with leap second", `05:07.789000Z","metadata":{"k`, `05:60.789000Z","metadata":{"k`, "session.updated_at", notWritten},
		{"time in year 0", `2026-02-03T04:05:07.789000Z","metadata":{"k`, `0000-02-03T04:05:07.789000Z","metadata":{"k`, "session", notWritten},
		{"session with unknown member", `,"metadata":{"k`, `,"SECRET":1,"metadata":{"k`, "session", notWritten},
		{"session with unknown member behind", `{"k":"SECRET"}}`, `{"k":"SECRET"},"SECRET":1}`, "session.metadata", "is not valid JSON"},
		{"session member twice", `,"metadata":{"k`, `,"namespace":"x","metadata":{"k`, "session", notWritten},
		{"session trailing comma", `{"k":"SECRET"}}`, `{"k":"SECRET"},}`, "session.metadata", "not valid JSON"},

		{"no plans", `"linked_plan_ids":["` + testID(3).String() + `","` + testID(5).String() + `"],`, ``, "checksum", "does not match the document"},
		{"plans null", `"linked_plan_ids":["` + testID(3).String() + `","` + testID(5).String() + `"]`, `"linked_plan_ids":null`, "document", notWritten},
		{"plans empty", `"linked_plan_ids":["` + testID(3).String() + `","` + testID(5).String() + `"]`, `"linked_plan_ids":[]`, "document", notWritten},
		{"plans an object", `"linked_plan_ids":[`, `"linked_plan_ids":{[`, "document", notWritten},
		{"plan wrong", testID(5).String(), "SECRET", "linked_plan_ids", "not a UUID"},
		{"plans out of order", testID(5).String(), testID(2).String(), "linked_plan_ids[1]", "not greater"},
		{"plan twice", testID(5).String(), testID(3).String(), "linked_plan_ids[1]", "not greater"},
		{"plans without comma", testID(3).String() + `",`, testID(3).String() + `"`, "document", notWritten},

		{"base negative", `,"session":`, `,"history":{"base":-1},"session":`, "history.base", "is not between 0 and 2^62"},
		{"base too large", `,"session":`, `,"history":{"base":4611686018427387905},"session":`, "history.base", "is not between 0 and 2^62"},
		{"base as large as it may be", `,"session":`, `,"history":{"base":4611686018427387904},"session":`, "messages", "end before the base"},
		{"no messages", `"messages":[`, `"checksum":[`, "session", notWritten},
		{"messages an object", `"messages":[`, `"messages":{`, "session", notWritten},
		{"messages begin with a comma", `"messages":[`, `"messages":[,`, "session", notWritten},
		{"messages end with a comma", "}\n],", "},\n],", "messages[2]", notWritten},
		{"no comma between", "},\n{\"id\"", "}\n{\"id\"", "messages[1]", notWritten},
		{"message null", "\"messages\":[\n", "\"messages\":[\nnull,\n", "messages[0]", notWritten},
		{"message empty", "\"messages\":[\n", "\"messages\":[\n{},\n", "messages[0]", notWritten},
		{"message id zero", id1, repo.ID{}.String(), "messages[0].id", "is zero"},
		{"sequence not the next", `"sequence":1`, `"sequence":2`, "messages[1].sequence", "is 2 where 1 is the next one"},
		{"sequence again", `"sequence":1`, `"sequence":0`, "messages[1].sequence", "is 0 where 1 is the next one"},
		{"sequence as text", `"sequence":1`, `"sequence":"1"`, "messages[1].sequence", notWritten},
		{"sequence 1.0", `"sequence":1`, `"sequence":1.0`, "messages[1].sequence", notWritten},
		{"first sequence not zero", `"sequence":0`, `"sequence":1`, "messages[0].sequence", "is 1 where 0"},
		{"no sequence", `"sequence":0,`, ``, "messages[0]", notWritten},
		{"sequence twice", `"sequence":0,`, `"sequence":0,"sequence":0,`, "messages[0]", notWritten},
		{"role unknown", `"role":"user"`, `"role":"SECRET"`, "messages[0].role", "is not user"},
		{"role capital", `"role":"user"`, `"role":"User"`, "messages[0].role", "is not user"},
		{"role null", `"role":"user"`, `"role":null`, "messages[0]", notWritten},
		{
			"content empty", `"SECRET content","created_at":"2026-02-03T04:05:06.789000Z","metadata":{"m":"SECRET"}`,
			`"","created_at":"2026-02-03T04:05:06.789000Z","metadata":{ }`, "messages[0].content", "is empty",
		},
		{"content a number", `"SECRET content"`, `5`, "messages[0].content", notWritten},
		{"content twice", `"content":"SECRET content"`, `"content":"a","content":"b"`, "messages[0]", notWritten},
		{"content not UTF-8", `"SECRET content"`, "\"SECRET\xc3\"", "messages[0]", notWritten},
		{"content surrogate in UTF-8", `"SECRET content"`, "\"SECRET\xed\xa0\x80\"", "messages[0]", notWritten},
		{"content overlong UTF-8", `"SECRET content"`, "\"SECRET\xc0\x80\"", "messages[0]", notWritten},
		{"content with NUL", `"SECRET content"`, `"SECRET\u0000"`, "messages[0].content", "NUL"},
		{"content high half", `"SECRET content"`, `"SECRET\ud83d"`, "messages[0]", notWritten},
		{"content high half, escape", `"SECRET content"`, `"SECRET\ud83d\n"`, "messages[0]", notWritten},
		{"content two high halves", `"SECRET content"`, `"SECRET\ud83d\ud83d"`, "messages[0]", notWritten},
		{"content low half", `"SECRET content"`, `"SECRET\ude00"`, "messages[0]", notWritten},
		{"content raw newline", `"SECRET content"`, "\"SECRET\n\"", "messages[0]", notWritten},
		{"content bad escape", `"SECRET content"`, `"SECRET\x"`, "messages[0]", notWritten},
		{"content bad digits", `"SECRET content"`, `"SECRET\u12g4"`, "messages[0]", notWritten},
		{"content too long", `"SECRET content"`, `"` + strings.Repeat("a", repo.MaxContentBytes+1) + `"`, "messages[0].content", "more than 16777216"},
		{"content too long by escapes", `"SECRET content"`, `"` + strings.Repeat(`\u20ac`, repo.MaxContentBytes/3+1) + `"`, "messages[0]", notWritten},
		{"metadata null", `{"m":"SECRET"}`, `null`, "messages[0].metadata", "is not a JSON object"},
		{"metadata text", `{"m":"SECRET"}`, `"SECRET"`, "messages[0].metadata", "is not a JSON object"},
		{"metadata unbalanced", `{"m":"SECRET"}`, `{"m":"SECRET"]`, "messages[0].metadata", "not valid JSON"},
		{"metadata no JSON", `{"m":"SECRET"}`, `{SECRET}`, "messages[0].metadata", "not valid JSON"},
		{"metadata number 01", `{"m":"SECRET"}`, `{"SECRET":01}`, "messages[0].metadata", "not valid JSON"},
		{"metadata not UTF-8", `{"m":"SECRET"}`, "{\"SECRET\":\"\xff\"}", "messages[0].metadata", "not valid UTF-8"},
		{"metadata half a pair", `{"m":"SECRET"}`, `{"SECRET":"\ud83d"}`, "messages[0].metadata", "half a surrogate"},
		{"metadata with NUL", `{"m":"SECRET"}`, `{"SECRET":"\u0000"}`, "messages[0].metadata", "u0000"},
		{"metadata twice", `{"m":"SECRET"}`, `{"a":1,"\u0061":1}`, "messages[0].metadata", "twice"},
		{"metadata too deep", `{"m":"SECRET"}`, strings.Repeat(`{"a":`, 513) + "1" + strings.Repeat("}", 513), "messages[0].metadata", "deeper than 512"},
		{"metadata too long", `{"m":"SECRET"}`, `{"m":"` + strings.Repeat("a", repo.MaxMetadataBytes) + `"}`, "messages[0].metadata", "more than 1048576"},
		{"metadata twice as member", `"metadata":{"m":"SECRET"}`, `"metadata":{},"metadata":{}`, "messages[0].metadata", "is not valid JSON"},
		{"payload null", `"payload":"U`, `"payload":null,"x":"U`, "messages[1]", notWritten},
		{"payload no base64", `"payload":"U`, `"payload":"!`, "messages[1]", notWritten},
		{"payload without padding", `eWxvYWQ=`, `eWxvYWQ`, "messages[1]", notWritten},
		{"payload with line break", `eWxvYWQ=`, `eWxv\nYWQ=`, "messages[1]", notWritten},
		{"payload with stray bits", `eWxvYWQ=`, `eWxvYWR=`, "messages[1]", notWritten},
		{"payload too long", `eWxvYWQ=`, strings.Repeat("AAAA", repo.MaxPayloadBytes/3+2), "messages[1].payload", "more than"},
		{"kind empty", `"SECRET kind"`, `""`, "messages[1]", notWritten},
		{"kind null", `"SECRET kind"`, `null`, "messages[1]", notWritten},
		{"kind too long", `"SECRET kind"`, `"` + strings.Repeat("k", 256) + `"`, "messages[1].kind", "has 256 bytes, more than 255"},
		{"kind with NUL", `"SECRET kind"`, `"SECRET\u0000"`, "messages[1].kind", "NUL"},
		{"call empty", `"SECRET call"`, `""`, "messages[1]", notWritten},
		{"call a number", `"SECRET call"`, `1`, "messages[1].call_id", notWritten},
		{"call too long", `"SECRET call"`, `"` + strings.Repeat("c", 1025) + `"`, "messages[1].call_id", "has 1025 bytes, more than 1024"},
		{"call not UTF-8", `"SECRET call"`, "\"SECRET\xff\"", "messages[1]", notWritten},
		{"call before kind", `"kind":"SECRET kind","call_id":"SECRET call"`, `"call_id":"SECRET call","kind":"SECRET kind"`, "messages[1]", notWritten},
		{"occurred_at zero", `"occurred_at":"2026-02-03T04:05:06.789000Z"`, `"occurred_at":"0001-01-01T00:00:00.000000Z"`, "messages[1]", notWritten},
		{"occurred_at empty", `"occurred_at":"2026-02-03T04:05:06.789000Z"`, `"occurred_at":""`, "messages[1].occurred_at", notWritten},
		{"payload out of place", `"role":"user","content":"hello"`, `"payload":"","role":"user","content":"hello"`, "messages[1]", notWritten},
		{"message without created_at", `,"created_at":"2026-02-03T04:05:06.789000Z","metadata":{"m"`, `,"metadata":{"m"`, "messages[0]", notWritten},
		{"message with unknown member", `,"metadata":{"m"`, `,"SECRET":1,"metadata":{"m"`, "messages[0]", notWritten},
		{"message with unknown names", `,"metadata":{"m"`, `,"Id":1,"metadata":{"m"`, "messages[0].id", notWritten},

		{"changed content", `"SECRET content"`, `"SECRET other"`, "checksum", "does not match the document"},
		{"changed metadata", `{"m":"SECRET"}`, `{"m":"other"}`, "checksum", "does not match the document"},
		{"changed number", `{"m":"SECRET"}`, `{"m":1.0}`, "checksum", "does not match the document"},
		{"changed kind", `SECRET kind`, `SECRET other`, "checksum", "does not match the document"},
		{"dropped call", `,"call_id":"SECRET call"`, ``, "checksum", "does not match the document"},
		{"changed payload", `eWxvYWQ=`, `eWxvYWE=`, "checksum", "does not match the document"},
		{"changed usage", `"output_tokens":2`, `"output_tokens":3`, "checksum", "does not match the document"},
		{"dropped actor", `"actor":"SECRET actor",`, ``, "checksum", "does not match the document"},
		{"no checksum", `"checksum":"`, `"x":"`, "document", notWritten},
		{"checksum null", `"checksum":"`, `"checksum":null,"x":"`, "checksum", "does not match the document"},
		{"checksum of another kind", `"sha256:`, `"sha512:`, "checksum", "does not match the document"},
		{"checksum too long", `"sha256:`, `"sha256:0`, "checksum", "does not match the document"},
		{"checksum far too long", `"sha256:`, `"sha256:` + strings.Repeat("0", 1000), "checksum", "does not match the document"},
		{"checksum upper case", `"sha256:`, `"SHA256:`, "checksum", "does not match the document"},
		{"member after checksum", "\"}\n", `","SECRET":1}`, "checksum", "does not match the document"},
		{"checksum twice", "\"}\n", `","checksum":""}`, "checksum", "does not match the document"},
		{"something after", "\"}\n", "\"}\nSECRET", "document", "followed by something else"},
		{"another document after", "\"}\n", "\"}{}", "checksum", "does not match the document"},
		{"a NUL after", "\"}\n", "\"}\x00", "checksum", "does not match the document"},
		{"white space before", `{"schema`, ` {"schema`, "document", notWritten},
		{"white space in a line", `"role":"user"`, `"role": "user"`, "messages[0]", notWritten},
		{"white space behind a line", "{\"m\":\"SECRET\"}},\n", "{\"m\":\"SECRET\"}}, \n", "messages[0].metadata", notWritten},
		{"line breaks of another system", "},\n", "},\r\n", "messages[0].metadata", notWritten},
		{"an empty line", "},\n", "},\n\n", "messages[1]", notWritten},
		{"an empty line between messages", "}},\n{", "}},\n\n{", "messages[1]", notWritten},
		{"a line break in metadata", `{"m":"SECRET"}`, "{\"m\":\n\"SECRET\"}", "messages[0].metadata", notWritten},
		{"a carriage return in metadata", `{"m":"SECRET"}`, "{\"m\":\r\"SECRET\"}", "messages[0].metadata", notWritten},
		{"an escape that is not needed", `"SECRET content"`, `"SECRET\u0020content"`, "messages[0]", notWritten},
		{"a member in capitals", `"role":"user"`, `"ROLE":"user"`, "messages[0]", notWritten},
		{"a byte order mark", `{"schema`, "\ufeff" + `{"schema`, "document", "a formatted copy"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := faultDocument(t)
			if !strings.Contains(text, test.old) {
				t.Fatalf("the document does not contain %q", test.old)
			}
			text = strings.Replace(text, test.old, test.new, 1)
			_, err := decode(strings.NewReader(text))
			checkImportError(t, err, test.field, test.reason)
			// The sizes of the pieces that a network delivers do not matter.
			if len(text) < 10_000 {
				_, err = decode(iotest.OneByteReader(strings.NewReader(text)))
				checkImportError(t, err, test.field, test.reason)
			}
		})
	}
}

func checkImportError(t *testing.T, err error, field, reason string) {
	t.Helper()
	var fault *repo.ImportError
	if !errors.As(err, &fault) || !errors.Is(err, repo.ErrImport) {
		t.Fatalf("the error is %v, not an ImportError", err)
	}
	if fault.Field != field {
		t.Errorf("the field is %q, want %q (%v)", fault.Field, field, err)
	}
	if !strings.Contains(err.Error(), reason) {
		t.Errorf("the error is %q, want one that contains %q", err, reason)
	}
	for _, content := range []string{"SECRET", "U0VDUkVU", "hello"} {
		if strings.Contains(err.Error(), content) {
			t.Errorf("the error repeats content: %v", err)
		}
	}
	if errors.Is(err, io.EOF) {
		t.Errorf("the error is io.EOF, the sign of a complete document: %v", err)
	}
}

// A violation of the contract is also the contract's own error.
func TestFaultWrapsInvalidError(t *testing.T) {
	text := strings.Replace(faultDocument(t), `"role":"user"`, `"role":"boss"`, 1)
	_, err := decode(strings.NewReader(text))
	var invalid *repo.InvalidError
	if !errors.Is(err, repo.ErrInvalid) || !errors.As(err, &invalid) || invalid.Field != "role" {
		t.Errorf("the error is %#v", err)
	}
}

// A document that is cut off anywhere is refused.
func TestCutOff(t *testing.T) {
	text := strings.TrimSpace(faultDocument(t))
	for length := range len(text) {
		_, err := decode(strings.NewReader(text[:length]))
		if !errors.Is(err, repo.ErrImport) || !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			t.Fatalf("cut off at %d: %v", length, err)
		}
	}
}

func TestReaderErrorsAreWrapped(t *testing.T) {
	text := strings.TrimSpace(faultDocument(t))
	broken := errors.New("network is down")
	for length := range len(text) + 1 {
		_, err := decode(io.MultiReader(strings.NewReader(text[:length]), iotest.ErrReader(broken)))
		if !errors.Is(err, repo.ErrImport) || !errors.Is(err, broken) {
			t.Fatalf("broken at %d: %v", length, err)
		}
	}
	// An error that wraps io.EOF is not the end of a stream.
	for length := range len(text) + 1 {
		_, err := decode(io.MultiReader(strings.NewReader(text[:length]), iotest.ErrReader(fmt.Errorf("proxy: %w", io.EOF))))
		if !errors.Is(err, repo.ErrImport) || errors.Is(err, io.EOF) {
			t.Fatalf("disguised at %d: %v", length, err)
		}
	}
}

// A line without an end is refused before it is in memory.
func TestEndlessLine(t *testing.T) {
	text := faultDocument(t)
	source := &endless{}
	_, err := decode(io.MultiReader(strings.NewReader(text[:strings.Index(text, "SECRET content")]), source))
	checkImportError(t, err, "messages[0]", "has a line of more than")
	if source.read > 128<<20 {
		t.Errorf("%d bytes were read", source.read)
	}
}

type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	e.read += len(p)
	return len(p), nil
}

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

func TestReaderThatGivesNothing(t *testing.T) {
	if _, err := decode(idleReader{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("the error is %v", err)
	}
}
