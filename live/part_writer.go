package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// PartWriter writes the parts of a stream in order without a wait for each: parts that are written
// while others are being stored are stored together after them. An append that failed with an unknown
// outcome, or because the database cannot be reached or aborted it, is made again. While the model is
// silent, it renews the stream, for an hour after the last part at most, if the stream has its TTL.
// Once the stream has expired all the same, or was deleted, further parts are dropped without an
// error: readers then get only the message. It is safe for concurrent use.
type PartWriter struct {
	ctx     context.Context //nolint:containedctx // it ends the appends
	streams repo.Streams

	mu     sync.Mutex
	stream repo.Stream // Next: how many parts are known to be stored
	added  int64       // how many there are, stored or not
	// waiting are the parts whose storing has not begun, of size bytes together.
	waiting [][]byte
	size    int
	// storing: a goroutine is storing parts, or renews the stream. It ends when none is left.
	storing, renews bool
	// gone is why the stream takes no more parts. over: it is not renewed any more.
	gone error
	over bool
	// timer renews the stream. wrote is when the last part was added.
	timer *time.Timer
	wrote time.Time
	// changed is closed at the end of each append.
	changed chan struct{}
	err     error
}

// maxParts and maxWaitingBytes bound what waits: one append takes no more parts, and a writer holds as much
// memory again while that is being stored.
const maxParts, maxWaitingBytes = 1000, 4 << 20

// maxSilence bounds for how long a stream is renewed whose writer writes nothing: it may have been forgotten.
const maxSilence = time.Hour

// NewPartWriter returns a writer for a stream as repo.Streams.Open has returned it. When ctx
// ends, nothing more is sent, and what is being stored is settled: once Write or Flush has
// returned an error other than repo.ErrUnknownOutcome, Stream says how much is stored. There is
// nothing to close. streams is a store's, not a transaction's.
func NewPartWriter(ctx context.Context, streams repo.Streams, stream repo.Stream) *PartWriter {
	w := &PartWriter{
		ctx: ctx, streams: streams, stream: stream, added: stream.Next, changed: make(chan struct{}),
		wrote: time.Now(),
	}
	if stream.TTL > 0 {
		w.mu.Lock() // until timer is set
		defer w.mu.Unlock()
		w.timer = time.AfterFunc(w.pace(), w.renew)
	}
	return w
}

// pace is how often the stream is renewed: a renewal may be late by twice that.
func (w *PartWriter) pace() time.Duration { return w.stream.TTL / 3 }

// renew has the stream renewed, in case no part has been stored for a while.
func (w *PartWriter) renew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.gone != nil || w.err != nil || w.ctx.Err() != nil || time.Since(w.wrote) > maxSilence {
		return
	}
	w.renews = true
	w.begin()
	w.timer.Reset(w.pace())
}

// begin has what waits stored.
func (w *PartWriter) begin() {
	if !w.storing {
		w.storing = true
		go w.store()
	}
}

// Stream returns the stream. Its Next is the number of parts known to be stored.
func (w *PartWriter) Stream() repo.Stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stream
}

// Gone returns the error of a stream that has expired or was deleted, whose parts are dropped. Nil: it is there, as far
// as is known.
func (w *PartWriter) Gone() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// Write adds a part of 1 to repo.MaxPartBytes, which is stored soon. It waits while 1,000 parts,
// or 4 MiB with this one, wait to be stored; a larger one waits until no other does. Errors:
// repo.InvalidError, and ctx's error: the part was not added. Any other error is the one with
// which storing an earlier part has failed for good, or the error of NewPartWriter's context.
func (w *PartWriter) Write(ctx context.Context, part []byte) error {
	switch {
	case len(part) == 0:
		return &repo.InvalidError{Field: "part", Reason: "is empty"}
	case len(part) > repo.MaxPartBytes:
		return &repo.InvalidError{Field: "part", Reason: fmt.Sprintf("has %d bytes, more than %d", len(part),
			repo.MaxPartBytes)}
	}
	part = bytes.Clone(part)
	return w.when(ctx, func() bool { //nolint:contextcheck // parts are stored with the context of the writer
		if len(w.waiting) == maxParts || len(w.waiting) > 0 && w.size+len(part) > maxWaitingBytes {
			return false
		}
		if w.wrote = time.Now(); w.gone != nil {
			return true
		}
		w.waiting, w.size = append(w.waiting, part), w.size+len(part)
		w.added++
		w.begin()
		return true
	})
}

