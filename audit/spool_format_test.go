package audit

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/events"
	"github.com/seed-df90f812/agentstore/repo"
)

// oldSpool writes a file as the first version of the library did: escaped for HTML,
// with records of any size.
func oldSpool(t *testing.T, path string, entries ...repo.AuditEntry) {
	t.Helper()
	records := make([][]byte, len(entries))
	for i, e := range entries {
		var err error
		if records[i], err = json.Marshal(exactOf(e)); err != nil {
			t.Fatal(err)
		}
	}
	writeSpool(t, path, records...)
}

// writeSpool writes a file with these records.
func writeSpool(t *testing.T, path string, records ...[]byte) {
	t.Helper()
	raw := []byte("agentstore audit spool 1\n")
	for _, record := range records {
		raw = binary.BigEndian.AppendUint32(raw, uint32(len(record)))
		raw = binary.BigEndian.AppendUint32(raw, crc32.Checksum(record, crc32.MakeTable(crc32.Castagnoli)))
		raw = append(raw, record...)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// After an upgrade a spool's entries are recovered, including one that the version that
// wrote it could not read back.
func TestSpoolOfVersionBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	entries := []repo.AuditEntry{
		entryOf(`{ "n" : 1.00 }`), entryOf(`{"x":"` + strings.Repeat("<", repo.MaxMetadataBytes-8) + `"}`), entryOf(`{"n":"é & \u00e9"}`),
	}
	oldSpool(t, path, entries...)
	sink, recovery := drained(t, path)
	if recovery.Entries != 3 || recovery.Saved != "" || len(sink.recorded) != 3 {
		t.Fatalf("recovered %+v, %d came back", recovery, len(sink.recorded))
	}
	for i, e := range entries {
		if string(sink.recorded[i].Details) != string(e.Details) || sink.recorded[i].ID != e.ID {
			t.Errorf("entry %d differs", i)
		}
	}
}

// The previous version can read what this one writes, so that a rollback loses no
// entries of a spool.
func TestSpoolForVersionBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	entries := spoolOf(t, path, `{"n":1}`, `{"x":"`+strings.Repeat(`\"`, (repo.MaxMetadataBytes-8)/2)+`"}`, `{"n":"<&>"}`)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const mostBefore = 2*repo.MaxMetadataBytes + 64<<10
	starts := places(raw)
	if len(starts) != len(entries)+1 {
		t.Fatalf("%d records", len(starts)-1)
	}
	for i, e := range entries {
		record := raw[starts[i]+8 : starts[i+1]]
		var line ExactEntry
		if err := json.Unmarshal(record, &line); err != nil {
			t.Fatal(err)
		}
		if got := line.entry(); got.ID != e.ID || string(got.Details) != string(e.Details) || len(record) > mostBefore {
			t.Errorf("entry %d differs, or has too many bytes: %d", i, len(record))
		}
	}
}

// An intact record that is not a valid entry is quarantined, and does not stop those
// after it.
func TestSpoolOfNoEntries(t *testing.T) {
	first, last := entryOf(`{"n":1}`), entryOf(`{"n":2}`)
	var records [][]byte
	for _, e := range []repo.AuditEntry{first, last} {
		record, err := json.Marshal(exactOf(e))
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
	strange := []string{
		`{"id":17}`, `{not even JSON}`, `{}`, `{"type":"auth_failure","details":"{}"}`,
		`{"id":"` + repo.NewID().String() + `","type":"auth_failure","details":{"of":"a later version"}}`,
	}
	for _, record := range strange {
		records = append(records[:len(records)-1], []byte(record), records[len(records)-1])
	}
	path := filepath.Join(t.TempDir(), "spool")
	writeSpool(t, path, records...)
	spool := openSpool(t, path)
	sink := newFake()
	sink.fail = func(_ int, entries []repo.AuditEntry) (error, error) {
		for _, e := range entries {
			if !events.Known(e.Type) { // as every store does
				return &repo.InvalidError{Field: "type", Reason: "is not an event type, or not registered"}, nil
			}
		}
		return nil, nil
	}
	var told []string
	w := newWriter(t, sink, Options{Spool: spool, OnQuarantine: func(e repo.AuditEntry, _ error) { told = append(told, string(e.Details)) }})
	closeWriter(t, w)
	if len(sink.recorded) != 2 || sink.recorded[0].ID != first.ID || sink.recorded[1].ID != last.ID {
		t.Errorf("recorded %+v", sink.recorded)
	}
	if stats := w.Stats(); stats.Quarantined != int64(len(strange)) || len(sink.quarantined) != len(strange) || !slices.Equal(told, strange) {
		t.Errorf("%d in quarantine, OnQuarantine got %q, the stats are %+v", len(sink.quarantined), told, stats)
	}
}
