package audit

import (
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/repo"
)

// oldSpool writes a file as the first version of the library did: escaped for
// HTML, and without a bound on a record.
func oldSpool(t *testing.T, path string, entries ...repo.AuditEntry) {
	t.Helper()
	raw := []byte("agentstore audit spool 1\n")
	for _, e := range entries {
		record, err := json.Marshal(exactOf(e))
		if err != nil {
			t.Fatal(err)
		}
		raw = binary.BigEndian.AppendUint32(raw, uint32(len(record)))
		raw = binary.BigEndian.AppendUint32(raw, crc32.Checksum(record, crc32.MakeTable(crc32.Castagnoli)))
		raw = append(raw, record...)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A service is upgraded while its spool holds entries, also one that the version
// that wrote it could not read back.
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
			t.Errorf("entry %d came back as another one", i)
		}
	}
}

// What the version before wrote, this one writes in the same format: a rollback
// with entries in the spool loses none.
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
		var line exactEntry
		if err := json.Unmarshal(record, &line); err != nil {
			t.Fatal(err)
		}
		if got := line.entry(); got.ID != e.ID || string(got.Details) != string(e.Details) || len(record) > mostBefore {
			t.Errorf("entry %d is another one, or has %d bytes", i, len(record))
		}
	}
}
