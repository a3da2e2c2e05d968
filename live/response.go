package live

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

const (
	// unflushed is how many bytes of events that are old already are sent together.
	unflushed = 32 << 10
	// keptBuffer is the largest buffer that a response keeps from one event to the next.
	keptBuffer = 16 << 10
)

var errOver = errors.New("live: the response is over")

// response writes events. Its methods may be called by several goroutines.
type response struct {
	w       http.ResponseWriter
	control *http.ResponseController
	options *Options
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	buffer  []byte
	waiting int         // bytes that are not flushed
	err     error       // after it nothing is written
	beats   *time.Timer // when nothing was written for a while
}

// begin sends the header, how long to wait before connecting again, and with which id: a client
// that was cut off before its first event has it, too.
func begin(w http.ResponseWriter, options *Options, cancel context.CancelCauseFunc, id string) (*response, error) {
	r := &response{w: w, control: http.NewResponseController(w), options: options, cancel: cancel}
	r.mu.Lock()
	r.beats = time.AfterFunc(options.Heartbeat, r.beat)
	r.mu.Unlock()
	return r, r.write(true, func(b []byte) ([]byte, error) {
		if id != "" {
			b = append(append(append(b, "id: "...), id...), '\n')
		}
		return append(b, r.retry()...), nil
	})
}

// retry is the field that says how long to wait.
func (r *response) retry() string {
	least := r.options.Retry.Milliseconds()
	return fmt.Sprintf("retry: %d\n\n", least+rand.Int64N(least+1))
}

// send sends an event. Unless it is new, it may wait for the next one.
func (r *response) send(id string, event Event, isNew bool) error {
	return r.write(isNew, func(b []byte) ([]byte, error) { return appendEvent(b, id, event) })
}

// goodbye says that the client should come again.
func (r *response) goodbye(why string) {
	_ = r.write(true, func(b []byte) ([]byte, error) { return append(append(b, ": "+why+"\n"...), r.retry()...), nil })
}

// beat sends a comment, and what is not flushed.
func (r *response) beat() {
	_ = r.write(true, func(b []byte) ([]byte, error) { return append(b, ":\n\n"...), nil })
}

// write writes what form appends. If that fails, the response is over, and its reader has to
// connect again.
func (r *response) write(flush bool, form func([]byte) ([]byte, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	var err error
	if r.buffer, err = form(r.buffer[:0]); err != nil {
		return err // nothing of it was written
	}
	if err = r.put(flush); err != nil {
		r.err = err
		r.cancel(err)
		return err
	}
	if cap(r.buffer) > keptBuffer {
		r.buffer = nil
	}
	r.beats.Reset(r.options.Heartbeat)
	return nil
}

// put writes the buffer. The caller holds mu.
func (r *response) put(flush bool) error {
	if err := r.limit(time.Now().Add(r.options.WriteTimeout)); err != nil {
		return err
	}
	if _, err := r.w.Write(r.buffer); err != nil {
		return err
	}
	if r.waiting += len(r.buffer); flush || r.waiting >= unflushed {
		r.waiting = 0
		if err := r.control.Flush(); err != nil {
			return err
		}
	}
	// In HTTP/2 a deadline ends the response also if nothing is written.
	return r.limit(time.Time{})
}

// limit sets the deadline for writes, instead of the server's, which is for answers that
// are short. A ResponseWriter that has none needs none.
func (r *response) limit(deadline time.Time) error {
	if err := r.control.SetWriteDeadline(deadline); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// end waits for a write under way. Nothing is written after it, except the end by the
// server.
func (r *response) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beats.Stop()
	if r.err == nil {
		r.err = errOver
		_ = r.limit(time.Now().Add(r.options.WriteTimeout))
	}
}

// canFlush reports whether a ResponseWriter can send what was written so far.
func canFlush(w http.ResponseWriter) bool {
	for {
		switch v := w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return false
		}
	}
}
