package export

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/seed-df90f812/agentstore/internal/ctxio"
	"github.com/seed-df90f812/agentstore/repo"
)

// maxInMemory is how much of a document is buffered in memory. The rest of a longer
// one goes to a temporary file, with what was buffered.
const maxInMemory = 4 << 20

// spool keeps what is written to it. Its errors are repo.ErrUnavailable.
type spool struct {
	memory []byte // until there is a file
	file   *os.File
	out    *bufio.Writer
	// name is the file's name if the file could not be removed while it is open.
	name string
}

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && len(s.memory)+len(p) <= maxInMemory {
		s.memory = append(s.memory, p...)
		return len(p), nil
	}
	if s.file == nil {
		if err := s.spill(); err != nil {
			return 0, &bufferError{err}
		}
	}
	n, err := s.out.Write(p)
	if err != nil {
		return n, &bufferError{err}
	}
	return n, nil
}

// spill moves what was written so far to a file.
func (s *spool) spill() (err error) {
	if s.file, err = os.CreateTemp("", "agentstore-import-"); err != nil {
		return err
	}
	// Most systems allow this at once. On others, Close removes the file.
	if os.Remove(s.file.Name()) != nil {
		s.name = s.file.Name()
	}
	s.out = bufio.NewWriterSize(s.file, sourceSize)
	_, err = s.out.Write(s.memory)
	s.memory = nil
	return err
}

// reader returns a reader of all that was written. Nothing is written after that.
func (s *spool) reader() (io.Reader, error) {
	if s.file == nil {
		return bytes.NewReader(s.memory), nil
	}
	if err := s.out.Flush(); err != nil {
		return nil, &bufferError{err}
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, &bufferError{err}
	}
	return spooled{s.file}, nil
}

// spooled marks the errors of reading the file, as distinct from the
// document's errors.
type spooled struct{ file *os.File }

func (s spooled) Read(p []byte) (int, error) {
	n, err := s.file.Read(p)
	if err != nil && err != io.EOF {
		err = &bufferError{err}
	}
	return n, err
}

// Close removes what was kept.
func (s *spool) Close() {
	if s.file == nil {
		s.memory = nil
		return
	}
	_ = s.file.Close() // nothing depends on what was written
	if s.name != "" {
		_ = os.Remove(s.name)
	}
}

// bufferError means that a document cannot be buffered on this machine, not that
// the document is invalid.
type bufferError struct{ cause error }

func (e *bufferError) Error() string {
	return "the document cannot be buffered in a temporary file: " + e.cause.Error()
}
func (e *bufferError) Is(target error) bool { return target == repo.ErrUnavailable }
func (e *bufferError) Unwrap() error        { return e.cause }

// Buffered is a valid document that was read to its end. It can be read again
// without its source. The caller closes it.
type Buffered struct{ spool }

// Buffer reads a document to its end and checks all of it. Memory is bounded: a
// document longer than a few MiB goes to a temporary file (in os.TempDir) that only
// this user can read. The file is gone after Close, and after a crash too, if the
// system allows an open file to be removed.
//
// Buffer returns when ctx ends, even if r's Read does not return; the goroutine in
// that Read ends when it does. Errors: *repo.ImportError; repo.ErrUnavailable if
// the file cannot be written; the context's.
func Buffer(ctx context.Context, r io.Reader) (*Buffered, error) {
	b := &Buffered{}
	err := b.read(ctxio.NewReader(ctx, r))
	if err == nil {
		return b, nil
	}
	b.Close()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("agentstore: %w", ctx.Err())
	}
	return nil, err
}

func (b *Buffered) read(r io.Reader) error {
	reader, err := NewReader(io.TeeReader(r, &b.spool))
	if err != nil {
		return err
	}
	for err == nil {
		_, err = reader.Next()
	}
	for err = nil; err == nil; { // the error of Next, if that has failed
		_, err = reader.NextValue()
	}
	if err == io.EOF { //nolint:errorlint // itself: see NextValue
		return nil
	}
	return err
}

// Reader reads the document from its beginning. Only one reader may be in use at a
// time, and none after Close. Errors: repo.ErrUnavailable if the file cannot be
// read; *repo.ImportError if it was modified.
func (b *Buffered) Reader() (*Reader, error) {
	r, err := b.reader()
	if err != nil {
		return nil, err
	}
	return NewReader(r)
}

// StateBuffer holds a session's own state while it is exported, so that it is the state
// of one moment, however slowly the document is written. Like Buffer it bounds memory.
// The zero value is empty; the caller closes it.
type StateBuffer struct {
	spool
	lines
}

// Add adds the next key. Error: repo.ErrUnavailable.
func (b *StateBuffer) Add(value repo.StateValue) error {
	if b.lines.out == nil {
		b.lines.out = bufio.NewWriterSize(&b.spool, sourceSize)
	}
	return b.addValue(value)
}

// Replay writes all keys to w, which has begun its state. Errors: w's;
// repo.ErrUnavailable.
func (b *StateBuffer) Replay(w *Writer) error {
	if w.err != nil || b.records == 0 {
		return w.err
	}
	if w.err = b.lines.out.Flush(); w.err != nil {
		return w.err
	}
	source, err := b.reader()
	if err == nil {
		_, err = io.Copy(w.out, source)
	}
	w.records, w.err = b.records, err
	return err
}