// Flush waits until all parts that were added before it are stored. Errors: as of Write.
func (w *PartWriter) Flush(ctx context.Context) error {
	w.mu.Lock()
	added := w.added
	w.mu.Unlock()
	return w.when(ctx, func() bool { return w.stream.Next >= added || w.gone != nil })
}

// Finish flushes and ends the stream. It may be called again.
func (w *PartWriter) Finish(ctx context.Context) error {
	if err := w.Flush(ctx); err != nil {
		return err
	}
	return w.ended(w.streams.Finish(ctx, w.Stream()))
}

// Fail flushes and ends the stream, which is not complete. It may be called again. If the
// context of NewPartWriter has ended, call repo.Streams.Fail with what Stream returns.
func (w *PartWriter) Fail(ctx context.Context, reason string) error {
	if err := w.Flush(ctx); err != nil {
		return err
	}
	return w.ended(w.streams.Fail(ctx, w.Stream(), reason))
}

// ended ends the renewals after an end of the stream.
func (w *PartWriter) ended(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = w.over || err == nil
	return err
}

// when waits until do, which is called with the lock held, returns true, or nothing more
// will be stored.
func (w *PartWriter) when(ctx context.Context, do func() bool) error {
	for {
		w.mu.Lock()
		err, done := w.err, w.err != nil || do()
		changed := w.changed
		w.mu.Unlock()
		if done {
			return err
		}
		ended := ctx.Done()
		if w.ctx.Err() != nil {
			ended = nil // what is being stored is soon settled
		}
		select {
		case <-ended:
			if w.ctx.Err() == nil {
				return ctx.Err()
			}
		case <-changed:
		}
	}
}

// store stores what waits until nothing does.
func (w *PartWriter) store() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for (len(w.waiting) > 0 || w.renews) && w.err == nil && w.gone == nil {
		parts, stream := w.waiting, w.stream
		w.waiting, w.size, w.renews = nil, 0, false
		w.mu.Unlock()
		next, err := w.append(stream, parts)
		w.mu.Lock()
		_, fenced := errors.AsType[*repo.FencedError](err)
		switch w.stream.Next = next; {
		case errors.Is(err, repo.ErrGone):
			w.gone, w.waiting, w.size = err, nil, 0
		case len(parts) > 0 || fenced:
			w.err = err
		case err != nil: // another writer has ended it: the next part finds out
			w.over = true
		}
		close(w.changed)
		w.changed = make(chan struct{})
	}
	w.storing = false
}

// A connection may never give an answer: an append is made again after writeTimeout, and
// may take longer each time, up to maxWriteTimeout, since a network may be slow. If it has
// failed, it is made again after a pause of at most maxWritePause.
const writeTimeout, maxWriteTimeout, maxWritePause = 5 * time.Second, 80 * time.Second, time.Second

// passes reports whether an append may succeed when it is repeated.
func passes(err error) bool {
	return errors.Is(err, repo.ErrUnavailable) || errors.Is(err, repo.ErrContention) ||
		errors.Is(err, repo.ErrUnknownOutcome)
}

// append makes an append again until its outcome is known.
func (w *PartWriter) append(stream repo.Stream, parts [][]byte) (int64, error) {
	timeout := writeTimeout
	for pause := time.Millisecond; ; pause = min(2*pause, maxWritePause) {
		ctx, cancel := context.WithTimeout(w.ctx, timeout)
		next, err := w.streams.Append(ctx, stream, parts...)
		late := ctx.Err() != nil
		cancel()
		if err == nil || !late && !passes(err) {
			return next, err
		}
		if late {
			timeout = min(2*timeout, maxWriteTimeout)
		}
		select {
		case <-w.ctx.Done():
			return next, fmt.Errorf("%w: %w", w.ctx.Err(), err)
		case <-time.After(pause):
		}
	}
}
