package repotest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

func exportTests() []test {
	return []test{
		on("RoundTrip", testExportRoundTrip),
		on("Bare", testExportBare),
		on("ManyMessages", testExportManyMessages),
		on("Document", testExportDocument),
		on("ImportedIsAlive", testExportImportedIsAlive),
		on("ImportTaken", testImportTaken),
		on("ImportFaults", testImportFaults),
		on("ImportReaderFails", testImportReaderFails),
		on("ExportMissing", testExportMissing),
		on("ExportWriterFails", testExportWriterFails),
	}
}

func export(t *testing.T, s repo.Sessions, id repo.ID) []byte {
	t.Helper()
	var document bytes.Buffer
	if err := s.Export(t.Context(), id, &document); err != nil {
		t.Fatalf("Export: %v", err)
	}
	return document.Bytes()
}

func importFrom(t *testing.T, s repo.Sessions, r io.Reader) repo.Session {
	t.Helper()
	session, err := s.Import(t.Context(), r, true)
	if err != nil {
		t.Fatalf("Import: %v", err)
	}
	return session
}

func remove(t *testing.T, s repo.Sessions, id repo.ID) {
	t.Helper()
	if _, err := s.Delete(t.Context(), id); err != nil {
		t.Fatalf("Delete: %v", err)
	}
}

// wantRoundTrip exports a session, deletes it, imports it and exports it again.
// Nothing may change.
func wantRoundTrip(t *testing.T, s repo.Sessions, id repo.ID) {
	t.Helper()
	before, messages := get(t, s, id), readAll(t, s, id)
	document := export(t, s, id)
	remove(t, s, id)
	wantSession(t, importFrom(t, s, bytes.NewReader(document)), before)
	wantSession(t, get(t, s, id), before)
	wantMessages(t, wantCount(t, s, id, len(messages)), messages)
	wantCalls(t, s, id, messages)
	if again := export(t, s, id); !bytes.Equal(again, document) {
		t.Errorf("exported again it is another document: %s, was %s", brief(again), brief(document))
	}
}

// used creates a session with a value in every field, and messages.
func used(t *testing.T, s repo.Sessions) repo.ID {
	t.Helper()
	given := fullSession(s)
	given.Metadata = json.RawMessage(" {\"b\" : 1.0 , \"a\":12345678901234567890.123e400 }\n")
	createAs(t, s, given)
	odd := fullMessage()
	odd.Metadata = json.RawMessage("\t{ \"escaped\":\"\\u00e9\\/\" } ")
	empty := user("empty payload")
	empty.Payload = []byte{}
	early := user("year 1")
	early.OccurredAt = time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC)
	appendTo(t, s, given.ID, odd, empty, early, user("bare"))
	for _, text := range texts() {
		appendTo(t, s, given.ID, repo.NewMessage{Role: repo.RoleTool, Content: text})
	}
	_, err := s.AddUsage(t.Context(), given.ID, repo.NewUsage{InputTokens: 1, OutputTokens: 2, Cost: 3})
	if err != nil {
		t.Fatal(err)
	}
	return given.ID
}

func testExportRoundTrip(t *testing.T, s repo.Sessions) { wantRoundTrip(t, s, used(t, s)) }

func testExportBare(t *testing.T, s repo.Sessions) {
	wantRoundTrip(t, s, create(t, s))
	wantRoundTrip(t, s, createAs(t, s, repo.NewSession{Budget: ptr(repo.Cost(0))}).ID)
}

func testExportManyMessages(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(600)...)
	wantRoundTrip(t, s, id)
}

func testExportAmount(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(2500)...)
	long := user(strings.Repeat("😀", 1<<18))
	long.Payload = make([]byte, 1<<20)
	appendTo(t, s, id, long, user("x"), long, long, long)
	wantRoundTrip(t, s, id)
}

