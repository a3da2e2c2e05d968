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

// Buffered is a valid document that was read to its end. It can be read again
// without its source. The caller closes it.
type Buffered struct {
	memory []byte // until there is a file
	file   *os.File
	out    *bufio.Writer
	// name is the file's name if the file could not be removed while it is open.
	name string
}

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
	if err := b.read(ctxio.NewReader(ctx, r)); err != nil {
		b.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("agentstore: %w", ctx.Err())
		}
		return nil, err
	}
	return b, nil
}

func (b *Buffered) read(r io.Reader) error {
	reader, err := NewReader(io.TeeReader(r, bufferWriter{b}))
	if err != nil {
		return err
	}
	for {
		_, err := reader.Next()
		if err == io.EOF { //nolint:errorlint // itself: see Next
			break
		}
		if err != nil {
			return err
		}
	}
	if b.file == nil {
		return nil
	}
	if err := b.out.Flush(); err != nil {
		return &bufferError{err}
	}
	return nil
}

// bufferError means that a document cannot be buffered on this machine, not that
// the document is invalid.
type bufferError struct{ cause error }

func (e *bufferError) Error() string {
	return "the document cannot be buffered in a temporary file: " + e.cause.Error()
}
func (e *bufferError) Is(target error) bool { return target == repo.ErrUnavailable }
func (e *bufferError) Unwrap() error        { return e.cause }

// bufferWriter buffers a document while it is read.
type bufferWriter struct{ *Buffered }

func (b bufferWriter) Write(p []byte) (int, error) {
	if b.file == nil && len(b.memory)+len(p) <= maxInMemory {
		b.memory = append(b.memory, p...)
		return len(p), nil
	}
	if b.file == nil {
		if err := b.spill(); err != nil {
			return 0, &bufferError{err}
		}
	}
	n, err := b.out.Write(p)
	if err != nil {
		return n, &bufferError{err}
	}
	return n, nil
}

// spill moves what was buffered so far to a file.
func (b *Buffered) spill() (err error) {
	if b.file, err = os.CreateTemp("", "agentstore-import-"); err != nil {
		return err
	}
	// Most systems allow this at once. On others, Close removes the file.
	if os.Remove(b.file.Name()) != nil {
		b.name = b.file.Name()
	}
	b.out = bufio.NewWriterSize(b.file, sourceSize)
	_, err = b.out.Write(b.memory)
	b.memory = nil
	return err
}

// Reader reads the document from its beginning. Only one reader may be in use at a
// time, and none after Close. Errors: repo.ErrUnavailable if the file cannot be
// read; *repo.ImportError if it was modified.
func (b *Buffered) Reader() (*Reader, error) {
	if b.file == nil {
		return NewReader(bytes.NewReader(b.memory))
	}
	if _, err := b.file.Seek(0, io.SeekStart); err != nil {
		return nil, &bufferError{err}
	}
	return NewReader(bufferedFile{b.file})
}

// bufferedFile marks the errors of reading the file, as distinct from those of the
// document.
type bufferedFile struct{ file *os.File }

func (f bufferedFile) Read(p []byte) (int, error) {
	n, err := f.file.Read(p)
	if err != nil && err != io.EOF {
		err = &bufferError{err}
	}
	return n, err
}

// Close removes the buffer.
func (b *Buffered) Close() {
	if b.file == nil {
		b.memory = nil
		return
	}
	_ = b.file.Close() // nothing depends on what was written
	if b.name != "" {
		_ = os.Remove(b.name)
	}
}
