package export_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/export"
	"github.com/seed-df90f812/agentstore/repo"
)

func TestWriterRefusesWrongMessages(t *testing.T) {
	other := messageAt(0)
	other.SessionID = testID(9)
	for name, messages := range map[string][]repo.Message{
		"missing at the end": {messageAt(0)},
		"none":               {},
		"a gap":              {messageAt(1)},
		"twice":              {messageAt(0), messageAt(0)},
		"too many":           {messageAt(0), messageAt(1), messageAt(2)},
		"of another session": {other},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			w, err := export.NewWriter(&out, smallSession(2), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, message := range messages {
				err = w.Write(message)
			}
			closing := w.Close()
			if !errors.Is(closing, export.ErrIncomplete) {
				t.Errorf("Close gave %v", closing)
			}
			if err != nil && !errors.Is(closing, err) {
				t.Errorf("Close gave %v, Write %v", closing, err)
			}
			if _, err := decode(&out); !errors.Is(err, repo.ErrImport) {
				t.Errorf("what was written is read with %v", err)
			}
		})
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWriterPassesErrorsOn(t *testing.T) {
	broken := errors.New("disk full")
	w, err := export.NewWriter(brokenWriter{broken}, smallSession(2), nil)
	if err != nil {
		t.Fatal(err)
	}
	long := messageAt(0)
	long.Content = strings.Repeat("x", 100_000)
	if err := w.Write(long); !errors.Is(err, broken) {
		t.Errorf("Write gave %v", err)
	}
	if err := w.Write(messageAt(1)); !errors.Is(err, broken) {
		t.Errorf("the next Write gave %v", err)
	}
	if err := w.Close(); !errors.Is(err, broken) {
		t.Errorf("Close gave %v", err)
	}

	w, err = export.NewWriter(brokenWriter{broken}, smallSession(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); !errors.Is(err, broken) {
		t.Errorf("Close gave %v", err)
	}
}

func TestWriterAfterClose(t *testing.T) {
	var out bytes.Buffer
	w, err := export.NewWriter(&out, smallSession(0), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	length := out.Len()
	if w.Close() == nil || w.Write(messageAt(0)) == nil || out.Len() != length {
		t.Error("a complete document was written to again")
	}
}

func TestWriterRefusesWhatNoDocumentHolds(t *testing.T) {
	session := smallSession(1)
	session.CreatedAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := export.NewWriter(&bytes.Buffer{}, session, nil); err == nil {
		t.Error("a year of five digits was written")
	}
	session = smallSession(1)
	session.Metadata = json.RawMessage(`{"secret`)
	if _, err := export.NewWriter(&bytes.Buffer{}, session, nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("broken metadata gave %v", err)
	}
	if _, err := export.NewWriter(&bytes.Buffer{}, smallSession(1), make([]repo.ID, 100_001)); err == nil {
		t.Error("too many plans were written")
	}
	for _, spoil := range []func(*repo.Message){
		func(m *repo.Message) { m.CreatedAt = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) },
		func(m *repo.Message) { m.OccurredAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) },
		func(m *repo.Message) { m.Metadata = json.RawMessage(`{"secret`) },
	} {
		w, err := export.NewWriter(&bytes.Buffer{}, smallSession(1), nil)
		if err != nil {
			t.Fatal(err)
		}
		message := messageAt(0)
		spoil(&message)
		if err := w.Write(message); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("Write gave %v", err)
		}
	}
}

// Metadata that a store treats as missing is written as an object.
func TestWriterGivesMetadataItsForm(t *testing.T) {
	session, message := smallSession(1), messageAt(0)
	session.Metadata, message.Metadata = nil, json.RawMessage{}
	got := mustDecode(t, encode(t, session, nil, message))
	if string(got.session.Metadata) != "{}" || string(got.messages[0].Metadata) != "{}" {
		t.Errorf("metadata is %q and %q", got.session.Metadata, got.messages[0].Metadata)
	}
}
