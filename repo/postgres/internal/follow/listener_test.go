package follow

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Fake time: the tests with times run in bubbles of synctest.

// exchange makes the lines of a Listener under test.
type exchange struct {
	mu     sync.Mutex
	err    error // of connecting
	dials  int
	lines  []*fakeLine
	events []string
}

type fakeLine struct {
	e        *exchange
	payloads chan string
	broken   chan struct{}
	closed   bool
}

var errBroken = errors.New("broken")

func (l *fakeLine) Next(ctx context.Context) (string, error) {
	select {
	case payload := <-l.payloads:
		return payload, nil
	case <-l.broken:
		return "", errBroken
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (l *fakeLine) Close() {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	l.closed = true
}

func (e *exchange) connect(context.Context) (Line, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dials++
	if e.err != nil {
		return nil, e.err
	}
	line := &fakeLine{e: e, payloads: make(chan string), broken: make(chan struct{})}
	e.lines = append(e.lines, line)
	return line, nil
}

func (e *exchange) note(event string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, event)
}

func (e *exchange) wants(t *testing.T, events ...string) {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.events, events) {
		t.Errorf("got %q, want %q", e.events, events)
	}
	e.events = nil
}

// open returns the number of lines that are open.
func (e *exchange) open() (open int) {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, line := range e.lines {
		if !line.closed {
			open++
		}
	}
	return open
}

// attempts returns the number of attempts to connect.
func (e *exchange) attempts() int {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dials
}

func (e *exchange) last() *fakeLine {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lines[len(e.lines)-1]
}

func inListener(t *testing.T, test func(t *testing.T, l *Listener, e *exchange)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := &exchange{}
		l := NewListener(ListenerConfig{
			Connect: e.connect,
			Connected: func(listening bool, err error) {
				switch {
				case listening:
					e.note("on")
				case err != nil:
					e.note("off: " + err.Error())
				}
			},
			Heard: e.note,
		})
		test(t, l, e)
		l.Close()
		if open := e.open(); open > 0 {
			t.Errorf("%d lines are left open", open)
		}
	})
}

// It listens while it has users, and a little longer.
func TestListener(t *testing.T) {
	t.Parallel()
	inListener(t, func(t *testing.T, l *Listener, e *exchange) {
		time.Sleep(time.Hour)
		e.wants(t)
		first, second := l.Use(), l.Use()
		e.wants(t, "on")
		e.last().payloads <- "a"
		e.last().payloads <- "b"
		e.wants(t, "a", "b")
		first()
		time.Sleep(time.Hour)
		second()
		time.Sleep(linger - time.Millisecond)
		third := l.Use()
		time.Sleep(time.Hour)
		if open, made := e.open(), e.attempts(); open != 1 || made != 1 {
			t.Errorf("%d lines of %d are open, want the first", open, made)
		}
		third()
		time.Sleep(linger)
		if open := e.open(); open != 0 {
			t.Error("the line is open without users")
		}
		e.wants(t)
		release := l.Use()
		e.wants(t, "on")
		l.Close()
		release()
		l.Use()()
		e.wants(t)
	})
}

// A line that is lost is replaced soon; one that cannot be made is tried for less and
// less often.
func TestListenerReconnects(t *testing.T) {
	t.Parallel()
	inListener(t, func(t *testing.T, l *Listener, e *exchange) {
		defer l.Use()()
		e.wants(t, "on")
		for range 20 {
			time.Sleep(time.Second)
			close(e.last().broken)
			time.Sleep(2 * firstReconnect)
			e.wants(t, "off: broken", "on")
		}
	})
	inListener(t, func(t *testing.T, l *Listener, e *exchange) {
		e.err = errBroken
		defer l.Use()()
		time.Sleep(10 * time.Minute)
		if dials := e.attempts(); dials < 60 || dials > 300 {
			t.Errorf("%d attempts in ten minutes", dials)
		}
		e.mu.Lock()
		e.err, e.events = nil, nil
		e.mu.Unlock()
		time.Sleep(2 * longReconnect)
		e.wants(t, "on")
	})
	// One that breaks at once counts as an attempt that failed.
	inListener(t, func(t *testing.T, l *Listener, e *exchange) {
		defer l.Use()()
		for range 1000 {
			synctest.Wait()
			select {
			case <-e.last().broken:
			default:
				close(e.last().broken)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if dials := e.attempts(); dials > 60 {
			t.Errorf("%d attempts in 100 seconds", dials)
		}
	})
}

// Behind a pooler it tries once a minute: the pooler may be reconfigured.
func TestListenerDeaf(t *testing.T) {
	t.Parallel()
	inListener(t, func(t *testing.T, l *Listener, e *exchange) {
		e.err = ErrDeaf
		defer l.Use()()
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		if dials := e.attempts(); dials != 11 {
			t.Errorf("%d attempts in ten minutes", dials)
		}
	})
}
