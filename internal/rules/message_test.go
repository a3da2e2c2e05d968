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

func userMessage() repo.NewMessage {
	return repo.NewMessage{Role: repo.RoleUser, Content: "hello"}
}

func TestMessageRules(t *testing.T) {
	check := func(name, field, want string, spoil func(*repo.NewMessage)) {
		t.Run(field+"/"+name, func(t *testing.T) {
			message := userMessage()
			spoil(&message)
			_, _, err := rules.NormalizeMessages([]repo.NewMessage{userMessage(), message})
			wantInvalid(t, err, fieldIf(want, "messages[1]."+field), want)
		})
	}
	for _, role := range []repo.Role{repo.RoleUser, repo.RoleAssistant, repo.RoleSystem, repo.RoleDeveloper, repo.RoleTool} {
		check(string(role), "role", "", func(m *repo.NewMessage) { m.Role = role })
	}
	for _, role := range []repo.Role{"", "User", "user ", "SECRET", "Developer"} {
		check("refused "+string(role), "role", "is not user", func(m *repo.NewMessage) { m.Role = role })
	}
	for name, test := range map[string]struct {
		metadata string
		payload  []byte
		want     string
	}{
		"empty":                               {"", nil, "is empty"},
		"empty, as are metadata and payload":  {"{}", []byte{}, "is empty"},
		"empty, as is metadata by meaning":    {" {\n}\t", nil, "is empty"},
		"empty, with a payload":               {"{ }", []byte{0}, ""},
		"empty, with metadata":                {`{"":null}`, []byte{}, ""},
		"empty, with metadata between spaces": {" {\n\"a\" : {} } ", nil, ""},
	} {
		check(name, "content", test.want, func(m *repo.NewMessage) {
			m.Content, m.Payload = "", test.payload
			if test.metadata != "" {
				m.Metadata = json.RawMessage(test.metadata)
			}
		})
	}
	check("empty, with a kind", "content", "", func(m *repo.NewMessage) { m.Content, m.Kind = "", "tool_result" })
	check("empty, with a call", "content", "", func(m *repo.NewMessage) { m.Content, m.CallID = "", "call" })
	for name, text := range texts(repo.MaxNameBytes) {
		check(name, "kind", text.want, func(m *repo.NewMessage) { m.Kind = text.value })
	}
	for name, text := range texts(limits.MaxUserIDBytes) {
		check(name, "call_id", text.want, func(m *repo.NewMessage) { m.CallID = text.value })
	}
	check("white space", "content", "", func(m *repo.NewMessage) { m.Content = " " })
	for name, text := range texts(repo.MaxContentBytes) {
		check(name, "content", text.want, func(m *repo.NewMessage) { m.Content = text.value })
	}
	for name, object := range objects {
		check(name, "metadata", object.want, func(m *repo.NewMessage) { m.Metadata = json.RawMessage(object.value) })
	}
	check("any bytes", "payload", "", func(m *repo.NewMessage) { m.Payload = []byte{0, 0xff, 0xfe} })
	check("longest", "payload", "", func(m *repo.NewMessage) { m.Payload = make([]byte, repo.MaxPayloadBytes) })
	check("too long", "payload", "more than 16777216", func(m *repo.NewMessage) { m.Payload = make([]byte, repo.MaxPayloadBytes+1) })
	for name, test := range map[string]struct {
		time time.Time
		want string
	}{
		"none":            {time.Time{}, ""},
		"first":           {time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC), ""},
		"last":            {time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), ""},
		"year 0":          {time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC), "not between"},
		"year 10000":      {time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), "not between"},
		"10000 in UTC":    {time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)), "not between"},
		"0 in UTC":        {time.Date(1, 1, 1, 0, 30, 0, 0, time.FixedZone("", 3600)), "not between"},
		"9999 in UTC":     {time.Date(10_000, 1, 1, 0, 30, 0, 0, time.FixedZone("", 3600)), ""},
		"far in the past": {time.Unix(-1<<60, 0), "not between"},
		"far in future":   {time.Unix(1<<60, 0), "not between"},
	} {
		check(name, "occurred_at", test.want, func(m *repo.NewMessage) { m.OccurredAt = test.time })
	}
}

