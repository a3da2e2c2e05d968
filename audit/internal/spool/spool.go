// Package spool keeps records, which are JSON objects, in a local file until they
// are stored elsewhere. A record that Append has taken is on the disk until Done:
// damage to one record loses no other, and a damaged file is kept under another
// name before anything is removed from it.
package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// A file is a header line followed by records: four bytes of length, four of CRC-32C
// (Castagnoli), both big-endian, and the record. Records are only appended; the file
// is emptied when all of them are done.
//
// A record is JSON without line breaks, so it has no byte below a space; and a
// length below 16 MiB begins with a zero byte. So a zero byte marks where a record
// may begin: see resync.
const (
	header       = "agentstore audit spool 1\n"
	headerBytes  = int64(len(header))
	recordHeader = 8
	// MaxRecord is the length of the largest record, in bytes.
	MaxRecord = 1<<24 - 1
	// nextBytes bounds what Next returns at once, unless a single record is larger.
	nextBytes = 32 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The errors, for errors.Is.
var (
	// ErrFull: the file has reached its maximum size, or the disk is full.
	ErrFull = errors.New("spool is full")
	// ErrTooLarge: a record could not be read back.
	ErrTooLarge = errors.New("record is too large for a spool")
	// ErrInUse: another process, or another File of this process, has the file
	// open.
	ErrInUse = errors.New("spool is in use by another process")
	// ErrForeign: the file is not a spool.
	ErrForeign = errors.New("file is not a spool")
	// ErrGone: the file was deleted, moved or replaced while it was open.
	ErrGone = errors.New("spool file is gone")
	// ErrDamaged: the file was changed while it was open.
	ErrDamaged = errors.New("spool file is damaged")
)

// File is an open spool. It is not safe for concurrent use.
type File struct {
	path                string
	file                *os.File
	maxBytes, maxRecord int64

	size    int64 // where the next record is written
	read    int64 // where the first record that is not done begins
	records int64 // between read and size

	recovery Recovery
}

// Recovery is what Open found.
type Recovery struct {
	// Entries is the number of whole records.
	Entries int64
	// TornBytes is the length of a record at the end that was not written
	// completely.
	TornBytes int64
	// Corrupt are the offsets of the damaged parts, in bytes.
	Corrupt []int64
	// Saved is the name of the file as it was found. Empty: nothing was wrong.
	Saved string
}

// Open opens or creates the file, which grows to at most maxBytes. A damaged or
// torn file is first kept under another name (Recovery.Saved) and then replaced by
// one with its whole records, for which there must be room. Errors: ErrInUse,
// ErrForeign, ErrFull, and the file system's; the file is then unchanged.
func Open(path string, maxBytes int64) (*File, error) {
	f := &File{maxBytes: maxBytes, maxRecord: MaxRecord}
	if err := f.acquire(path); err != nil {
		return nil, err
	}
	if err := f.recover(); err != nil {
		_ = f.file.Close()
		return nil, full(err)
	}
	return f, nil
}

// acquire opens and locks the file of this name.
func (f *File) acquire(path string) error {
	for range 100 {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return full(err)
		}
		if err := lock(file); err != nil {
			_ = file.Close()
			return err
		}
		// Recovery replaces the file: the lock must be on the file that has the
		// name now.
		f.file = file
		if f.path, err = filepath.EvalSymlinks(path); err == nil {
			if err = f.named(); err == nil {
				return nil
			}
		}
		_ = file.Close()
		if !errors.Is(err, ErrGone) && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return ErrInUse
}

// named returns ErrGone if the open file no longer has its name.
func (f *File) named() error {
	open, err := f.file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(f.path)
	if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(open, there) {
		return ErrGone
	}
	return err
}

// Gone reports whether the records will be lost when the file is closed.
func (f *File) Gone() bool { return errors.Is(f.named(), ErrGone) }

// Recovery reports what Open found.
func (f *File) Recovery() Recovery { return f.recovery }

// Records returns the number of records that are not done.
func (f *File) Records() int64 { return f.records }

// Append adds records, oldest first, and returns when they are on the disk. It
// returns how many were taken, and an error if some were not. Errors: ErrFull,
// ErrTooLarge (of the first that was not taken), ErrGone, ErrDamaged and the file
// system's.
func (f *File) Append(records ...[]byte) (int, error) {
	var raw []byte
	var refused error
	taken := 0
	for _, record := range records {
		if refused = f.check(record, len(raw)); refused != nil {
			break
		}
		raw = binary.BigEndian.AppendUint32(raw, uint32(len(record)))
		raw = binary.BigEndian.AppendUint32(raw, crc32.Checksum(record, castagnoli))
		raw = append(raw, record...)
		taken++
	}
	if taken == 0 {
		return 0, refused
	}
	if err := f.write(raw); err != nil {
		return 0, full(err)
	}
	f.size += int64(len(raw))
	f.records += int64(taken)
	return taken, refused
}

func (f *File) check(record []byte, before int) error {
	switch {
	case int64(len(record)) > f.maxRecord:
		return ErrTooLarge
	case !isRecord(record):
		return errors.New("record is not a JSON object on one line")
	case f.size+int64(before)+recordHeader+int64(len(record)) > f.maxBytes:
		return ErrFull
	}
	return nil
}

// isRecord checks the properties that resync relies on.
func isRecord(record []byte) bool {
	if len(record) < 2 || record[0] != '{' || record[len(record)-1] != '}' {
		return false
	}
	for _, c := range record {
		if c < ' ' {
			return false
		}
	}
	return true
}

// write appends bytes and flushes them to the disk, or leaves the file unchanged.
func (f *File) write(raw []byte) error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < f.size {
		return ErrDamaged // the file was cut, and a hole would hide it
	}
	if _, err = f.file.WriteAt(raw, f.size); err == nil {
		err = f.file.Sync()
	}
	if err == nil {
		err = f.named() // a file without a name does not survive its process
	}
	if err != nil {
		// Part of the bytes may be on the disk. The next record overwrites them.
		_ = f.file.Truncate(f.size)
	}
	return err
}

// Next returns up to limit of the oldest records that are not done, and where each
// of them ends. Errors: ErrDamaged if the file was changed; the next Open recovers
// the rest.
func (f *File) Next(limit int) (records [][]byte, ends []int64, err error) {
	v := view{file: f.file, end: f.size}
	for at := f.read; at < f.size && len(records) < limit && at-f.read < nextBytes; {
		record, err := v.record(at)
		if err != nil {
			return nil, nil, err
		}
		if record == nil {
			return nil, nil, fmt.Errorf("%w: at byte %d", ErrDamaged, at)
		}
		at += recordHeader + int64(len(record))
		records, ends = append(records, append([]byte(nil), record...)), append(ends, at)
	}
	return records, ends, nil
}

// Done marks the oldest count records as done. end is where Next said that they
// end. When no others are left the file is emptied.
func (f *File) Done(count int, end int64) error {
	f.read = end
	f.records -= int64(count)
	if f.read < f.size {
		return nil
	}
	if err := f.file.Truncate(headerBytes); err != nil {
		return err
	}
	f.size, f.read, f.records = headerBytes, headerBytes, 0
	return f.file.Sync()
}

// Close closes the file and keeps its records.
func (f *File) Close() error { return f.file.Close() }

// full wraps an error in ErrFull if it means that the disk is full.
func full(err error) error {
	if isDiskFull(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
