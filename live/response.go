package live

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// unflushed is how many bytes of events that are old already are sent together.
const unflushed = 32 << 10

// buffers are for writing an event. A response that waits has none.
var buffers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 4<<10) }}

var errOver = errors.New("live: the response is over")

// response writes events. Its methods may be called by several goroutines.
type response struct {
	w       http.ResponseWriter
	control *http.ResponseController
	options *Options
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	waiting int         // bytes that are not flushed
	err     error       // after it nothing is written
	beats   *time.Timer // when nothing was written for a while
}

// begin sends the header, how long to wait before connecting again, and where the client is: one
// that is cut off before the next event has it, too.
func begin(w http.ResponseWriter, options *Options, cancel context.CancelCauseFunc, f *feed) (*response, error) {
	r := &response{w: w, control: http.NewResponseController(w), options: options, cancel: cancel}
	r.mu.Lock()
	r.beats = time.AfterFunc(options.Heartbeat, r.beat)
	r.mu.Unlock()
	return r, r.write(true, func(w *bufio.Writer) error {
		if err := r.retry(w); err != nil || f.end != nil {
			return err
		}
		data := map[string]int64{"messages": f.messages}
		if f.head != f.messages-1 {
			data["head"] = f.head
		}
		return writeEvent(w, f.at.String(), encoded(BeginEvent, data))
	})
}

// retry writes how long to wait.
func (r *response) retry(w *bufio.Writer) error {
	least := r.options.Retry.Milliseconds()
	_, err := fmt.Fprintf(w, "retry: %d\n\n", least+rand.Int64N(least+1))
	return err
}

// send sends an event. Unless it is new, it may wait for the next one.
func (r *response) send(id string, event Event, isNew bool) error {
	if err := checkEvent(event); err != nil {
		return err // nothing of it was written
	}
	return r.write(isNew, func(w *bufio.Writer) error { return writeEvent(w, id, event) })
}

// goodbye says that the client should come again.
func (r *response) goodbye(why string) {
	_ = r.write(true, func(w *bufio.Writer) error {
		writeField(w, ": ", why)
		return r.retry(w)
	})
}

// beat sends a comment, and what is not flushed.
func (r *response) beat() {
	_ = r.write(true, func(w *bufio.Writer) error {
		_, err := w.WriteString(":\n\n")
		return err
	})
}

// write writes what form writes. If that fails, the response is over, and its reader has to
// connect again.
func (r *response) write(flush bool, form func(*bufio.Writer) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	if err := r.put(flush, form); err != nil {
		r.err = err
		r.cancel(err)
		return err
	}
	r.beats.Reset(r.options.Heartbeat)
	return nil
}

// put writes what form writes. The caller holds mu.
func (r *response) put(flush bool, form func(*bufio.Writer) error) error {
	if err := r.limit(time.Now().Add(r.options.WriteTimeout)); err != nil {
		return err
	}
	w := buffers.Get().(*bufio.Writer)
	defer func() {
		w.Reset(nil)
		buffers.Put(w)
	}()
	w.Reset(r)
	err := form(w)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return err
	}
	if flush || r.waiting >= unflushed {
		r.waiting = 0
		if err := r.control.Flush(); err != nil {
			return err
		}
	}
	// In HTTP/2 a deadline ends the response also if nothing is written.
	return r.limit(time.Time{})
}

// Write implements io.Writer for put.
func (r *response) Write(b []byte) (int, error) {
	r.waiting += len(b)
	return r.w.Write(b)
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
