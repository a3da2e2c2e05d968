package repo_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// secret stands in the values that the tests spoil: no error may repeat it.
const secret = "SECRET"

func ptr[T any](value T) *T { return &value }

// wantInvalid checks that err is an InvalidError of field, says want and
// repeats nothing. An empty field means that there is no error.
func wantInvalid(t *testing.T, err error, field, want string) {
	t.Helper()
	if field == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	var invalid *repo.InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, repo.ErrInvalid) {
		t.Errorf("got %v, want an InvalidError", err)
		return
	}
	if invalid.Field != field || !strings.Contains(invalid.Reason, want) {
		t.Errorf("got %q, want field %s and %q", err, field, want)
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("the error repeats content: %v", err)
	}
}

// texts are the rules that each name has.
func texts(maxBytes int) map[string]struct{ value, want string } {
	return map[string]struct{ value, want string }{
		"longest":              {strings.Repeat("n", maxBytes), ""},
		"longest in bytes":     {strings.Repeat("é", maxBytes/2), ""},
		"unicode":              {"你好 😀 \u2028 \uFFFD", ""},
		"control characters":   {"\x01\n\x7f", ""},
		"too long":             {secret + strings.Repeat("n", maxBytes-len(secret)+1), "more than"},
		"too long in bytes":    {strings.Repeat("é", maxBytes/2+1), "more than"},
		"not UTF-8":            {secret + "\xff", "not valid UTF-8"},
		"a surrogate in UTF-8": {secret + "\xed\xa0\x80", "not valid UTF-8"},
		"cut within UTF-8":     {secret + "\xc3", "not valid UTF-8"},
		"NUL":                  {secret + "\x00", "NUL"},
	}
}

// objects are the rules that each metadata has.
var objects = map[string]struct{ value, want string }{
	"empty":         {`{}`, ""},
	"as written":    {"\n{ \"b\":1.0, \"a\":12345678901234567890.123e400 } ", ""},
	"longest":       {`{"a":"` + strings.Repeat("x", repo.MaxMetadataBytes-8) + `"}`, ""},
	"deepest":       {strings.Repeat(`{"a":`, 512) + "1" + strings.Repeat("}", 512), ""},
	"no bytes":      {``, "not valid JSON"},
	"null":          {`null`, "not a JSON object"},
	"an array":      {`["SECRET"]`, "not a JSON object"},
	"a string":      {`"SECRET"`, "not a JSON object"},
	"cut off":       {`{"SECRET":`, "not valid JSON"},
	"too long":      {`{"SECRET":"` + strings.Repeat("x", repo.MaxMetadataBytes) + `"}`, "more than 1048576"},
	"too deep":      {strings.Repeat(`{"SECRET":`, 513) + "1" + strings.Repeat("}", 513), "deeper than 512"},
	"member twice":  {`{"SECRET":1,"SECRET":2}`, "twice"},
	"NUL":           {`{"SECRET":"\u0000"}`, `\u0000`},
	"half a pair":   {`{"SECRET":"\ud800"}`, "half a surrogate pair"},
	"invalid UTF-8": {"{\"SECRET\":\"\xff\"}", "not valid UTF-8"},
}

// fieldIf is the field of an expected error, if one is expected.
func fieldIf(want, field string) string {
	if want == "" {
		return ""
	}
	return field
}

func TestNewSessionDefaults(t *testing.T) {
	got, err := repo.NewSession{}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	if got.ID.IsZero() || got.Namespace != "local" || string(got.Metadata) != "{}" || got.Actor != "" ||
		got.AutomationProfile != "" || got.Budget != nil {
		t.Errorf("the zero value became %+v", got)
	}
	again, err := got.Normalize()
	if err != nil || !reflect.DeepEqual(again, got) {
		t.Errorf("a normalized session became %+v, %v", again, err)
	}
	given := repo.NewSession{
		ID: repo.NewID(), Namespace: "n", Actor: "a", AutomationProfile: "p",
		Metadata: json.RawMessage(` {"b":1, "a":2}`), Budget: ptr(repo.Cost(0)),
	}
	if got, err := given.Normalize(); err != nil || !reflect.DeepEqual(got, given) {
		t.Errorf("%+v became %+v, %v", given, got, err)
	}
}

func TestNewSessionRules(t *testing.T) {
	check := func(name, field, want string, session repo.NewSession) {
		t.Run(field+"/"+name, func(t *testing.T) {
			_, err := session.Normalize()
			wantInvalid(t, err, fieldIf(want, field), want)
		})
	}
	for name, text := range texts(repo.MaxNameBytes) {
		check(name, "namespace", text.want, repo.NewSession{Namespace: text.value})
		check(name, "actor", text.want, repo.NewSession{Actor: text.value})
		check(name, "automation_profile", text.want, repo.NewSession{AutomationProfile: text.value})
	}
	for name, object := range objects {
		check(name, "metadata", object.want, repo.NewSession{Metadata: json.RawMessage(object.value)})
	}
	check("zero", "budget", "", repo.NewSession{Budget: ptr(repo.Cost(0))})
	check("largest", "budget", "", repo.NewSession{Budget: ptr(repo.Cost(1<<63 - 1))})
	check("negative", "budget", "is negative", repo.NewSession{Budget: ptr(repo.Cost(-1))})
}

