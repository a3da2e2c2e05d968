package export

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"errors"
	"io"

	"github.com/seed-df90f812/agentstore/repo"
)

// StateBuffer holds a session's own state while it is exported, so that it is that of
// one moment, however slowly the document is written. Like Buffer it bounds memory. The
// zero value is empty; the caller closes it.
type StateBuffer struct {
	Buffered
	encoder *gob.Encoder
}

// Add adds the next key. Error: repo.ErrUnavailable.
func (b *StateBuffer) Add(value repo.StateValue) error {
	if b.encoder == nil {
		b.encoder = gob.NewEncoder(bufferWriter{&b.Buffered})
	}
	return b.encoder.Encode(value)
}

// Replay writes all keys to w, which has begun its state. Errors: w's;
// repo.ErrUnavailable.
func (b *StateBuffer) Replay(w *Writer) error {
	source := io.Reader(bytes.NewReader(b.memory))
	if b.file != nil {
		if err := b.out.Flush(); err != nil {
			return &bufferError{err}
		}
		if _, err := b.file.Seek(0, io.SeekStart); err != nil {
			return &bufferError{err}
		}
		source = bufio.NewReaderSize(b.file, sourceSize)
	}
	for decoder := gob.NewDecoder(source); ; {
		var value repo.StateValue
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &bufferError{err}
		}
		if err := w.WriteState(value); err != nil {
			return err
		}
	}
}
