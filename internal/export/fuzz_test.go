package export_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
)

// A document that is accepted is JSON, and is that which an export of its content writes.
func FuzzReader(f *testing.F) {
	full := fullSession()
	messages := fullMessages(full.ID)[:3]
	full.MessageCount = 3
	f.Add(encode(f, full, []repo.ID{testID(3)}, messages...), false)
	f.Add(encode(f, smallSession(0), nil), false)
	f.Add(encode(f, smallSession(1), nil, messageAt(0)), true)
	f.Add(faultDocument(f), true)
	branch := messageAt(2)
	branch.Follows = 0
	f.Add(encodeAll(f, content{
		session: smallSession(3), history: export.History{Base: 1, Head: ptr(int64(-1))}, messages: []repo.Message{messageAt(0), messageAt(1), branch},
		version: 9, state: stateOf(" 1\r\n", `{"a" : [ ]}`),
	}), true)
	f.Fuzz(func(t *testing.T, text string, sign bool) {
		if sign { // takes the fuzzer past the last check
			text = resign(text)
		}
		got, err := decode(strings.NewReader(text))
		if err != nil {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatal("accepted what is not JSON")
		}
		if again := encodeAll(t, got); again != strings.TrimSuffix(text, "\n")+"\n" {
			t.Fatalf("written again it is another document:\n%q\n%q", text, again)
		}
	})
}
