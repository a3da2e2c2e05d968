package export_test

import (
	"bytes"
	"encoding/json"
	"errors"
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
	var out bytes.Buffer
	w, err := export.NewWriter(&out, session, plans)
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range messages {
		if err := w.Write(message); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

type content struct {
	session  repo.Session
	plans    []repo.ID
	messages []repo.Message
}

func decode(r io.Reader) (c content, err error) {
	reader, err := export.NewReader(r)
	if err != nil {
		return c, err
	}
	for {
		message, err := reader.Next()
		if errors.Is(err, io.EOF) {
			_, again := reader.Next()
			if again != io.EOF { //nolint:errorlint // the contract is io.EOF itself
				return c, errors.New("Next after the end gave something else")
			}
			c.session, c.plans = reader.Session(), reader.LinkedPlans()
			return c, nil
		}
		if err != nil {
			_, again := reader.Next()
			if again != err { //nolint:errorlint // the very same error
				return c, errors.New("Next after an error gave something else")
			}
			return c, err
		}
		c.messages = append(c.messages, message)
	}
}

func mustDecode(t testing.TB, text string) content {
	t.Helper()
	c, err := decode(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\nin %.500s", err, text)
	}
	return c
}

// resign replaces the checksum by that of the present document, computed the slow
// way: with encoding/json and a sorted map.
func resign(t testing.TB, text string) string {
	t.Helper()
	i := strings.LastIndex(text, `"checksum"`)
	return text[:i] + `"checksum":"` + slowChecksum(t, text) + "\"}\n"
}
