// Package spool keeps records, which are JSON objects, in a local file until they
// are somewhere else. What Append has taken is on the disk, and stays there until
// Done: no damage to one record loses another, and nothing is removed from a
// damaged file before it was kept under another name.
package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// A file begins with a line, and then has records: four bytes of length, four of
// CRC-32C (Castagnoli), both big-endian, and the record. Records are only ever
// appended; the file is emptied when all of them are done.
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
	// nextBytes bounds what Next returns at once, but for one record.
	nextBytes = 32 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The errors, for errors.Is.
var (
	// ErrFull: the file has reached its bound, or the disk has no room.
	ErrFull = errors.New("spool is full")
	// ErrTooLarge: a record could not be read back.
	ErrTooLarge = errors.New("record is too large for a spool")
	// ErrInUse: another process, or another File of this one, has the file.
	ErrInUse = errors.New("spool is in use by another process")
	// ErrForeign: the file is something else.
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

	size    int64 // where the next record goes
	read    int64 // where the first record that is not done begins
	records int64 // between read and size

	recovery Recovery
}

// Recovery says what Open found.
type Recovery struct {
	// Entries is the number of whole records.
	Entries int64
	// TornBytes is the length of a record at the end that was not written
	// completely.
	TornBytes int64
	// Corrupt are the places of damage, in bytes from the begin of the file.
	Corrupt []int64
	// Saved is the name of the file as it was. Empty: nothing was wrong.
	Saved string
}

// Open opens, or makes, the file. maxBytes bounds what it grows to. A file that is
// damaged or torn is kept under another name first (Recovery.Saved), and then
// replaced by one with the records that are whole, for which there must be room.
// Errors: ErrInUse, ErrForeign, ErrFull, and the file system's; the file is then
// as it was.
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
		// Who recovers a file replaces it: the lock must be that of the file that
		// has the name now.
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

// named is ErrGone unless the open file has its name still.
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

// Gone reports whether what is in the file will be lost when it is closed.
func (f *File) Gone() bool { return errors.Is(f.named(), ErrGone) }

// Recovery says what Open found.
func (f *File) Recovery() Recovery { return f.recovery }

// Records is the number of records that are not done.
func (f *File) Records() int64 { return f.records }

// Append adds records, oldest first, and returns when they are on the disk. It
// returns how many were taken, and if that is not all of them, why. Errors:
// ErrFull, ErrTooLarge (of the first that was not taken), ErrGone, ErrDamaged and
// the file system's.
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

// isRecord checks what resync relies on.
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

// write puts bytes behind what is there, and on the disk, or leaves nothing.
func (f *File) write(raw []byte) error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < f.size {
		return ErrDamaged // what was there is not: a hole would hide it
	}
	if _, err = f.file.WriteAt(raw, f.size); err == nil {
		err = f.file.Sync()
	}
	if err == nil {
		err = f.named() // in a file without a name nothing is kept
	}
	if err != nil {
		// What got to the disk is behind the end, where the next one goes.
		_ = f.file.Truncate(f.size)
	}
	return err
}

// Next returns up to limit of the oldest records that are not done, and where each
// of them ends. Errors: ErrDamaged, where the file was changed; the rest of it is
// for the next Open to recover.
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

// Done says that the oldest count records, which end at a place that Next gave,
// are not needed any more. When no others are left the file is emptied.
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

// Close closes the file, whose records stay.
func (f *File) Close() error { return f.file.Close() }

// full says of an error that there is no room, where that is so.
func full(err error) error {
	if isDiskFull(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
