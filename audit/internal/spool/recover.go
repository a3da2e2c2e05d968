package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// run is a part of the file that contains only whole records.
type run struct{ from, to int64 }

// recover finds the records of a file that was just opened.
func (f *File) recover() error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return ErrForeign
	}
	begin := make([]byte, min(headerBytes, info.Size()))
	if _, err := f.file.ReadAt(begin, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if info.Size() < headerBytes { // new, or torn before its first record
		if string(begin) != header[:len(begin)] {
			return ErrForeign
		}
		return f.begin()
	}
	from := headerBytes
	if string(begin) != header {
		from = 0
	}
	runs, err := f.scan(from, info.Size())
	if err != nil {
		return err
	}
	if from == 0 && f.records == 0 && distance(begin) > 4 {
		return ErrForeign
	}
	f.recovery.Entries, f.read, f.size = f.records, headerBytes, info.Size()
	if f.recovery.TornBytes == 0 && len(f.recovery.Corrupt) == 0 {
		return nil
	}
	return f.replace(runs)
}

// distance returns how many bytes differ from the header.
func distance(begin []byte) (bytes int) {
	for i := range begin {
		if begin[i] != header[i] {
			bytes++
		}
	}
	return bytes
}

// begin makes the file an empty spool.
func (f *File) begin() error {
	if _, err := f.file.WriteAt([]byte(header), 0); err != nil {
		return err
	}
	f.read, f.size = headerBytes, headerBytes
	if err := f.file.Sync(); err != nil {
		return err
	}
	return syncDirectory(f.path)
}

// scan finds the whole records between two positions.
func (f *File) scan(from, end int64) (runs []run, err error) {
	v := view{file: f.file, end: end}
	for at := from; at < end; {
		record, err := v.record(at)
		if err != nil {
			return nil, err
		}
		if record != nil {
			to := at + recordHeader + int64(len(record))
			if last := len(runs) - 1; last >= 0 && runs[last].to == at {
				runs[last].to = to
			} else {
				runs = append(runs, run{at, to})
			}
			f.records++
			at = to
			continue
		}
		next, err := v.resync(at + 1)
		if err != nil {
			return nil, err
		}
		torn := false
		if next == end {
			if torn, err = v.torn(at); err != nil {
				return nil, err
			}
		}
		if torn {
			f.recovery.TornBytes = end - at
		} else {
			f.recovery.Corrupt = append(f.recovery.Corrupt, at)
		}
		at = next
	}
	if from == 0 && len(f.recovery.Corrupt) == 0 {
		f.recovery.Corrupt = []int64{0}
	}
	return runs, nil
}

// replace keeps the file under another name, and replaces it with one that has only
// the runs. The old file is never written to, so a second name for it is as good as
// a copy and takes no space.
func (f *File) replace(runs []run) error {
	saved, err := f.save()
	if err != nil {
		return fmt.Errorf("keep the damaged file: %w", err)
	}
	name := f.path + ".recovering"
	whole, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	size, err := f.copyRuns(whole, runs)
	if err == nil {
		err = lock(whole)
	}
	if err == nil {
		err = os.Rename(name, f.path)
	}
	if err != nil {
		_ = whole.Close()
		_ = os.Remove(name)
		_ = os.Remove(saved) // the file itself is unchanged
		return err
	}
	_ = f.file.Close()
	f.file, f.size, f.recovery.Saved = whole, size, saved
	return syncDirectory(f.path)
}

func (f *File) copyRuns(to *os.File, runs []run) (size int64, err error) {
	if _, err := to.WriteString(header); err != nil {
		return 0, err
	}
	size = headerBytes
	for _, r := range runs {
		n, err := io.Copy(to, io.NewSectionReader(f.file, r.from, r.to-r.from))
		if err != nil {
			return 0, err
		}
		size += n
	}
	return size, to.Sync()
}

// save gives the file a second name, or copies it where the file system has no hard
// links.
func (f *File) save() (string, error) {
	name := f.path + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000000000")
	err := os.Link(f.path, name)
	if err != nil && !errors.Is(err, os.ErrExist) {
		err = f.copyTo(name)
	}
	if err != nil {
		return "", err
	}
	return name, syncDirectory(f.path)
}

func (f *File) copyTo(name string) error {
	saved, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(saved, io.NewSectionReader(f.file, 0, 1<<62)); err == nil {
		err = saved.Sync()
	}
	if closed := saved.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(name)
	}
	return err
}