func TestBatchRules(t *testing.T) {
	normalize := func(messages ...repo.NewMessage) error {
		_, _, err := rules.NormalizeMessages(messages)
		return err
	}
	wantInvalid(t, normalize(), "messages", "is empty")

	many := make([]repo.NewMessage, repo.MaxBatchMessages+1)
	for i := range many {
		many[i] = userMessage()
	}
	wantInvalid(t, normalize(many[1:]...), "", "")
	wantInvalid(t, normalize(many...), "messages", "10001 entries, more than 10000")

	large := userMessage()
	large.Payload = make([]byte, repo.MaxPayloadBytes-len(large.Content)-len("{}"))
	wantInvalid(t, normalize(large, large, large, large), "", "")
	wantInvalid(t, normalize(large, large, large, large, userMessage()), "messages", "more than 67108864 bytes together")
	named := large
	named.Kind, named.CallID = "k", "c"
	wantInvalid(t, normalize(large, large, large, named), "messages", "more than 67108864 bytes together")

	first, second := userMessage(), userMessage()
	first.ID, second.ID = repo.NewID(), repo.NewID()
	wantInvalid(t, normalize(first, userMessage(), second), "", "")
	wantInvalid(t, normalize(first, userMessage(), second, first), "messages[3].id", "twice")
	// The fault of an earlier message is reported before any of a later one.
	bad := userMessage()
	bad.Content = ""
	wantInvalid(t, normalize(bad, repo.NewMessage{}), "messages[0].content", "is empty")
}

func TestNormalizeMessages(t *testing.T) {
	zone := time.FixedZone("", 3600)
	given := []repo.NewMessage{
		userMessage(),
		{
			ID: repo.NewID(), Role: repo.RoleTool, Content: "x", Metadata: json.RawMessage(` {"b":1, "a":2} `),
			Payload: []byte{}, OccurredAt: time.Date(2026, 2, 3, 5, 0, 0, 123456789, zone),
		},
	}
	before := append([]repo.NewMessage(nil), given...)
	normal, repeatable, err := rules.NormalizeMessages(given)
	if err != nil || !repeatable {
		t.Fatalf("repeatable is %v, %v", repeatable, err)
	}
	if !reflect.DeepEqual(given, before) {
		t.Error("the argument was changed")
	}
	if normal[0].ID.IsZero() || string(normal[0].Metadata) != "{}" || normal[0].Payload != nil || !normal[0].OccurredAt.IsZero() {
		t.Errorf("the first became %+v", normal[0])
	}
	want := before[1]
	want.OccurredAt = time.Date(2026, 2, 3, 4, 0, 0, 123456000, time.UTC)
	if !reflect.DeepEqual(normal[1], want) {
		t.Errorf("the second became %+v, want %+v", normal[1], want)
	}
	again, _, err := rules.NormalizeMessages(normal)
	if err != nil || !reflect.DeepEqual(again, normal) {
		t.Errorf("normalized again: %+v, %v", again, err)
	}
	if _, repeatable, _ = rules.NormalizeMessages([]repo.NewMessage{userMessage()}); repeatable {
		t.Error("a batch without ids is repeatable")
	}
	new1, _, _ := rules.NormalizeMessages([]repo.NewMessage{userMessage(), userMessage()})
	if new1[0].ID.Compare(new1[1].ID) >= 0 {
		t.Error("new ids do not ascend")
	}
}

func TestCheckCallID(t *testing.T) {
	wantInvalid(t, rules.CheckCallID(""), "call_id", "is empty")
	for _, text := range texts(limits.MaxUserIDBytes) {
		wantInvalid(t, rules.CheckCallID(text.value), fieldIf(text.want, "call_id"), text.want)
	}
}

// Times are truncated to microseconds towards the past, also before 1970.
func TestTimesAreCut(t *testing.T) {
	message := userMessage()
	message.OccurredAt = time.Date(1950, 1, 1, 0, 0, 0, 1999, time.UTC)
	normal, _, err := rules.NormalizeMessages([]repo.NewMessage{message})
	if want := time.Date(1950, 1, 1, 0, 0, 0, 1000, time.UTC); err != nil || !normal[0].OccurredAt.Equal(want) {
		t.Errorf("got %v, %v, want %v", normal[0].OccurredAt, err, want)
	}
}

