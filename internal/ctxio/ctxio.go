// Package ctxio makes readers and writers respect a context.
//
// A Read or Write that blocks cannot be interrupted. So it runs in a separate goroutine,
// with a buffer of its own. When the context ends, the call returns, and leaves only
// that goroutine, which ends when the Read or Write returns.
package ctxio

import (
	"context"
	"errors"
	"io"
)

// bufferSize is the size of the buffer for a Read.
const bufferSize = 64 << 10

// errEnded: a call ended its goroutine with runtime.Goexit, as t.FailNow does.
var errEnded = errors.New("the call did not return")

// errCount: a call violated the contract of io.Reader or io.Writer.
var errCount = errors.New("the call returned an impossible count")

// NewReader returns a reader of r whose Read returns the context's error when ctx ends.
// It is for one goroutine. If r panics, so does the reader, in the caller's goroutine.
func NewReader(ctx context.Context, r io.Reader) io.Reader {
	if ctx.Done() == nil { // it never ends
		return r
	}
	return &reader{ctx: ctx, from: r}
}

type reader struct {
	ctx    context.Context //nolint:containedctx // the reader is of one operation
	from   io.Reader
	buffer []byte // passed to from.Read
	rest   []byte // the part of buffer that was read and not returned yet
	err    error  // to be returned after rest
}

func (r *reader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 && r.err == nil {
		r.fill()
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, r.err
}

func (r *reader) fill() {
	if r.buffer == nil {
		r.buffer = make([]byte, bufferSize)
	}
	buffer := r.buffer
	n, err := await(r.ctx, func() (int, error) { return r.from.Read(buffer) })
	switch {
	case r.ctx.Err() != nil && err != nil:
		r.buffer = nil // the Read may still be using it
	case n < 0 || n > len(buffer):
		n, err = 0, errCount
	}
	r.rest, r.err = buffer[:n], err
}

// NewWriter returns a writer to w whose Write returns the context's error when ctx ends.
// How much w has written then is unknown. The writer is for one goroutine. If w panics,
// so does the writer, in the caller's goroutine.
func NewWriter(ctx context.Context, w io.Writer) io.Writer {
	if ctx.Done() == nil {
		return w
	}
	return &writer{ctx: ctx, to: w}
}

type writer struct {
	ctx    context.Context //nolint:containedctx // the writer is of one operation
	to     io.Writer
	buffer []byte // passed to to.Write
	err    error
}

func (w *writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	// Copy p: the Write may still run when the caller reuses p.
	w.buffer = append(w.buffer[:0], p...)
	buffer := w.buffer
	n, err := await(w.ctx, func() (int, error) { return w.to.Write(buffer) })
	switch {
	case n < 0 || n > len(buffer):
		n, err = 0, errCount
	case n < len(buffer) && err == nil:
		err = io.ErrShortWrite
	}
	if err != nil {
		w.buffer, w.err = nil, err
	} else if cap(w.buffer) > 16*bufferSize { // grown by a large value
		w.buffer = nil
	}
	return n, err
}

// await runs call in a separate goroutine and returns its results, or the context's
// error if ctx ends first.
func await(ctx context.Context, call func() (int, error)) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	type outcome struct {
		n        int
		err      error
		panicked any
	}
	done := make(chan outcome, 1) // await may have returned already
	go func() {
		got := outcome{err: errEnded}
		defer func() {
			got.panicked = recover()
			done <- got
		}()
		got.n, got.err = call()
	}()
	select {
	case got := <-done:
		if got.panicked != nil {
			panic(got.panicked)
		}
		return got.n, got.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
