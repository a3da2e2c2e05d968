package audit

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/seed-df90f812/agentstore/audit/internal/spool"
	"github.com/seed-df90f812/agentstore/repo"
)

const defaultSpoolBytes = 1 << 30

// The errors of a spool, for errors.Is.
var (
	// ErrSpoolFull says that the spool's file has no room for more: it has
	// reached its bound, or the disk has none.
	ErrSpoolFull = spool.ErrFull
	// ErrSpoolInUse says that another process, or another Spool of this one, has
	// the file.
	ErrSpoolInUse = spool.ErrInUse
	// ErrSpoolForeign says that the file is not a spool.
	ErrSpoolForeign = spool.ErrForeign
	// ErrSpoolGone says that the file was deleted, moved or replaced while it was
	// open.
	ErrSpoolGone = spool.ErrGone
	// ErrSpoolDamaged says that the file was changed while it was open. It is left
	// as it is, for the next OpenSpool to recover.
	ErrSpoolDamaged = spool.ErrDamaged
	// ErrSpoolRecord says that an entry is larger than a spool can give back, 16
	// MiB. An entry that the trail takes is not.
	ErrSpoolRecord = spool.ErrTooLarge
)

// Spool stores entries in a local file while the database is unavailable. They
// survive a crash of the process, and of the machine if the disk keeps what was
// flushed. Processes cannot share a spool. OpenSpool opens one, and a Writer uses
// and closes it: it is not safe for concurrent use.
type Spool struct {
	file *spool.File
	// Recovery says what OpenSpool found.
	Recovery SpoolRecovery
}

// SpoolRecovery says what an earlier process left in a spool.
type SpoolRecovery struct {
	// Entries is how many will be recorded. One that is recorded already is not
	// recorded again.
	Entries int64
	// TornBytes is the length of a record at the file's end that is not all
	// there: it was being written when the process or the machine ended, and so was
	// never accepted.
	TornBytes int64
	// Corrupt are the places of damage, in bytes from the file's beginning: each
	// reaches to the next record that is whole.
	Corrupt []int64
	// Saved is the file as it was, under another name, with what is torn and
	// corrupt in it. It is never removed. Empty: nothing was wrong.
	Saved string
}

// OpenSpool opens, or makes, a spool's file. maxBytes bounds it; zero means 1 GiB.
// Every entry whose record is whole is recovered, whatever is wrong around it.
// Where something is wrong the file is kept under another name first, and then
// replaced by one with the whole records, for which the disk needs room; Recovery
// tells. Errors: repo.InvalidError, ErrSpoolInUse, ErrSpoolForeign, ErrSpoolFull,
// and what the file system gives; the file is then as it was.
func OpenSpool(path string, maxBytes int64) (*Spool, error) {
	if maxBytes < 0 {
		return nil, &repo.InvalidError{Field: "maxBytes", Reason: "is negative"}
	}
	if maxBytes == 0 {
		maxBytes = defaultSpoolBytes
	}
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
		encoder.SetEscapeHTML(false) // it would make six bytes of one
		if err := encoder.Encode(exactOf(entry)); err != nil {
			return 0, err
		}
		records[i] = bytes.TrimSuffix(record.Bytes(), []byte("\n"))
	}
	return s.file.Append(records...)
}

// next returns up to limit of the oldest entries and where each of them ends.
func (s *Spool) next(limit int) ([]repo.AuditEntry, []int64, error) {
	records, ends, err := s.file.Next(limit)
	if err != nil {
		return nil, nil, err
	}
	entries := make([]repo.AuditEntry, len(records))
	for i, record := range records {
		var line exactEntry
		if err := json.Unmarshal(record, &line); err != nil {
			return nil, nil, err
		}
		entries[i] = line.entry()
	}
	return entries, ends, nil
}

// Close closes the file, whose entries stay. A Writer does that.
func (s *Spool) Close() error { return s.file.Close() }
