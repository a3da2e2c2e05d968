package faults

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// forgetful is a network that can forget its connections, as a restarted firewall
// does: nothing arrives on them any more, and neither side is told. New connections
// work.
type forgetful struct {
	net.Listener
	server  string
	running sync.WaitGroup

	mu        sync.Mutex
	forgotten chan struct{} // closed when the connections so far are forgotten
	ended     chan struct{}
}

func newForgetful(t *testing.T, server string) *forgetful {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &forgetful{Listener: listener, server: server, forgotten: make(chan struct{}), ended: make(chan struct{})}
	f.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			forgotten := f.forgotten
			f.mu.Unlock()
			f.running.Go(func() { f.carry(client, forgotten) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		close(f.ended)
		f.running.Wait()
	})
	return f
}

func (f *forgetful) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.forgotten)
	f.forgotten = make(chan struct{})
}

// carry copies in both directions until one ends. A forgotten connection stays open,
// and silent, until the test ends.
func (f *forgetful) carry(client net.Conn, forgotten <-chan struct{}) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", f.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var copying sync.WaitGroup
	over := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		copying.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			over <- struct{}{}
		})
	}
	past := time.Unix(1, 0)
	select {
	case <-over:
	case <-f.ended:
	case <-forgotten:
		_ = client.SetReadDeadline(past)
		_ = server.SetReadDeadline(past)
		<-f.ended
	}
	_ = client.SetReadDeadline(past)
	_ = server.SetReadDeadline(past)
	copying.Wait()
}

// All connections of a small pool are forgotten at once. After a call's context has ended, the driver takes
// up to 15 s to close its connection, which keeps its place in the pool meanwhile.
// Guarantee: Faults: A pool whose connections the network drops silently works again after 25 s.
func TestForgottenConnections(t *testing.T) {
	if !pgtest.Full() {
		t.Skip("in the full form only: waits for the driver for 15 s")
	}
	s := newSharedStage(t)
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	network := newForgetful(t, u.Host)
	u.Host = network.Addr().String()
	store := pgtest.OpenStore(t, u.String(), agentstore.Options{MaxConns: 4, ConnectTimeout: 10 * time.Second})
	ids := make([]repo.ID, sessionsPerRound)
	for i := range ids {
		ids[i] = pgtest.NewSession(t, store)
	}
	// The pool has all its connections, each used a moment ago: before it hands one
	// out, the driver checks only those that were idle for a second.
	conns := make([]*pgxpool.Conn, store.Pool().Config().MaxConns)
	for i := range conns {
		if conns[i], err = store.Pool().Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, conn := range conns {
		conn.Release()
	}
	l := startLoad(t.Context(), store.Sessions(), ids)
	l.awaitAll(t, now())
	network.forget()
	since := now()
	l.giveUpUntil(t, "every writer's messages are acknowledged again", func() bool { return l.allSince(since) || l.failed() })
	took := l.awaitAll(t, since)
	l.stop(t)
	if l.seen("") == 0 {
		t.Error("no client noticed")
	}
	t.Logf("%v until every writer's messages are acknowledged again; errors: %v", took.Round(time.Millisecond), l.errors)
	checkNothingLeft(t, s.url, store.Pool())
	if found := inspect(t, s.url, ids, l.acknowledged, nil); found != (findings{}) {
		t.Errorf("afterwards: %+v", found)
	}
}
