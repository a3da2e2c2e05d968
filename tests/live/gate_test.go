package live

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// gate is an address at which one server after the other answers. While there is none,
// connections are reset.
type gate struct {
	net.Listener

	mu     sync.Mutex
	server *http.Server
	life   *life
}

func newGate(t *testing.T) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Listener: listener}
	var running sync.WaitGroup
	running.Go(g.run)
	t.Cleanup(func() {
		g.kill()
		_ = listener.Close()
		running.Wait()
	})
	return g
}

func (g *gate) run() {
	for {
		conn, err := g.Accept()
		if err != nil {
			return
		}
		g.mu.Lock()
		life := g.life
		g.mu.Unlock()
		if life == nil || !life.take(conn) {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}
}

// serve starts a server.
func (g *gate) serve(handler http.Handler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.life = &life{Listener: g.Listener, conns: make(chan net.Conn), done: make(chan struct{})}
	g.server = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func(server *http.Server, life *life) { _ = server.Serve(life) }(g.server, g.life)
}

// kill ends the server and its connections as the end of its process would.
func (g *gate) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.server != nil {
		_ = g.server.Close()
	}
	g.server, g.life = nil, nil
}

// life is the listener of one server.
type life struct {
	net.Listener
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *life) take(conn net.Conn) bool {
	select {
	case l.conns <- conn:
		return true
	case <-l.done:
		return false
	}
}

func (l *life) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *life) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}