// The document is JSON with the members that docs/export.md lists.
func testExportDocument(t *testing.T, s repo.Sessions) {
	id := used(t, s)
	raw := export(t, s, id)
	var document struct {
		Version  int `json:"schema_version"`
		Session  struct{ ID, Namespace, Actor string }
		Messages []struct {
			Sequence int
			Content  string
		}
		Checksum string
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatalf("the document is no JSON: %v", err)
	}
	session := get(t, s, id)
	if document.Version != 1 || document.Session.ID != id.String() || document.Session.Actor != session.Actor ||
		document.Session.Namespace != session.Namespace || len(document.Messages) != int(session.MessageCount) ||
		document.Messages[0].Content != secret || document.Messages[2].Sequence != 2 ||
		!strings.HasPrefix(document.Checksum, "sha256:") {
		t.Errorf("the document is %s", brief(raw))
	}
	// A copy that was formatted is not imported.
	var formatted bytes.Buffer
	if err := json.Indent(&formatted, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	remove(t, s, id)
	_, err := s.Import(t.Context(), &formatted, true)
	wantImportError(t, err)
}

// An imported session continues where it was.
func testExportImportedIsAlive(t *testing.T, s repo.Sessions) {
	created := createAs(t, s, repo.NewSession{Namespace: spaceOf(s), Budget: ptr(repo.Cost(10))})
	id := created.ID
	message := fullMessage()
	stored := appendTo(t, s, id, message, user("x"))
	if _, err := s.AddUsage(t.Context(), id, repo.NewUsage{Cost: 10}); err != nil {
		t.Fatal(err)
	}
	document := export(t, s, id)
	remove(t, s, id)
	importFrom(t, s, iotest.OneByteReader(bytes.NewReader(document)))

	wantMessages(t, appendTo(t, s, id, message), stored[:1])
	_, err := appendAt(t.Context(), s, id, 1, user("y"))
	wantSequenceConflict(t, err, repo.SequenceConflictError{Kind: "session", ID: id, Expected: 1, Next: 2})
	if next := appendTo(t, s, id, user("y")); next[0].Sequence != 2 {
		t.Errorf("the next message has the sequence %d, want 2", next[0].Sequence)
	}
	wantCount(t, s, id, 3)
	_, err = s.AddUsage(t.Context(), id, repo.NewUsage{Cost: 1})
	wantBudgetExceeded(t, err, repo.LimitExceededError{Kind: "budget", ID: id, Limit: 10, Current: 10, Requested: 1})
	wantList(t, walk(t, s, repo.SessionFilter{AnyOwner: true, Namespace: created.Namespace}, 10), []repo.Session{get(t, s, id)})
}

func testImportTaken(t *testing.T, s repo.Sessions) {
	id := used(t, s)
	document := export(t, s, id)
	appendTo(t, s, id, user("later"))
	before := get(t, s, id)
	for range 2 {
		_, err := s.Import(t.Context(), bytes.NewReader(document), true)
		wantImportError(t, err)
		wantSessionConflict(t, err, repo.ExistsError{Kind: "session", ID: id})
	}
	wantSession(t, get(t, s, id), before)
	wantCount(t, s, id, int(before.MessageCount))
}

func testImportFaults(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, fullMessage(), user("second"), user("third"))
	document := strings.TrimRight(string(export(t, s, id)), "\n")
	remove(t, s, id)

	replace := func(old, with string) string {
		if !strings.Contains(document, old) {
			t.Fatalf("the document has no %s", old)
		}
		return strings.Replace(document, old, with, 1)
	}
	checksum := document[strings.LastIndex(document, "sha256:"):]
	for name, faulty := range map[string]string{
		"empty":                 "",
		"no JSON":               secret,
		"an array":              "[]",
		"an empty object":       "{}",
		"a byte flipped":        replace("second", "sedond"),
		"a bit of the metadata": replace(`{"a":1,`, `{"a":3,`),
		"a sequence gone":       replace(`"sequence":1`, `"sequence":2`),
		"a sequence negative":   replace(`"sequence":0`, `"sequence":-1`),
		"unknown role":          replace(`"role":"user"`, `"role":"`+secret+`"`),
		"unknown member":        replace(`"role":"user"`, `"`+secret+`":1,"role":"user"`),
		"a NUL":                 replace("second", `\u0000`),
		"no content":            replace("second", ""),
		"not UTF-8":             replace("second", "\xff"),
		"another version":       replace(`"schema_version":1`, `"schema_version":2`),
		"version as text":       replace(`"schema_version":1`, `"schema_version":"1"`),
		"wrong checksum":        replace(checksum[:10], "sha256:"+flipped(checksum[7:10])),
		"no checksum":           replace(checksum[:7], ""),
		"something behind":      document + "{}",
		"twice":                 document + document,
		"another session":       replace(id.String(), repo.NewID().String()),
		"no session":            replace(`"session"`, `"sessions"`),
		"cut at half":           document[:len(document)/2],
		"cut in the head":       document[:10],
		"cut before the end":    document[:len(document)-1],
		"cut in the checksum":   document[:len(document)-10],
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Import(t.Context(), strings.NewReader(faulty), true)
			wantImportError(t, err)
			_, err = s.Get(t.Context(), id)
			wantNotFound(t, err, "session", id)
		})
	}
	// The failed import does not take the id.
	importFrom(t, s, strings.NewReader(document))
	wantCount(t, s, id, 3)
}

// flipped returns a different hexadecimal text.
func flipped(text string) string {
	if text[0] == '0' {
		return "1" + text[1:]
	}
	return "0" + text[1:]
}

var errBroken = errors.New("broken on purpose")

func testImportReaderFails(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(1500)...)
	document := export(t, s, id)
	remove(t, s, id)
	for _, length := range []int{0, 10, len(document) / 2, len(document) - 1} {
		_, err := s.Import(t.Context(), io.MultiReader(bytes.NewReader(document[:length]), iotest.ErrReader(errBroken)), true)
		wantImportError(t, err)
		if !errors.Is(err, errBroken) {
			t.Errorf("got %v, want the reader's error in it", err)
		}
		_, err = s.Get(t.Context(), id)
		wantNotFound(t, err, "session", id)
	}
}

func testExportMissing(t *testing.T, s repo.Sessions) {
	id := repo.NewID()
	var got bytes.Buffer
	wantNotFound(t, s.Export(t.Context(), id, &got), "session", id)
	_, err := s.Import(t.Context(), &got, true)
	wantImportError(t, err)
}

// A writer's error is returned, and what was written cannot be imported.
func testExportWriterFails(t *testing.T, s repo.Sessions) {
	id := create(t, s)
	appendTo(t, s, id, users(1500)...)
	size := len(export(t, s, id))
	for _, room := range []int{0, 100, size / 2, size - 1} {
		w := &narrow{room: room}
		if err := s.Export(t.Context(), id, w); !errors.Is(err, errBroken) {
			t.Errorf("Export with room for %d bytes gave %v, want the writer's error", room, err)
		}
		_, err := s.Import(t.Context(), bytes.NewReader(w.got), true)
		wantImportError(t, err)
	}
	wantCount(t, s, id, 1500)
}

// narrow is a writer that fails after a number of bytes.
type narrow struct {
	room int
	got  []byte
}

func (n *narrow) Write(p []byte) (int, error) {
	fitting := min(len(p), n.room-len(n.got))
	n.got = append(n.got, p[:fitting]...)
	if fitting < len(p) {
		return fitting, errBroken
	}
	return fitting, nil
}
