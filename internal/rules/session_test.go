package rules_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/limits"
	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// secret is in the values that the tests make invalid: no error may repeat it.
const secret = "SECRET"

func ptr[T any](value T) *T { return &value }

// wantInvalid checks that err is an InvalidError of field, says want and repeats no
// value. An empty field means that there is no error.
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

// texts are the rules for each name.
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

// objects are the rules for all metadata.
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

// fieldIf returns the field of the expected error, if one is expected.
func fieldIf(want, field string) string {
	if want == "" {
		return ""
	}
	return field
}

func TestNewSessionDefaults(t *testing.T) {
	got, err := rules.NormalizeSession("", repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	if got.ID.IsZero() || got.Namespace != "local" || got.Existing != repo.ExistingSame || string(got.Metadata) != "{}" || got.Actor != "" ||
		got.AutomationProfile != "" || got.Budget != nil {
		t.Errorf("the zero value became %+v", got)
	}
	again, err := rules.NormalizeSession("", got)
	if err != nil || !reflect.DeepEqual(again, got) {
		t.Errorf("a normalized session became %+v, %v", again, err)
	}
	given := repo.NewSession{
		ID: repo.NewID(), Namespace: "n", Key: "k", Owner: "o", Existing: repo.ExistingNone,
		Actor: "a", AutomationProfile: "p",
		Metadata: json.RawMessage(` {"b":1, "a":2}`), Budget: ptr(repo.Cost(0)),
	}
	if got, err := rules.NormalizeSession("", given); err != nil || !reflect.DeepEqual(got, given) {
		t.Errorf("%+v became %+v, %v", given, got, err)
	}
}

func TestNewSessionRules(t *testing.T) {
	check := func(name, field, want string, session repo.NewSession) {
		t.Run(field+"/"+name, func(t *testing.T) {
			_, err := rules.NormalizeSession("", session)
			wantInvalid(t, err, fieldIf(want, field), want)
		})
	}
	for name, text := range texts(repo.MaxNameBytes) {
		check(name, "namespace", text.want, repo.NewSession{Namespace: text.value})
		check(name, "actor", text.want, repo.NewSession{Actor: text.value})
		check(name, "automation_profile", text.want, repo.NewSession{AutomationProfile: text.value})
	}
	for name, text := range texts(repo.MaxKeyBytes) {
		check(name, "key", text.want, repo.NewSession{Key: text.value})
	}
	for name, text := range texts(limits.MaxUserIDBytes) {
		check(name, "owner", text.want, repo.NewSession{Owner: text.value})
	}
	check("with a key", "id", "", repo.NewSession{Key: "k", ID: repo.NewID()})
	for _, mode := range []repo.Existing{"", repo.ExistingSame, repo.ExistingNone, repo.ExistingAny} {
		check(string(mode), "existing", "", repo.NewSession{Existing: mode})
	}
	check("unknown", "existing", "is not same", repo.NewSession{Existing: secret})
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
			wantInvalid(t, rules.CheckSessionUpdate(update), fieldIf(want, field), want)
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
		wantInvalid(t, rules.CheckUsage(test.usage), test.field, want)
	}
}

func TestNewSessionConflict(t *testing.T) {
	session, err := rules.NormalizeSession("", repo.NewSession{
		Key: "k", Owner: "o", Actor: "a", AutomationProfile: "p", Metadata: json.RawMessage(`{"a":1,"b":"é"}`), Budget: ptr(repo.Cost(5)),
	})
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
		"key":             {"key", func(s *repo.Session) { s.Key = "" }},
		"owner":           {"owner", func(s *repo.Session) { s.Owner = "O" }},
		"actor":           {"actor", func(s *repo.Session) { s.Actor = "" }},
		"profile":         {"automation_profile", func(s *repo.Session) { s.AutomationProfile = "P" }},
		"metadata":        {"metadata", func(s *repo.Session) { s.Metadata = json.RawMessage(`{"a":1.0,"b":"é"}`) }},
		"budget":          {"budget", func(s *repo.Session) { s.Budget = ptr(repo.Cost(6)) }},
		"budget removed":  {"budget", func(s *repo.Session) { s.Budget = nil }},
		"budget the same": {"", func(s *repo.Session) { s.Budget = ptr(repo.Cost(5)) }},
	} {
		t.Run(name, func(t *testing.T) {
			stored := repo.Session{
				ID: session.ID, Namespace: session.Namespace, Key: session.Key, Owner: session.Owner, Actor: session.Actor,
				AutomationProfile: session.AutomationProfile, Metadata: session.Metadata, Budget: session.Budget,
			}
			test.spoil(&stored)
			_, err := rules.FoundSession("", session, true, stored)
			if test.field == "" {
				if err != nil {
					t.Errorf("differs: %v", err)
				}
				return
			}
			var conflict *repo.ExistsError
			if !errors.As(err, &conflict) || conflict.Field != test.field || conflict.ID != session.ID {
				t.Errorf("got %v, want a conflict of %s", err, test.field)
			}
		})
	}
}

