package audit

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// A spool's file begins with a line, and then has records: four bytes of length,
// four of CRC-32C (Castagnoli), both big-endian, and an entry as JSON. A record is
// only ever appended; the file is emptied when all of them are in the trail.
const (
	spoolHeader  = "agentstore audit spool 1\n"
	recordHeader = 8
	// maxRecord bounds a record: an entry's details at their largest, and the
	// rest of it.
	maxRecord = 2*repo.MaxMetadataBytes + 64<<10

	defaultSpoolBytes = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrSpoolFull says that the spool's file has no room for more.
var ErrSpoolFull = errors.New("audit: spool is full")

// Spool keeps entries in a local file while the database is away: across a crash
// of the process, and, as far as the disk keeps its word, of the machine. Several
// processes cannot share one. OpenSpool makes it, and a Writer uses and closes
// it: it is not safe for concurrent use.
type Spool struct {
	file     *os.File
	maxBytes int64
	size     int64 // of what is whole
	read     int64 // up to where entries are in the trail
	entries  int64 // between read and size
	// Recovery says what OpenSpool found.
	Recovery SpoolRecovery
}

// SpoolRecovery says what an earlier process left in a spool.
type SpoolRecovery struct {
	// Entries will be recorded. Those that were already are known by their ids.
	Entries int64
	// TornBytes were dropped: a record that was being written when the process
	// ended, and so was never accepted.
	TornBytes int64
	// Corrupt are the places of records that do not have their checksum, in
	// bytes from the file's begin, and Saved the copy of the file that was made
	// because of them.
	Corrupt []int64
	Saved   string
}

// OpenSpool opens, or makes, a spool's file. maxBytes bounds it; zero means 1 GiB.
// A torn last record is dropped, and a corrupt one left out; Recovery tells.
// Errors: what the file system gives, and a file that is no spool, or another
// process's.
func OpenSpool(path string, maxBytes int64) (*Spool, error) {
	if maxBytes < 0 {
		return nil, &repo.InvalidError{Field: "maxBytes", Reason: "is negative"}
	}
	if maxBytes == 0 {
		maxBytes = defaultSpoolBytes
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the caller says where
	if err != nil {
		return nil, fmt.Errorf("audit: spool: %w", err)
	}
	s := &Spool{file: file, maxBytes: maxBytes}
	if err := s.open(path); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("audit: spool: %w", err)
	}
	return s, nil
}

func (s *Spool) open(path string) error {
	if err := lockFile(s.file); err != nil {
		return err
	}
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	header := make([]byte, min(int64(len(spoolHeader)), info.Size()))
	if _, err := io.ReadFull(s.file, header); err != nil {
		return err
	}
	if string(header) != spoolHeader[:len(header)] {
		return errors.New("the file is no spool")
	}
	if len(header) < len(spoolHeader) { // new, or torn at its begin
		return s.empty()
	}
	s.read = int64(len(spoolHeader))
	if err := s.scan(info.Size()); err != nil {
		return err
	}
	if len(s.Recovery.Corrupt) > 0 {
		s.Recovery.Saved = path + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000000")
		if err := s.save(s.Recovery.Saved); err != nil {
			return err
		}
	}
	s.Recovery.Entries = s.entries
	return s.file.Truncate(s.size)
}

// scan counts the records up to the file's end.
func (s *Spool) scan(end int64) error {
	reader := bufio.NewReader(io.NewSectionReader(s.file, s.read, end-s.read))
	s.size = s.read
	for s.size < end {
		payload, length, err := readRecord(reader)
		switch {
		case errors.Is(err, errTorn):
			s.Recovery.TornBytes = end - s.size
			return nil
		case errors.Is(err, errCorrupt) && s.size+length == end:
			// The last one: written in part, its length first.
			s.Recovery.TornBytes = length
			return nil
		case errors.Is(err, errCorrupt):
			s.Recovery.Corrupt = append(s.Recovery.Corrupt, s.size)
		case err != nil:
			return err
		case payload != nil:
			s.entries++
		}
		s.size += length
	}
	return nil
}

var (
	errTorn    = errors.New("torn record")
	errCorrupt = errors.New("corrupt record")
)

// readRecord reads one record and returns how long it is in the file.
func readRecord(r io.Reader) (payload []byte, length int64, err error) {
	var header [recordHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, 0, errTorn
	}
	size := binary.BigEndian.Uint32(header[:4])
	if size == 0 || size > maxRecord {
		return nil, 0, errTorn // nothing behind it can be found
	}
	payload = make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return nil, 0, errTorn
	}
	length = recordHeader + int64(size)
	if crc32.Checksum(payload, castagnoli) != binary.BigEndian.Uint32(header[4:]) {
		return nil, length, errCorrupt
	}
	return payload, length, nil
}

func (s *Spool) save(path string) error {
	saved, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	if _, err := io.Copy(saved, io.NewSectionReader(s.file, 0, info.Size())); err != nil {
		_ = saved.Close()
		return err
	}
	if err := saved.Sync(); err != nil {
		_ = saved.Close()
		return err
	}
	return saved.Close()
}

// append adds entries, and returns when they are on the disk. All are added, or
// none. Errors: ErrSpoolFull, and the file system's.
func (s *Spool) append(entries []repo.AuditEntry) error {
	var records []byte
	for _, entry := range entries {
		payload, err := json.Marshal(exactOf(entry))
		if err != nil {
			return err
		}
		records = binary.BigEndian.AppendUint32(records, uint32(len(payload)))
		records = binary.BigEndian.AppendUint32(records, crc32.Checksum(payload, castagnoli))
		records = append(records, payload...)
	}
	if s.size+int64(len(records)) > s.maxBytes {
		return ErrSpoolFull
	}
	_, err := s.file.WriteAt(records, s.size)
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		// What got to the disk is behind the end, where the next one goes.
		_ = s.file.Truncate(s.size)
		return err
	}
	s.size += int64(len(records))
	s.entries += int64(len(entries))
	return nil
}

// next returns up to limit of the oldest entries and where they end. Corrupt
// records were told of when the spool was opened.
func (s *Spool) next(limit int) ([]repo.AuditEntry, int64, error) {
	reader := bufio.NewReader(io.NewSectionReader(s.file, s.read, s.size-s.read))
	var entries []repo.AuditEntry
	end := s.read
	for len(entries) < limit && end < s.size {
		payload, length, err := readRecord(reader)
		end += length
		if errors.Is(err, errCorrupt) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		var line exactEntry
		if err := json.Unmarshal(payload, &line); err != nil {
			return nil, 0, err
		}
		entries = append(entries, line.entry())
	}
	return entries, end, nil
}

// done notes that count entries, up to a place, are in the trail.
func (s *Spool) done(count int, end int64) error {
	s.read = end
	s.entries -= int64(count)
	if s.read < s.size {
		return nil
	}
	return s.empty()
}

func (s *Spool) empty() error {
	if err := s.file.Truncate(0); err != nil {
		return err
	}
	if _, err := s.file.WriteAt([]byte(spoolHeader), 0); err != nil {
		return err
	}
	s.size, s.read, s.entries = int64(len(spoolHeader)), int64(len(spoolHeader)), 0
	return s.file.Sync()
}

// Close closes the file. A Writer does that.
func (s *Spool) Close() error { return s.file.Close() }
