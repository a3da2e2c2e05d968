package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
)

// viewBytes is how much of a file is read at once.
const viewBytes = 256 << 10

// view reads a file up to a place, mostly forwards.
type view struct {
	file *os.File
	end  int64
	at   int64
	have []byte
}

// bytes returns size bytes from a place on, until the next call. It returns nil
// where the file does not have them.
func (v *view) bytes(at, size int64) ([]byte, error) {
	if at+size > v.end {
		return nil, nil
	}
	if at < v.at || at+size > v.at+int64(len(v.have)) {
		length := min(max(size, viewBytes), v.end-at)
		if int64(cap(v.have)) < length {
			v.have = make([]byte, length)
		}
		n, err := v.file.ReadAt(v.have[:length], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		v.at, v.have = at, v.have[:n]
		if int64(n) < size {
			return nil, nil
		}
	}
	return v.have[at-v.at : at-v.at+size], nil
}

// rest returns what was read already from a place on, or reads some.
func (v *view) rest(at int64) ([]byte, error) {
	if one, err := v.bytes(at, 1); one == nil {
		return nil, err
	}
	return v.have[at-v.at:], nil
}

// record returns the record that begins at a place, until the next call, or nil.
func (v *view) record(at int64) ([]byte, error) {
	head, err := v.bytes(at, recordHeader+1)
	if head == nil {
		return nil, err
	}
	size, sum := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
	if size < 2 || size > MaxRecord || head[recordHeader] != '{' {
		return nil, nil
	}
	record, err := v.bytes(at+recordHeader, int64(size))
	if record == nil || record[size-1] != '}' || crc32.Checksum(record, castagnoli) != sum {
		return nil, err
	}
	return record, nil
}

// resync finds the first whole record from a place on. There is none: the end.
func (v *view) resync(at int64) (int64, error) {
	for at < v.end {
		part, err := v.rest(at)
		if err != nil {
			return 0, err
		}
		if len(part) == 0 {
			break // the file is shorter than it was
		}
		zero := bytes.IndexByte(part, 0)
		if zero < 0 {
			at += int64(len(part))
			continue
		}
		at += int64(zero)
		record, err := v.record(at)
		if err != nil || record != nil {
			return at, err
		}
		at++
	}
	return v.end, nil
}

// torn reports whether what stands between a place and the end is the begin of a
// record, or of none: zeros, as a file system leaves them.
func (v *view) torn(at int64) (bool, error) {
	head, err := v.bytes(at, min(recordHeader, v.end-at))
	if err != nil {
		return false, err
	}
	if len(head) < recordHeader {
		return true, nil
	}
	size := int64(binary.BigEndian.Uint32(head))
	if size > 0 {
		return size <= MaxRecord && at+recordHeader+size > v.end, nil
	}
	for at < v.end {
		part, err := v.rest(at)
		if err != nil || len(bytes.Trim(part, "\x00")) > 0 || len(part) == 0 {
			return false, err
		}
		at += int64(len(part))
	}
	return true, nil
}