func TestFoundSession(t *testing.T) {
	new := repo.NewSession{ID: repo.NewID(), Key: "k", Actor: "a"}
	same := repo.Session{ID: new.ID, Namespace: "local", Key: "k", Actor: "a", Metadata: json.RawMessage(`{}`)}
	other, elsewhere, unnamed, byKey := same, same, same, same
	other.Actor, elsewhere.Namespace, unnamed.Key, byKey.ID = "b", "n", "", repo.NewID()
	otherByKey, withoutKey := byKey, new
	otherByKey.Actor, withoutKey.Key = "b", ""
	for _, test := range []struct {
		name   string
		new    repo.NewSession
		mode   repo.Existing
		chosen bool
		stored []repo.Session
		want   int    // the one that is accepted, or that the conflict is with
		field  string // the conflict's
	}{
		{"same", new, repo.ExistingSame, true, []repo.Session{same}, 0, "accepted"},
		{"own", new, repo.ExistingNone, false, []repo.Session{same}, 0, "own"},
		{"not the same", new, repo.ExistingSame, true, []repo.Session{other}, 0, "actor"},
		{"must be new", new, repo.ExistingNone, true, []repo.Session{same}, 0, ""},
		{"must be new, by key", new, repo.ExistingNone, false, []repo.Session{byKey}, 0, ""},
		{"by key", new, repo.ExistingSame, false, []repo.Session{byKey}, 0, "accepted"},
		{"by key, not the same", new, repo.ExistingSame, false, []repo.Session{otherByKey}, 0, "actor"},
		{"another id", new, repo.ExistingSame, true, []repo.Session{byKey}, 0, "id"},
		{"any, another id", new, repo.ExistingAny, true, []repo.Session{otherByKey}, 0, "accepted"},
		{"any", new, repo.ExistingAny, true, []repo.Session{other}, 0, "accepted"},
		{"any, in another namespace", new, repo.ExistingAny, true, []repo.Session{elsewhere}, 0, "namespace"},
		{"any, without the key", new, repo.ExistingAny, true, []repo.Session{unnamed}, 0, "key"},
		{"any, by its id", withoutKey, repo.ExistingAny, true, []repo.Session{elsewhere}, 0, "accepted"},
		{"two", new, repo.ExistingSame, true, []repo.Session{unnamed, byKey}, 0, "key"},
		{"two, the other way around", new, repo.ExistingSame, true, []repo.Session{byKey, unnamed}, 1, "key"},
		{"any of two", new, repo.ExistingAny, true, []repo.Session{unnamed, byKey}, 1, "accepted"},
		{"any of two, the other way around", new, repo.ExistingAny, true, []repo.Session{byKey, unnamed}, 0, "accepted"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.new.Existing = test.mode
			new, err := rules.NormalizeSession("", test.new)
			if err != nil {
				t.Fatal(err)
			}
			found, err := rules.FoundSession("", new, test.chosen, test.stored...)
			stored := test.stored[test.want]
			if test.field == "accepted" || test.field == "own" {
				if err != nil || found.Existed != (test.field == "accepted") || !reflect.DeepEqual(notExisted(found), stored) {
					t.Errorf("got %+v, %v", found, err)
				}
				return
			}
			conflict, ok := errors.AsType[*repo.ExistsError](err)
			if !ok || *conflict != (repo.ExistsError{Kind: "session", ID: stored.ID, Field: test.field}) || found.Existed {
				t.Errorf("got %+v, %v, want a conflict of %q", found, err, test.field)
			}
		})
	}
}

func TestCheckSequenceAndLimit(t *testing.T) {
	wantInvalid(t, rules.CheckSequence("from", 0), "", "")
	wantInvalid(t, rules.CheckSequence("from", 1<<63-1), "", "")
	wantInvalid(t, rules.CheckSequence("from", -1), "from", "is negative")
	for limit, want := range map[int]int{0: repo.DefaultPageSize, 1: 1, repo.MaxPageSize: repo.MaxPageSize} {
		if got, err := rules.CheckLimit(limit); err != nil || got != want {
			t.Errorf("limit %d is %d, %v, want %d", limit, got, err, want)
		}
	}
	for _, limit := range []int{-1, repo.MaxPageSize + 1, -1 << 63} {
		_, err := rules.CheckLimit(limit)
		wantInvalid(t, err, "limit", "")
	}
}

func TestAddUsage(t *testing.T) {
	total := repo.Usage{InputTokens: 1, OutputTokens: 2, Cost: 3}
	most := repo.NewUsage{InputTokens: 1<<63 - 2, OutputTokens: 1<<63 - 3, Cost: 1<<63 - 4}
	got, err := rules.AddUsage(total, most)
	if want := (repo.Usage{InputTokens: 1<<63 - 1, OutputTokens: 1<<63 - 1, Cost: 1<<63 - 1}); err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, add := range map[string]repo.NewUsage{
		"input": {InputTokens: most.InputTokens + 1}, "output": {OutputTokens: most.OutputTokens + 1}, "cost": {Cost: most.Cost + 1},
	} {
		_, err := rules.AddUsage(total, add)
		t.Run(name, func(t *testing.T) { wantInvalid(t, err, "usage", "2^63-1") })
	}
}

func notExisted(s repo.Session) repo.Session {
	s.Existed = false
	return s
}
