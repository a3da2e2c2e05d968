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

// view reads a file up to a position, mostly forwards.
type view struct {
	file *os.File
	end  int64
	at   int64
	have []byte
}

// bytes returns size bytes at a position, valid until the next call, or nil if the
// file ends before.
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

// rest returns the bytes from a position on that are in memory, or reads some.
func (v *view) rest(at int64) ([]byte, error) {
	if one, err := v.bytes(at, 1); one == nil {
		return nil, err
	}
	return v.have[at-v.at:], nil
}

// record returns the record that begins at a position, valid until the next call,
// or nil.
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

// resync returns the position of the first whole record from at on, or the end if
// there is none.
func (v *view) resync(at int64) (int64, error) {
	for at < v.end {
		part, err := v.rest(at)
		if err != nil {
			return 0, err
		}
		if len(part) == 0 {
			break // the file has become shorter
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

// torn reports whether the bytes from a position to the end are the beginning of a
// record, or zeros that a file system left.
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
