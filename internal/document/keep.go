package document

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/seed-df90f812/agentstore/internal/ctxio"
)

// keepInMemory is how much of a document is kept in memory; a longer one goes to
// a temporary file.
const keepInMemory = 4 << 20

// Kept is a document that was read to its end and is right. It can be read again
// without its source. Close it.
type Kept struct {
	memory []byte // until there is a file
	file   *os.File
	out    *bufio.Writer
	// name is the file's, where it could not be removed while it is open.
	name string
}

// Keep reads a document to its end and checks it whole. Memory stays bounded: what
// is longer than a few MiB goes to a temporary file (os.TempDir), which only this
// user can read, and which is gone after Close, and after a crash, too, where the
// system lets an open file be removed.
//
// Keep returns when ctx ends, with its error, also while r's Read does not return;
// the goroutine that is in that Read ends when it returns. Errors:
// *repo.ImportError; the context's.
func Keep(ctx context.Context, r io.Reader) (*Kept, error) {
	k := &Kept{}
	if err := k.read(ctxio.NewReader(ctx, r)); err != nil {
		k.Close()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("agentstore: %w", ctx.Err())
		}
		return nil, err
	}
	return k, nil
}

func (k *Kept) read(r io.Reader) error {
	reader, err := NewReader(io.TeeReader(r, keeper{k}))
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
	if k.file == nil {
		return nil
	}
	if err := k.out.Flush(); err != nil {
		return &fault{Field: "document", Reason: "cannot be stored temporarily", Err: err}
	}
	return nil
}

// keeper is where a document goes as it is read.
type keeper struct{ kept *Kept }

func (w keeper) Write(p []byte) (int, error) {
	k := w.kept
	if k.file == nil && len(k.memory)+len(p) <= keepInMemory {
		k.memory = append(k.memory, p...)
		return len(p), nil
	}
	if k.file == nil {
		if err := k.spill(); err != nil {
			return 0, fmt.Errorf("keep the document in a temporary file: %w", err)
		}
	}
	n, err := k.out.Write(p)
	if err != nil {
		return n, fmt.Errorf("keep the document in a temporary file: %w", err)
	}
	return n, nil
}

// spill moves what was read so far to a file.
func (k *Kept) spill() (err error) {
	if k.file, err = os.CreateTemp("", "agentstore-import-"); err != nil {
		return err
	}
	// Most systems let it go at once. Where not, Close removes it.
	if os.Remove(k.file.Name()) != nil {
		k.name = k.file.Name()
	}
	k.out = bufio.NewWriterSize(k.file, sourceSize)
	_, err = k.out.Write(k.memory)
	k.memory = nil
	return err
}

// Reader reads the document from its beginning. One reader is used at a time, and
// not after Close. Errors: *repo.ImportError, where the file was tampered with.
func (k *Kept) Reader() (*Reader, error) {
	if k.file == nil {
		return NewReader(bytes.NewReader(k.memory))
	}
	if _, err := k.file.Seek(0, io.SeekStart); err != nil {
		return nil, &fault{Field: "document", Reason: "cannot be read again", Err: err}
	}
	return NewReader(k.file)
}

// Close removes what was kept.
func (k *Kept) Close() {
	if k.file == nil {
		k.memory = nil
		return
	}
	_ = k.file.Close() // it was only written to be read
	if k.name != "" {
		_ = os.Remove(k.name)
	}
}
