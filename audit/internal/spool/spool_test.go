package spool

import (
	"errors"
	"path/filepath"
	"testing"
)

// The spool takes only what recovery can find again: a JSON object without a byte
// below a space.
func TestRecordsOnOneLine(t *testing.T) {
	f, err := Open(filepath.Join(t.TempDir(), "spool"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, record := range []string{"", "{", "[]", "{}\n", "{\"a\":\n1}", "{\"a\":\"\x00\"}", "{\"a\":\t1}"} {
		if n, err := f.Append([]byte("{}"), []byte(record)); n != 1 || err == nil {
			t.Errorf("%q: %d were taken, %v", record, n, err)
		}
	}
	if n, err := f.Append([]byte(`{"a":"é"}`)); n != 1 || err != nil {
		t.Errorf("%d were taken, %v", n, err)
	}
	if f.Records() != 8 {
		t.Errorf("%d records", f.Records())
	}
}

// The bound applies to all records, including those of one call.
func TestBoundOfABatch(t *testing.T) {
	const most = 3
	record := []byte(`{"a":1}`)
	f, err := Open(filepath.Join(t.TempDir(), "spool"), headerBytes+most*(recordHeader+int64(len(record))))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if n, err := f.Append(record, record, record, record, record); n != most || !errors.Is(err, ErrFull) {
		t.Errorf("%d were taken, %v", n, err)
	}
	if n, err := f.Append(record); n != 0 || !errors.Is(err, ErrFull) {
		t.Errorf("%d more were taken, %v", n, err)
	}
}
