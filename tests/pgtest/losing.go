package pgtest

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Losing is a network that loses the answer to one piece of what is sent to a server: the connection ends when the server has
// answered.
type Losing struct {
	Addr string
	Left atomic.Int32 // pieces until the one whose answer is lost; 0: none
	Lost atomic.Bool

	server  string
	leaves  atomic.Bool // after that piece no client gets through
	atEnd   func(func()) (stop func() bool)
	running sync.WaitGroup
}

// Lose loses the answer to a piece, counted from now. If the server leaves, clients are cut off until Stop.
func (l *Losing) Lose(piece int32, leaves bool) {
	l.Lost.Store(false)
	l.leaves.Store(leaves)
	l.Left.Store(piece)
}

// Stop loses nothing any more. It reports whether the answer was lost.
func (l *Losing) Stop() bool {
	l.Left.Store(0)
	l.leaves.Store(false)
	return l.Lost.Load()
}

// NewLosing starts one that ends with the test.
func NewLosing(t *testing.T, server string) *Losing {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(context.Background())
	l := &Losing{Addr: listener.Addr().String(), server: server, atEnd: func(f func()) func() bool { return context.AfterFunc(ended, f) }}
	l.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.running.Go(func() { l.carry(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		end() // a coordinator of nodes keeps its connections
		l.running.Wait()
	})
	return l
}

func (l *Losing) isAway() bool { return l.leaves.Load() && l.Lost.Load() }

func (l *Losing) carry(client net.Conn) {
	defer func() { _ = client.Close() }()
	if l.isAway() {
		return
	}
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	defer l.atEnd(func() { _, _ = client.Close(), server.Close() })()
	var mute atomic.Bool
	answered := make(chan struct{}, 1)
	hasAnswered := func() {
		select {
		case answered <- struct{}{}:
		default:
		}
	}
	l.running.Go(func() {
		_, _ = io.Copy(WriterFunc(func(p []byte) (int, error) {
			if mute.Load() {
				hasAnswered()
				return len(p), nil
			}
			return client.Write(p)
		}), server)
		hasAnswered() // it has ended the connection
		_ = client.Close()
	})
	for buffer := make([]byte, 1<<16); ; {
		n, err := client.Read(buffer)
		if l.isAway() {
			return
		}
		if n > 0 {
			cut := !IsPing(buffer[:n]) && l.Left.Load() > 0 && l.Left.Add(-1) == 0
			mute.Store(cut)
			if _, err := server.Write(buffer[:n]); err != nil {
				return
			}
			if cut {
				l.Lost.Store(true)
				select {
				case <-answered:
				case <-time.After(10 * time.Second): // what has no answer
				}
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// WriterFunc is a writer.
type WriterFunc func([]byte) (int, error)

// Write implements io.Writer.
func (f WriterFunc) Write(p []byte) (int, error) { return f(p) }

// IsPing tells whether the pool asks a connection that was idle for a second whether it lives.
func IsPing(sent []byte) bool { return bytes.Contains(sent, []byte("-- ping")) }
