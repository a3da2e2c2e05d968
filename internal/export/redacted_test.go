package export_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/rules"
	"github.com/seed-df90f812/agentstore/repo"
)

// A message whose kind says that it is redacted says nothing else: such a one could never be redacted again.
func TestRedactedIsBare(t *testing.T) {
	t.Parallel()
	bare := rules.Redacted(messageAt(0))
	bare.CallID = "call"
	tells := messageAt(0)
	tells.Role, tells.Content, tells.Kind, tells.Metadata = repo.RoleSystem, "", repo.KindRedacted, json.RawMessage(`{"sequences":[0,7]}`)
	for _, of := range []repo.Message{bare, tells} {
		read := func(change func(*repo.Message)) error {
			message := of
			change(&message)
			_, err := decode(strings.NewReader(encode(t, smallSession(1), nil, message)))
			return err
		}
		if err := read(func(*repo.Message) {}); err != nil {
			t.Errorf("%+v: %v", of, err)
		}
		for name, change := range map[string]func(*repo.Message){
			"content":         func(m *repo.Message) { m.Content = "SECRET" },
			"payload":         func(m *repo.Message) { m.Payload = []byte("SECRET") },
			"empty payload":   func(m *repo.Message) { m.Payload = []byte{} },
			"tokens":          func(m *repo.Message) { m.Tokens = 1 },
			"a member":        func(m *repo.Message) { m.Metadata = json.RawMessage(`{"SECRET":1}`) },
			"one more member": func(m *repo.Message) { m.Metadata = json.RawMessage(`{"sequences":[0,7],"SECRET":1}`) },
			"no numbers":      func(m *repo.Message) { m.Metadata = json.RawMessage(`{"sequences":["SECRET"]}`) },
		} {
			err := read(change)
			if err == nil {
				t.Errorf("%s of %+v is taken", name, of)
				continue
			}
			checkImportError(t, err, "messages[0].kind", "is reserved for redacted messages")
		}
	}
	tells.Role = repo.RoleUser
	_, err := decode(strings.NewReader(encode(t, smallSession(1), nil, tells)))
	checkImportError(t, err, "messages[0].kind", "is reserved for redacted messages")
}