func TestSessionUpdateRules(t *testing.T) {
	check := func(name, field, want string, update repo.SessionUpdate) {
		t.Run(field+"/"+name, func(t *testing.T) {
			wantInvalid(t, update.Validate(), fieldIf(want, field), want)
		})
	}
	check("nothing", "update", "", repo.SessionUpdate{})
	for name, text := range texts(repo.MaxNameBytes) {
		check(name, "actor", text.want, repo.SessionUpdate{Actor: &text.value})
		check(name, "automation_profile", text.want, repo.SessionUpdate{AutomationProfile: &text.value})
	}
	check("removed", "actor", "", repo.SessionUpdate{Actor: ptr("")})
	check("removed", "automation_profile", "", repo.SessionUpdate{AutomationProfile: ptr("")})
	for name, object := range objects {
		check(name, "metadata", object.want, repo.SessionUpdate{Metadata: json.RawMessage(object.value)})
	}
	check("zero", "budget", "", repo.SessionUpdate{Budget: ptr(repo.Cost(0))})
	check("removed", "budget", "", repo.SessionUpdate{RemoveBudget: true})
	check("negative", "budget", "is negative", repo.SessionUpdate{Budget: ptr(repo.Cost(-1))})
	check("set and removed", "budget", "set and removed", repo.SessionUpdate{Budget: ptr(repo.Cost(1)), RemoveBudget: true})
}

func TestUsageRules(t *testing.T) {
	for _, test := range []struct {
		usage repo.Usage
		field string
	}{
		{repo.Usage{}, ""},
		{repo.Usage{InputTokens: 1<<63 - 1, OutputTokens: 1<<63 - 1, Cost: 1<<63 - 1}, ""},
		{repo.Usage{InputTokens: -1}, "input_tokens"},
		{repo.Usage{OutputTokens: -1 << 63}, "output_tokens"},
		{repo.Usage{Cost: -1}, "cost"},
	} {
		want := ""
		if test.field != "" {
			want = "is negative"
		}
		wantInvalid(t, test.usage.Validate(), test.field, want)
	}
}

func TestNewSessionConflict(t *testing.T) {
	session, err := repo.NewSession{
		Actor: "a", AutomationProfile: "p", Metadata: json.RawMessage(`{"a":1,"b":"é"}`), Budget: ptr(repo.Cost(5)),
	}.Normalize()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		field string
		spoil func(*repo.Session)
	}{
		"the same":                   {"", func(*repo.Session) {}},
		"metadata written otherwise": {"", func(s *repo.Session) { s.Metadata = json.RawMessage("{\"b\": \"\\u00e9\",\n\"a\":1}") }},
		"used meanwhile": {"", func(s *repo.Session) {
			s.Usage.Cost, s.MessageCount, s.UpdatedAt = 3, 7, time.Now()
		}},
		"namespace":       {"namespace", func(s *repo.Session) { s.Namespace = "other" }},
		"actor":           {"actor", func(s *repo.Session) { s.Actor = "" }},
		"profile":         {"automation_profile", func(s *repo.Session) { s.AutomationProfile = "P" }},
		"metadata":        {"metadata", func(s *repo.Session) { s.Metadata = json.RawMessage(`{"a":1.0,"b":"é"}`) }},
		"budget":          {"budget", func(s *repo.Session) { s.Budget = ptr(repo.Cost(6)) }},
		"budget removed":  {"budget", func(s *repo.Session) { s.Budget = nil }},
		"budget the same": {"", func(s *repo.Session) { s.Budget = ptr(repo.Cost(5)) }},
	} {
		t.Run(name, func(t *testing.T) {
			stored := repo.Session{
				ID: session.ID, Namespace: session.Namespace, Actor: session.Actor,
				AutomationProfile: session.AutomationProfile, Metadata: session.Metadata, Budget: session.Budget,
			}
			test.spoil(&stored)
			err := session.Conflict(stored)
			if test.field == "" {
				if err != nil {
					t.Errorf("differs: %v", err)
				}
				return
			}
			var conflict *repo.SessionConflict
			if !errors.As(err, &conflict) || conflict.Field != test.field || conflict.ID != session.ID {
				t.Errorf("got %v, want a conflict of %s", err, test.field)
			}
		})
	}
}

func TestCheckSequenceAndLimit(t *testing.T) {
	wantInvalid(t, repo.CheckSequence("from", 0), "", "")
	wantInvalid(t, repo.CheckSequence("from", 1<<63-1), "", "")
	wantInvalid(t, repo.CheckSequence("from", -1), "from", "is negative")
	for limit, want := range map[int]int{0: repo.DefaultPageSize, 1: 1, repo.MaxPageSize: repo.MaxPageSize} {
		if got, err := repo.CheckLimit(limit); err != nil || got != want {
			t.Errorf("limit %d is %d, %v, want %d", limit, got, err, want)
		}
	}
	for _, limit := range []int{-1, repo.MaxPageSize + 1, -1 << 63} {
		_, err := repo.CheckLimit(limit)
		wantInvalid(t, err, "limit", "")
	}
}
