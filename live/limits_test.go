package live_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
)

func open(c *http.Client, r *http.Request) (*client, error) {
	response, err := c.Do(r) //nolint:bodyclose // the caller does
	if err != nil {
		return nil, err
	}
	return &client{lines: bufio.NewReader(response.Body), body: response.Body, response: response}, nil
}

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func TestLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, func(o *live.Options) {
		o.MaxResponses, o.MaxPerReader = 4, 2
		authorize := o.Authorize
		o.Authorize = func(r *http.Request) (live.Target, error) {
			target, err := authorize(r)
			target.Reader = r.Header.Get("Reader")
			return target, err
		}
	})
	first, second := w.get("", "Reader: a"), w.get("", "Reader: a")
	refused := func(status int, header string) {
		t.Helper()
		c := w.do(w.request(http.MethodGet, "", header))
		if c.response.StatusCode != status || c.response.Header.Get("Retry-After") == "" {
			t.Errorf("%s: status %s, want %d", header, c.response.Status, status)
		}
	}
	refused(429, "Reader: a")
	// That limit does not apply to those without a name.
	third, fourth := w.get(""), w.get("")
	refused(503, "Reader: b")
	refused(503, "X: y")
	for _, c := range []*client{first, second, third, fourth} {
		_ = c.body.Close()
	}
	// Readers that leave make room.
	await.For(t, "nobody can read", func() bool {
		var got []*client
		for _, header := range []string{"Reader: a", "Reader: a", "X: y"} {
			got = append(got, w.do(w.request(http.MethodGet, "", header)))
		}
		good := true
		for _, c := range got {
			good = good && c.response.StatusCode == http.StatusOK
			_ = c.body.Close()
		}
		return good
	})
}

func TestMaxDuration(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	for good, most := 0, 10*time.Millisecond; good < 2; most *= 2 {
		w.serve(w.store, func(o *live.Options) { o.MaxDuration = most })
		c := w.do(w.request(http.MethodGet, ""))
		if c.response.StatusCode == http.StatusServiceUnavailable {
			continue // over before it began, on a busy machine
		}
		if c.drain(); len(c.comments) != 1 || c.comments[0] != "time is up" || len(c.retries) != 2 {
			t.Errorf("%q, %v", c.comments, c.retries)
		}
		good++
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	const readers = 30
	w := newWorld(t, 1, nil)
	var clients []*client
	for range readers {
		c := w.get("")
		c.want(t)
		clients = append(clients, c)
	}
	ctx := await.Context(t)
	if err := w.handler.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		if rest := c.drain(); len(rest) > 0 || len(c.comments) != 1 || c.comments[0] != "shutting down" || len(c.retries) != 2 {
			t.Errorf("%v, %q, %v", rest, c.comments, c.retries)
		}
	}
	c := w.do(w.request(http.MethodGet, ""))
	if c.response.StatusCode != http.StatusServiceUnavailable || c.response.Header.Get("Retry-After") != "1" {
		t.Errorf("afterwards: status %s", c.response.Status)
	}
	if err := w.handler.Shutdown(ctx); err != nil {
		t.Errorf("again: %v", err)
	}
}

// Shutdown waits no longer than its context.
func TestShutdownTimeout(t *testing.T) {
	t.Parallel()
	release, entered := make(chan struct{}), make(chan struct{})
	w := newWorld(t, 1, func(o *live.Options) {
		o.Message = func(context.Context, repo.Message) (live.Event, error) {
			close(entered)
			<-release
			return live.Event{}, nil
		}
	})
	c := w.get("")
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond) // short: the response stays
	defer cancel()
	if err := w.handler.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	close(release)
	c.drain()
}

// Readers that do not read are given up, and delay no other.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	const slow = 8
	w := newWorld(t, 0, nil)
	impatient, err := live.New(w.store, live.Options{Authorize: anybody(w.session), WriteTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var came, serving atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		serving.Add(1)
		came.Add(1) // on a busy machine it may be given up at once
		defer serving.Add(-1)
		impatient.ServeHTTP(rw, r)
	}))
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if err := conn.(*net.TCPConn).SetWriteBuffer(4096); err != nil {
			t.Error(err)
		}
		return ctx
	}
	server.Start()
	defer server.Close()
	for range slow {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			t.Error(err)
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	await.For(t, "nobody is served", func() bool { return came.Load() == slow })
	c := w.get("")
	content := strings.Repeat("x", 64<<10)
	for n := 0; serving.Load() > 0 && n < 10_000; n++ {
		w.write(content)
		c.want(t)
	}
	await.For(t, "a reader who does not read is still served", func() bool { return serving.Load() == 0 })
}

// A reader that is gone is noticed by heartbeats, although nothing tells so.
func TestGoneReader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, func(o *live.Options) { o.Heartbeat = time.Millisecond })
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := httptest.NewRequest(http.MethodGet, "/", nil) // its context does not end
		w.handler.ServeHTTP(brokenWriter{httptest.NewRecorder()}, r)
	}()
	await.Value(t, "the response ends", done)
}

// brokenWriter fails at the second write.
type brokenWriter struct{ *httptest.ResponseRecorder }

func (w brokenWriter) Write(p []byte) (int, error) {
	if w.Body.Len() > 50 {
		return 0, net.ErrClosed
	}
	return w.ResponseRecorder.Write(p)
}
