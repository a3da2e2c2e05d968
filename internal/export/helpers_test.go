package export_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
)

var day = time.Date(2026, 2, 3, 4, 5, 6, 789000000, time.UTC)

func testID(n byte) repo.ID { return repo.ID{0: 1, 14: n} }

func smallSession(messages int64) repo.Session {
	return repo.Session{
		ID: testID(1), Namespace: "local", Metadata: json.RawMessage("{}"), Version: 1,
		MessageCount: messages, CreatedAt: day, UpdatedAt: day.Add(time.Second),
	}
}

func messageAt(sequence int64) repo.Message {
	id := testID(2)
	id[7], id[8], id[9] = byte(sequence>>16), byte(sequence>>8), byte(sequence)
	return repo.Message{
		SessionID: testID(1), ID: id, Sequence: sequence, Follows: sequence - 1, Role: repo.RoleUser,
		Content: "hello", Metadata: json.RawMessage("{}"), CreatedAt: day,
	}
}

func encode(t testing.TB, session repo.Session, plans []repo.ID, messages ...repo.Message) string {
	t.Helper()
	return encodeAll(t, content{session: session, plans: plans, messages: messages})
}

// content is all that a document holds.
type content struct {
	session  repo.Session
	plans    []repo.ID
	history  export.History
	messages []repo.Message
	version  int64 // of the state; 0: there is none
	state    []repo.StateValue
}

// encodeAll writes the state from a buffer, as repo/postgres does.
func encodeAll(t testing.TB, c content) string {
	t.Helper()
	var out bytes.Buffer
	w, err := export.NewWriter(&out, c.session, c.plans, c.history)
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range c.messages {
		if err := w.Write(message); err != nil {
			t.Fatal(err)
		}
	}
	var buffer export.StateBuffer
	defer buffer.Close()
	for _, value := range c.state {
		if err := buffer.Add(value); err != nil {
			t.Fatal(err)
		}
	}
	if c.version != 0 {
		if err := cmp.Or(w.BeginState(c.version), buffer.Replay(w)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func decode(r io.Reader) (c content, err error) {
	reader, err := export.NewReader(r)
	if err != nil {
		return c, err
	}
	for err == nil {
		var message repo.Message
		if message, err = reader.Next(); err == nil {
			c.messages = append(c.messages, message)
		}
	}
	if _, again := reader.Next(); again != err { //nolint:errorlint // the very same error
		return c, errors.New("Next after an error gave something else")
	}
	if err != io.EOF { //nolint:errorlint // the contract is io.EOF itself
		if _, after := reader.NextValue(); after != err { //nolint:errorlint // as above
			return c, errors.New("NextValue after an error gave something else")
		}
		return c, err
	}
	for err = nil; err == nil; {
		var value repo.StateValue
		if value, err = reader.NextValue(); err == nil {
			c.state = append(c.state, value)
		}
	}
	if _, again := reader.NextValue(); again != err { //nolint:errorlint // as above
		return c, errors.New("NextValue after an error gave something else")
	}
	if err != io.EOF { //nolint:errorlint // as above
		return c, err
	}
	c.session, c.plans, c.history, c.version = reader.Session(), reader.LinkedPlans(), reader.History(), reader.StateVersion()
	return c, nil
}

func mustDecode(t testing.TB, text string) content {
	t.Helper()
	c, err := decode(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\nin %.500s", err, text)
	}
	return c
}

// slowChecksum implements the definition in docs/export.md with the whole document in memory.
func slowChecksum(text string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text[:lastLine(text)])))
}

// lastLine returns where the last line begins.
func lastLine(text string) int {
	return strings.LastIndexByte(strings.TrimSuffix(text, "\n"), '\n') + 1
}

// resign replaces the checksum by that of the present document.
func resign(text string) string {
	return text[:lastLine(text)] + `"checksum":"` + slowChecksum(text) + "\"}\n"
}
