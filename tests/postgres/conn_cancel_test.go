package postgres

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// cancelRequest is the code of the message that asks a server to cancel.
const cancelRequest = 80877102

// losingCancel is a network that loses the first request to cancel, as if it came
// before the server had begun the statement.
func losingCancel(t *testing.T, databaseURL string) (through string, lost *atomic.Int32) {
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
	lost = &atomic.Int32{}
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
				if binary.BigEndian.Uint32(first[4:]) == cancelRequest && lost.Add(1) == 1 {
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
	return u.String(), lost
}

// When its caller's context ends, a statement that waits for a lock is cancelled at
// the server, and its place in the pool is freed, even if the first request to cancel
// has no effect.
func TestCancelIsAskedAgain(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewDatabase(t)
	through, lost := losingCancel(t, databaseURL)
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
