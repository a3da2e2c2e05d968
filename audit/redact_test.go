package audit

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

func TestRedactKeys(t *testing.T) {
	r := NewRedactor(RedactorOptions{Keys: []string{"Kunden-Nummer"}})
	for _, key := range []string{
		"apiKey", "API-KEY", "api_key", "x-api-key", "openai_api_key", "Password", "db.password", "PASSWD", "clientSecret",
		"access_token", "Authorization", "set-cookie", "private key", "aws_secret_access_key", "token", "DSN", "kunden_nummer",
	} {
		document, err := json.Marshal(map[string]any{"before": 1, key: "hunter2"})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.JSON(document)); strings.Contains(got, "hunter2") || !strings.Contains(got, `"before":1`) {
			t.Errorf("%s gave %s", document, got)
		}
	}
	for _, key := range []string{
		"tokens", "max_tokens", "input_tokens", "next_page_token", "keyboard", "secretary", "passenger", "author", "key", "monkey", "description",
	} {
		document := json.RawMessage(`{"` + key + `":"harmless"}`)
		if got := r.JSON(document); string(got) != string(document) {
			t.Errorf("%s gave %s", document, got)
		}
	}
}

func TestRedactShapes(t *testing.T) {
	r := NewRedactor(RedactorOptions{Patterns: []*regexp.Regexp{regexp.MustCompile(`ACME-[0-9]+`)}})
	for in, want := range map[string]string{
		`{"token":null,"password":"","secret":true}`:                                       `{"token":null,"password":"","secret":true}`,
		`{"password":12345}`:                                                               `{"password":"[REDACTED]"}`,
		`{"credentials":{"user":"u","n":[1,"x",{"y":2.5}]}}`:                               `{"credentials":{"user":"[REDACTED]","n":"[REDACTED]"}}`,
		`{ "a" : [ { "Api\u004bey" : "x" , "b" : 1.00 } ] }`:                               `{ "a" : [ { "Api\u004bey" : "[REDACTED]" , "b" : 1.00 } ] }`,
		`{"a":"Authorization: Bearer abcdefgh.ijkl=="}`:                                    `{"a":"Authorization: Bearer [REDACTED]"}`,
		`{"a":"postgres://user:p%40ss@host/db?x=1"}`:                                       `{"a":"postgres://user:[REDACTED]@host/db?x=1"}`,
		`{"a":"see http://host:8080/a@b"}`:                                                 `{"a":"see http://host:8080/a@b"}`,
		`{"a":"host=h password=hunter2 user=u"}`:                                           `{"a":"host=h password=[REDACTED] user=u"}`,
		`{"a":"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- end"}`: `{"a":"[REDACTED] end"}`,
		`{"a":"-----BEGIN PRIVATE KEY-----\nMIIE"}`:                                        `{"a":"[REDACTED]"}`,
		`{"a":["sk-proj-0123456789abcdef","ok"]}`:                                          `{"a":["[REDACTED]","ok"]}`,
		`{"a":"AKIAIOSFODNN7EXAMPLE."}`:                                                    `{"a":"[REDACTED]."}`,
		`{"a":"ghp_0123456789012345678901234567890123456"}`:                                `{"a":"[REDACTED]"}`,
		`{"a":"xoxb-123456789012-abc"}`:                                                    `{"a":"[REDACTED]"}`,
		`{"a":"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig"}`:                             `{"a":"[REDACTED]"}`,
		`{"a":"e0123456789abcdef0123456789abcde-us12"}`:                                    `{"a":"[REDACTED]"}`,
		`{"a":"postgres://user:p@x/y@host/db"}`:                                            `{"a":"postgres://user:[REDACTED]@host/db"}`,
		`{"api_keys":["hunter2hunter2"]}`:                                                  `{"api_keys":"[REDACTED]"}`,
		`{"password":{"type":"string","description":"the user's own"}}`:                    `{"password":{"type":"string","description":"the user's own"}}`,
		`{"a":"ticket ACME-42"}`:                                                           `{"a":"ticket [REDACTED]"}`,
		`{"a":"task-force","b":"basically fine","c":"<b>&\u00e9"}`:                         `{"a":"task-force","b":"basically fine","c":"<b>&\u00e9"}`,
		`{"a":"x<y password=z & é"}`:                                                       `{"a":"x<y password=[REDACTED] & é"}`,
	} {
		got := string(r.JSON(json.RawMessage(in)))
		if got != want {
			t.Errorf("%s\ngave %s\nwant %s", in, got, want)
		}
		if again := string(r.JSON(json.RawMessage(got))); again != got {
			t.Errorf("redacted twice %s gave %s", got, again)
		}
	}
}

