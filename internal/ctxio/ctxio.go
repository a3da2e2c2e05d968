// Package ctxio has a caller's reader or writer heed a context.
//
// A Read or Write that never returns cannot be ended from outside. It goes on in a
// goroutine of its own, with a buffer that nobody else uses, and that goroutine
// ends when the call returns: all that is left of an operation whose context
// ended is that.
package ctxio

import (
	"context"
	"errors"
	"io"
)

// bufferSize is what a read is given.
const bufferSize = 64 << 10

// errEnded: a call ended its goroutine (runtime.Goexit), as t.FailNow does.
var errEnded = errors.New("the call did not return")

// errCount: a call broke io.Reader's or io.Writer's rules.
var errCount = errors.New("the call returned an impossible count")

// NewReader returns a reader of r whose Read gives up, with the context's error,
// when ctx ends. It is for one goroutine. A panic of r's is the reader's.
func NewReader(ctx context.Context, r io.Reader) io.Reader {
	if ctx.Done() == nil { // it never ends
		return r
	}
	return &reader{ctx: ctx, from: r}
}

type reader struct {
	ctx    context.Context //nolint:containedctx // the reader is of one operation
	from   io.Reader
	buffer []byte // lent to the Read that is under way
	rest   []byte // of it, what was read and not given on yet
	err    error  // after rest
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
		r.buffer = nil // the Read may go on
	case n < 0 || n > len(buffer):
		n, err = 0, errCount
	}
	r.rest, r.err = buffer[:n], err
}

// NewWriter returns a writer to w whose Write gives up, with the context's error,
// when ctx ends. What w got by then is not known. It is for one goroutine. A panic
// of w's is the writer's.
func NewWriter(ctx context.Context, w io.Writer) io.Writer {
	if ctx.Done() == nil {
		return w
	}
	return &writer{ctx: ctx, to: w}
}

type writer struct {
	ctx    context.Context //nolint:containedctx // the writer is of one operation
	to     io.Writer
	buffer []byte // lent to the Write that is under way
	err    error
}

func (w *writer) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	// A copy: the Write may go on when p is used again.
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
	} else if cap(w.buffer) > 16*bufferSize { // one that a large value has blown up
		w.buffer = nil
	}
	return n, err
}

// await runs call in a goroutine of its own, and returns what it returned, or the
// context's error if that ends first.
func await(ctx context.Context, call func() (int, error)) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	type outcome struct {
		n        int
		err      error
		panicked any
	}
	done := make(chan outcome, 1) // nobody may be there to take it
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