func TestMessageStoredAndConflict(t *testing.T) {
	message := repo.NewMessage{
		ID: repo.NewID(), Role: repo.RoleUser, Content: secret, Metadata: json.RawMessage(`{"a":1,"b":2}`),
		Payload: []byte{1, 2}, Kind: "kind", CallID: "call", OccurredAt: time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC),
	}
	session, created := repo.NewID(), time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	stored := rules.StoredMessage(message, session, 7, created)
	if want := (repo.Message{
		SessionID: session, ID: message.ID, Sequence: 7, Follows: 6, Role: message.Role, Content: message.Content,
		Metadata: message.Metadata, Payload: message.Payload, Kind: message.Kind, CallID: message.CallID, OccurredAt: message.OccurredAt, CreatedAt: created,
	}); !reflect.DeepEqual(stored, want) {
		t.Errorf("stored is %+v", stored)
	}
	for name, test := range map[string]struct {
		field string
		spoil func(*repo.Message)
	}{
		"the same":                   {"", func(*repo.Message) {}},
		"metadata written otherwise": {"", func(m *repo.Message) { m.Metadata = json.RawMessage(` {"b":2, "a":1}`) }},
		"another zone":               {"", func(m *repo.Message) { m.OccurredAt = m.OccurredAt.In(time.FixedZone("", 3600)) }},
		"role":                       {"role", func(m *repo.Message) { m.Role = repo.RoleTool }},
		"content":                    {"content", func(m *repo.Message) { m.Content += " " }},
		"metadata":                   {"metadata", func(m *repo.Message) { m.Metadata = json.RawMessage(`{"a":1,"b":2.0}`) }},
		"payload":                    {"payload", func(m *repo.Message) { m.Payload = []byte{1, 3} }},
		"no payload":                 {"payload", func(m *repo.Message) { m.Payload = nil }},
		"kind":                       {"kind", func(m *repo.Message) { m.Kind += " " }},
		"no kind":                    {"kind", func(m *repo.Message) { m.Kind = "" }},
		"call_id":                    {"call_id", func(m *repo.Message) { m.CallID += " " }},
		"no call_id":                 {"call_id", func(m *repo.Message) { m.CallID = "" }},
		"occurred_at":                {"occurred_at", func(m *repo.Message) { m.OccurredAt = m.OccurredAt.Add(time.Microsecond) }},
		"no occurred_at":             {"occurred_at", func(m *repo.Message) { m.OccurredAt = time.Time{} }},
	} {
		other := stored
		test.spoil(&other)
		err := rules.MessageConflict(message, other)
		if test.field == "" {
			if err != nil {
				t.Errorf("%s: differs: %v", name, err)
			}
			continue
		}
		var conflict *repo.ExistsError
		if !errors.As(err, &conflict) || *conflict != (repo.ExistsError{Kind: "message", SessionID: session, ID: message.ID, Field: test.field}) {
			t.Errorf("%s: got %v", name, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error repeats content: %v", name, err)
		}
	}
	// An empty payload differs from none.
	message.Payload, stored.Payload = []byte{}, nil
	if err := rules.MessageConflict(message, stored); !errors.Is(err, repo.ErrConflict) {
		t.Errorf("empty against no payload: %v", err)
	}
}

func TestAppendConflict(t *testing.T) {
	session := repo.NewID()
	normal, _, err := rules.NormalizeMessages([]repo.NewMessage{userMessage(), userMessage()})
	if err != nil {
		t.Fatal(err)
	}
	var stored []repo.Message
	for i, message := range normal {
		stored = append(stored, rules.StoredMessage(message, session, int64(i), time.Now()))
	}
	if err := rules.AppendConflict(session, normal, stored); err != nil {
		t.Errorf("a repetition is refused: %v", err)
	}
	check := func(stored []repo.Message, id repo.ID, field string) {
		t.Helper()
		conflict, ok := errors.AsType[*repo.ExistsError](rules.AppendConflict(session, normal, stored))
		if !ok || *conflict != (repo.ExistsError{Kind: "message", SessionID: session, ID: id, Field: field}) {
			t.Errorf("got %v, want a conflict of %s", conflict, field)
		}
	}
	check(stored[1:], normal[1].ID, "batch")
	stored[1].Content = "other"
	check(stored, normal[1].ID, "content")
}
