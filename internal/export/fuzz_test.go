package export_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// A document that is accepted is JSON with the checksum that another implementation
// computes, and survives a second round trip unchanged.
func FuzzReader(f *testing.F) {
	full := fullSession()
	messages := fullMessages(full.ID)[:3]
	full.MessageCount = 3
	f.Add(encode(f, full, []repo.ID{testID(3)}, messages...), false)
	f.Add(encode(f, smallSession(0), nil), false)
	text := encode(f, smallSession(1), nil, messageAt(0))
	f.Add(text, true)
	f.Add(faultDocument(f), true)
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(text), "", " "); err != nil {
		f.Fatal(err)
	}
	f.Add(indented.String(), true)
	f.Fuzz(func(t *testing.T, text string, sign bool) {
		// The correct checksum takes the fuzzer past the last check.
		if sign && json.Valid([]byte(text)) && strings.HasPrefix(text, "{") && strings.Contains(text, `"checksum"`) {
			text = text[:strings.LastIndex(text, `"checksum"`)] + `"checksum":""}`
			if !json.Valid([]byte(text)) {
				return
			}
			text = resign(t, text)
		}
		got, err := decode(strings.NewReader(text))
		if err != nil {
			return
		}
		if !json.Valid([]byte(text)) {
			t.Fatal("accepted what is not JSON")
		}
		again := encode(t, got.session, got.plans, got.messages...)
		if want := slowChecksum(t, text); slowChecksum(t, again) != want || !strings.Contains(again, want) {
			t.Fatalf("another checksum:\n%q\n%q", text, again)
		}
		second := mustDecode(t, again)
		if third := encode(t, second.session, second.plans, second.messages...); third != again {
			t.Fatalf("the second trip changed it:\n%q\n%q", again, third)
		}
	})
}