func TestRedactEntry(t *testing.T) {
	given := repo.AuditEntry{Actor: "sk-0123456789abcdef01", User: "u", Project: "https://u:secret@h/p", Details: json.RawMessage(`{"pwd":"x"}`)}
	got := NewRedactor(RedactorOptions{}).Entry(given)
	if got.Actor != Redacted || got.User != "u" || got.Project != "https://u:[REDACTED]@h/p" || string(got.Details) != `{"pwd":"[REDACTED]"}` {
		t.Errorf("got %+v, %s", got, got.Details)
	}
	if string(given.Details) != `{"pwd":"x"}` {
		t.Error("the argument was changed")
	}
}

// JSON never panics, returns valid JSON exactly for valid JSON, changes nothing the
// second time, and does not change a document without anything like a secret.
func FuzzRedact(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[1,2,{"password":"x"}]}`, `"Bearer abcdefghijk"`, `{"\u0061pikey":"\"\\"}`, "{", "\xff", ``, `[[[[]]]]`} {
		f.Add([]byte(seed))
	}
	r := NewRedactor(RedactorOptions{})
	harmless := regexp.MustCompile(`^[\s\[\]{},:0-9ntrueflas".-]*$`)
	f.Fuzz(func(t *testing.T, in []byte) {
		before := string(in)
		out := r.JSON(in)
		if string(in) != before {
			t.Fatal("the argument was changed")
		}
		if json.Valid(in) != json.Valid(out) {
			t.Fatalf("%q became %q", in, out)
		}
		if again := r.JSON(out); string(again) != string(out) {
			t.Fatalf("%q became %q, and then %q", in, out, again)
		}
		if harmless.Match(in) && string(out) != before {
			t.Fatalf("%q became %q", in, out)
		}
		r.Text(before)
	})
}

func BenchmarkRedact(b *testing.B) {
	r := NewRedactor(RedactorOptions{})
	entry := repo.AuditEntry{Actor: "openai/gpt", User: "someone@example.org", Details: json.RawMessage(
		`{"tool":"edit","path":"src/main.go","lines":[10,20],"summary":"` + strings.Repeat("changed a thing or two; ", 20) + `","ok":true}`)}
	b.ReportAllocs()
	for b.Loop() {
		_ = r.Entry(entry)
	}
}

// JSON within a string is read as JSON, so that secrets are found by its structure, too.
func TestRedactWithinTexts(t *testing.T) {
	r := NewRedactor(RedactorOptions{})
	for _, inner := range []string{
		`{"credentials":{"user":"hunter2x","n":[1,"hunter2x"]}}`,
		`{"password":{"old":"hunter2x"}}`,
		`["x",{"name":"DB_PASSWORD","enabled":true,"comment":"none","value":"hunter2x"}]`,
		`{"password":12345678}`,
	} {
		for range 3 {
			text, err := json.Marshal(inner)
			if err != nil {
				t.Fatal(err)
			}
			inner = `{"arguments":` + string(text) + `}`
			got := string(r.JSON(json.RawMessage(inner)))
			if strings.Contains(got, "hunter2x") || strings.Contains(got, "12345678") || !json.Valid([]byte(got)) {
				t.Errorf("%s\ngave %s", inner, got)
			}
		}
	}
}
