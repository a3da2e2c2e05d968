package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// cancelRequest is the code of the message that asks a server to cancel.
const cancelRequest = 80877102

// cancels is a network that does something else with each request to cancel than to carry it.
func cancels(t *testing.T, databaseURL string, each func(carry func())) (through string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal("the URL does not parse")
	}
	server := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer func() { _ = client.Close() }()
				first := make([]byte, 8)
				if _, err := io.ReadFull(client, first); err != nil {
					return
				}
				if binary.BigEndian.Uint32(first[4:]) == cancelRequest {
					rest := make([]byte, binary.BigEndian.Uint32(first)-8)
					if _, err := io.ReadFull(client, rest); err == nil {
						each(func() { exchange(server, append(first, rest...)) })
					}
					return
				}
				backend, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				defer func() { _ = backend.Close() }()
				if _, err := backend.Write(first); err != nil {
					return
				}
				running.Go(func() {
					_, _ = io.Copy(backend, client)
					_ = backend.(*net.TCPConn).CloseWrite()
				})
				_, _ = io.Copy(client, backend)
			})
		}
	})
	u.Host = listener.Addr().String()
	return u.String()
}

// exchange sends something to a server, and waits until the server has closed the connection.
func exchange(server string, message []byte) {
	backend, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer func() { _ = backend.Close() }()
	if _, err := backend.Write(message); err == nil {
		_, _ = io.Copy(io.Discard, backend)
	}
}

// When its caller's context ends, a statement that waits for a lock is cancelled at
// the server, and its place in the pool is freed, even if the first request to cancel
// has no effect.
func TestCancelIsAskedAgain(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	var lost atomic.Int32
	through := cancels(t, databaseURL, func(carry func()) {
		if lost.Add(1) > 1 { // the first is lost, as if it came before the server had begun the statement
			carry()
		}
	})
	store := pgtest.OpenStore(t, through, agentstore.Options{MaxConns: 1})
	id := pgtest.NewSession(t, store)
	conn := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, conn, "BEGIN")
	pgtest.Exec(t, conn, "SELECT FROM sessions FOR UPDATE")
	ctx, cancel := context.WithCancel(t.Context())
	updated := make(chan error, 1)
	go func() {
		_, err := store.Sessions().Update(ctx, id, repo.SessionUpdate{Actor: new("a")})
		updated <- err
	}()
	pgtest.AwaitLockWait(t, conn, 1)
	cancel()
	if err := <-updated; err == nil {
		t.Fatal("the update did not wait")
	}
	if _, err := store.Sessions().Get(await.Context(t), id); err != nil {
		t.Error(err)
	}
	if lost.Load() < 2 { // the driver asks once, and breaks the connection at last
		t.Errorf("the server was asked to cancel %d times", lost.Load())
	}
	pgtest.Exec(t, conn, "ROLLBACK")
}

// A server sends two signals for a request to cancel, and its process may have answered the first one when the second comes:
// an append that gives up its connection keeps it until then, so that no other statement is cancelled.
func TestSecondSignalCancelsNoOther(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	first, second := make(chan struct{}), make(chan struct{})
	through := cancels(t, databaseURL, func(carry func()) {
		carry()
		close(first)
		<-second
		carry()
	})
	store := pgtest.OpenStore(t, through, agentstore.Options{MaxConns: 3})
	id := pgtest.NewSession(t, store)
	holder := pgtest.Connect(t, databaseURL)
	pgtest.Exec(t, holder, "BEGIN; SELECT FROM session_counters FOR UPDATE; SELECT pg_advisory_lock(1)")
	appended := make(chan error, 1)
	go func() {
		_, err := store.Sessions().Append(t.Context(), id, user("x"))
		appended <- err
	}()
	pgtest.AwaitLockWait(t, holder, 1)
	for range 2 { // the pool has no connection now, so that the append gives its own up
		other, err := store.Pool().Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Release()
	}
	waited := make(chan error, 1)
	go func() {
		_, err := store.Pool().Exec(t.Context(), "SELECT pg_advisory_lock_shared(1)")
		waited <- err
	}()
	<-first
	time.Sleep(300 * time.Millisecond) // pace: meanwhile the other statement would get the connection
	close(second)
	await.For(t, "the other statement waits, or has failed", func() bool {
		return len(waited) > 0 || pgtest.Value[int](t, holder, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") > 0
	})
	pgtest.Exec(t, holder, "ROLLBACK; SELECT pg_advisory_unlock_all()")
	if err := errors.Join(<-waited, <-appended); err != nil {
		t.Error(err)
	}
}
