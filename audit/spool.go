package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/seed-df90f812/agentstore/audit/internal/spool"
	"github.com/seed-df90f812/agentstore/repo"
)

const defaultSpoolBytes = 1 << 30

// The errors of a spool, for errors.Is.
var (
	// ErrSpoolFull means that the spool has no room: its file has reached its
	// bound, or the disk is full.
	ErrSpoolFull = spool.ErrFull
	// ErrSpoolInUse means that another process, or another Spool of this process,
	// uses the file.
	ErrSpoolInUse = spool.ErrInUse
	// ErrSpoolForeign means that the file is not a spool.
	ErrSpoolForeign = spool.ErrForeign
	// ErrSpoolGone means that the file was deleted, moved or replaced while it was
	// open.
	ErrSpoolGone = spool.ErrGone
	// ErrSpoolDamaged means that the file was changed while it was open. It is left
	// unchanged, and the next OpenSpool recovers it.
	ErrSpoolDamaged = spool.ErrDamaged
	// ErrSpoolRecord means that an entry is larger than 16 MiB, the maximum that a
	// spool can read back. The trail accepts no entry of that size.
	ErrSpoolRecord = spool.ErrTooLarge
)

// Spool stores entries in a local file while the database is unavailable. They
// survive a crash of the process, and of the machine if the disk keeps what was
// flushed. Processes cannot share a spool. OpenSpool opens one, and a Writer uses
// and closes it: it is not safe for concurrent use.
type Spool struct {
	file *spool.File
	// Recovery is the result of OpenSpool.
	Recovery SpoolRecovery
}

// SpoolRecovery describes what an earlier process left in a spool.
type SpoolRecovery struct {
	// Entries is the number of recovered entries, which will be recorded.
	// Entries that are recorded already stay as they are.
	Entries int64
	// TornBytes is the length of an incomplete record at the file's end. It was
	// being written when the process or the machine ended, and was never accepted.
	TornBytes int64
	// Corrupt are the offsets of damaged parts. Each part extends to the next intact
	// record.
	Corrupt []int64
	// Saved is the name of a copy of the file with its torn and corrupt parts. It is
	// never removed. Empty: the file was intact.
	Saved string
}

// OpenSpool opens or creates a spool's file. maxBytes bounds it; zero means 1 GiB.
// Every entry whose record is intact is recovered, whatever the damage around it. A
// damaged file is first kept under another name, and then replaced by one with the
// intact records, for which the disk needs room; Recovery reports this. Errors:
// repo.InvalidError, ErrSpoolInUse, ErrSpoolForeign, ErrSpoolFull, and errors of
// the file system; the file is then unchanged.
func OpenSpool(path string, maxBytes int64) (*Spool, error) {
	if maxBytes < 0 {
		return nil, &repo.InvalidError{Field: "maxBytes", Reason: "is negative"}
	}
	maxBytes = cmp.Or(maxBytes, defaultSpoolBytes)
	file, err := spool.Open(path, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("audit: open spool: %w", err)
	}
	return &Spool{file: file, Recovery: SpoolRecovery(file.Recovery())}, nil
}

// append adds entries, and returns how many are on the disk, and if that is not
// all of them, why.
func (s *Spool) append(entries []repo.AuditEntry) (int, error) {
	records := make([][]byte, len(entries))
	for i, entry := range entries {
		var record bytes.Buffer
		encoder := json.NewEncoder(&record)
		encoder.SetEscapeHTML(false) // escaping turns one byte into six
		if err := encoder.Encode(exactOf(entry)); err != nil {
			return 0, err
		}
		records[i] = bytes.TrimSuffix(record.Bytes(), []byte("\n"))
	}
	return s.file.Append(records...)
}

// next returns up to limit of the oldest entries and the offsets of their ends. An
// intact record that is not an entry (for example, one of another version) becomes an
// entry without a type, which the trail refuses and the writer quarantines, with the
// record as its details. Its id is derived from the record, so that two such records
// have different ids.
func (s *Spool) next(limit int) ([]repo.AuditEntry, []int64, error) {
	records, ends, err := s.file.Next(limit)
	if err != nil {
		return nil, nil, err
	}
	entries := make([]repo.AuditEntry, len(records))
	for i, record := range records {
		var line ExactEntry
		if err := json.Unmarshal(record, &line); err != nil || line.ID.IsZero() {
			sum := sha256.Sum256(record)
			entries[i] = repo.AuditEntry{ID: repo.ID(sum[:16]), Details: record}
			continue
		}
		entries[i] = line.entry()
	}
	return entries, ends, nil
}

// Close closes the file, and keeps its entries. A Writer closes its spool.
func (s *Spool) Close() error { return s.file.Close() }
