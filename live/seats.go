package live

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

var (
	errShutdown = errors.New("live: the handler is shutting down")
	errFull     = errors.New("live: too many responses")
	errExpired  = errors.New("live: the response has lasted long enough")
)

// seats are the responses under way.
type seats struct {
	max, perReader int

	mu      sync.Mutex
	taken   map[*seat]struct{}
	readers map[string]int
	closing bool
	empty   chan struct{} // closed when closing and all seats are free
}

// seat is one response's seat.
type seat struct {
	reader string
	cancel context.CancelCauseFunc
}

func newSeats(total, perReader int) *seats {
	return &seats{
		max: total, perReader: perReader, taken: map[*seat]struct{}{}, readers: map[string]int{},
		empty: make(chan struct{}),
	}
}

// take takes a seat, or says why there is none. cancel is called at a shutdown.
func (s *seats) take(reader string, cancel context.CancelCauseFunc) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closing:
		return nil, busy(http.StatusServiceUnavailable, errShutdown)
	case len(s.taken) >= s.max:
		return nil, busy(http.StatusServiceUnavailable, errFull)
	case reader != "" && s.readers[reader] >= s.perReader:
		return nil, busy(http.StatusTooManyRequests, errFull)
	}
	taken := &seat{reader, cancel}
	s.taken[taken] = struct{}{}
	if reader != "" {
		s.readers[reader]++
	}
	return func() { s.leave(taken) }, nil
}

func (s *seats) leave(taken *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, taken)
	if taken.reader != "" {
		if s.readers[taken.reader]--; s.readers[taken.reader] == 0 {
			delete(s.readers, taken.reader)
		}
	}
	if s.closing && len(s.taken) == 0 {
		close(s.empty)
	}
}

// close ends all responses. After it, no seat can be taken.
func (s *seats) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return
	}
	s.closing = true
	for taken := range s.taken {
		taken.cancel(errShutdown)
	}
	if len(s.taken) == 0 {
		close(s.empty)
	}
}

func (s *seats) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}
