package mcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	mcpstore "github.com/seed-df90f812/agentstore/adapters/mcp"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
)

const (
	progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`
	question = `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`
	result   = `{"jsonrpc":"2.0","id":1,"result":{}}`
	failure  = `{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"failed"}}`
)

// response is one that a replica serves.
type response struct {
	t    *testing.T
	body *written
	done chan struct{}
	end  context.CancelFunc
}

// written is what it has written.
type written struct {
	*httptest.ResponseRecorder
	events atomic.Int64
}

func (w *written) Write(data []byte) (int, error) {
	n, err := w.ResponseRecorder.Write(data)
	if strings.Contains(string(data), "data: ") {
		w.events.Add(1)
	}
	return n, err
}

// resume resumes a stream of session s at a replica that does not have the session.
func resume(t *testing.T, events *mcpstore.EventStore, last string) *response {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	request.Header.Set("Mcp-Session-Id", "s")
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	r := &response{t, &written{ResponseRecorder: httptest.NewRecorder()}, make(chan struct{}), end}
	go func() {
		defer close(r.done)
		events.Handler(http.NotFoundHandler()).ServeHTTP(r.body, request)
	}()
	return r
}

// ended checks that the response ends by itself after these events.
func (r *response) ended(name string, ids ...string) {
	r.t.Helper()
	await.Value(r.t, name+": the response ends", r.done)
	var got []string
	for line := range strings.Lines(r.body.Body.String()) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "id: "); ok {
			got = append(got, id)
		}
	}
	if r.body.Code != http.StatusOK || strings.Join(got, " ") != strings.Join(ids, " ") {
		r.t.Errorf("%s: status %d, events %v, want %v", name, r.body.Code, got, ids)
	}
}

// stays checks that the response goes on after this many events.
func (r *response) stays(name string, events int) {
	r.t.Helper()
	await.For(r.t, name, func() bool { return int(r.body.events.Load()) == events })
	select {
	case <-r.done:
		r.t.Errorf("%s: the response has ended", name)
	case <-time.After(100 * time.Millisecond): // pace: it would have ended by then
	}
}

// A stream that is resumed at another replica ends with the answer, and only then.
func TestStreamEndsWithAnswer(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		own, other := newEvents(t, stores[0], 0), newEvents(t, stores[1], 0)
		send := func(stream string, events ...string) {
			t.Helper()
			for _, event := range events {
				must(t, own.Append(t.Context(), "s", stream, []byte(event)))
			}
		}
		must(t, own.Open(t.Context(), "s", ""))
		must(t, own.Open(t.Context(), "s", "r"))
		send("r", "", progress, question)
		live := resume(t, other, "r_0")
		live.stays("a question to the client", 2)
		send("r", result)
		live.ended("an answer that comes", "r_1", "r_2", "r_3")
		resume(t, other, "r_1").ended("an answer that was there", "r_2", "r_3")
		resume(t, other, "r_3").ended("a client that has the answer")

		must(t, own.Open(t.Context(), "s", "failed"))
		send("failed", failure)
		resume(t, other, "failed_0").ended("a failure that the client has")

		// A batch has several answers. None is left out, and a client may have to come again.
		must(t, own.Open(t.Context(), "s", "batch"))
		send("batch", "", result)
		resume(t, other, "batch_0").ended("the first answer of a batch", "batch_1")
		send("batch", progress)
		rest := resume(t, other, "batch_0")
		rest.stays("between the answers of a batch", 2)
		send("batch", failure)
		rest.ended("the second answer of a batch", "batch_1", "batch_2", "batch_3")
		resume(t, other, "batch_1").ended("a batch that is answered", "batch_2", "batch_3")
	})
}

// When a session ends, its streams end at the other replicas, after all of their events.
func TestStreamsEndWithSession(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		streams := &ends{Streams: stores[0].Streams()}
		own, err := mcpstore.NewEventStore(streams, 0)
		must(t, err)
		other := newEvents(t, stores[1], 0)
		for _, id := range []string{"", "r", "answered", "another session's"} {
			session := "s"
			if id == "another session's" {
				session = "s/"
			}
			must(t, own.Open(t.Context(), session, id))
			must(t, own.Append(t.Context(), session, id, nil))
			must(t, own.Append(t.Context(), session, id, []byte(progress)))
		}
		must(t, own.Append(t.Context(), "s", "answered", []byte(result)))
		responses := map[string]*response{"": resume(t, other, ""), "r": resume(t, other, "r_0")}
		for id, response := range responses {
			response.stays("stream "+id, 1)
			must(t, own.Append(t.Context(), "s", id, []byte(question)))
		}
		must(t, own.SessionClosed(t.Context(), "s"))
		for id, response := range responses {
			response.ended("stream "+id, id+"_1", id+"_2")
		}
		// A follower of an answered stream knows its end: no transaction for each former request.
		if n := streams.finished.Load(); n != 2 {
			t.Errorf("%d streams were finished, want 2", n)
		}
		must(t, own.Append(t.Context(), "s/", "another session's", []byte(progress)))
		must(t, own.SessionClosed(t.Context(), "s"))
	})
}

// ends counts the streams that were finished.
type ends struct {
	repo.Streams
	finished atomic.Int64
}

func (e *ends) Finish(ctx context.Context, stream repo.Stream) error {
	e.finished.Add(1)
	return e.Streams.Finish(ctx, stream)
}

// process is one that serves MCP, gracefully.
type process struct {
	*http.Server
	url    *url.URL
	events *mcpstore.EventStore
	mcp    *mcp.Server
	gets   atomic.Int64 // under way
}

// start starts a process, whose tool "wait" waits for answer.
func start(t *testing.T, events *mcpstore.EventStore, answer <-chan struct{}) *process {
	t.Helper()
	p := &process{events: events, mcp: mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)}
	mcp.AddTool(p.mcp, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		select {
		case <-answer:
			return &mcp.CallToolResult{}, nil, nil
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	})
	handler := events.Handler(mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return p.mcp }, &mcp.StreamableHTTPOptions{EventStore: events}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			p.gets.Add(1)
			defer p.gets.Add(-1)
		}
		handler.ServeHTTP(w, r)
	}))
	p.Server = server.Config
	t.Cleanup(func() {
		p.endSessions()
		server.CloseClientConnections()
		server.Close()
	})
	var err error
	p.url, err = url.Parse(server.URL)
	must(t, err)
	return p
}

func (p *process) endSessions() {
	for session := range p.mcp.Sessions() {
		_ = session.Close()
	}
}

// serves waits until this many GETs are under way.
func (p *process) serves(t *testing.T, gets int64) {
	t.Helper()
	await.For(t, fmt.Sprintf("%d GETs to be under way", gets), func() bool { return p.gets.Load() == gets })
}

// router brings a POST to one process and a GET to another one. The response to a POST is
// cut off after its first event.
type router struct {
	http.RoundTripper
	home *process
	away atomic.Pointer[process]
}

func (r *router) RoundTrip(request *http.Request) (*http.Response, error) {
	to := r.home
	if request.Method == http.MethodGet {
		to = r.away.Load()
	}
	request = request.Clone(request.Context())
	request.URL.Host, request.Host = to.url.Host, to.url.Host
	response, err := r.RoundTripper.RoundTrip(request)
	if err != nil || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return response, err
	}
	var body io.Reader = response.Body
	if request.Method == http.MethodPost && request.Header.Get("Mcp-Session-Id") != "" { // a call
		body = &firstEvent{lines: bufio.NewReader(response.Body)}
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader("retry: 1\n\n"), body), response.Body}
	return response, nil
}

// firstEvent is the first event of a stream.
type firstEvent struct {
	lines *bufio.Reader
	text  []byte
	over  bool
}

func (f *firstEvent) Read(data []byte) (int, error) {
	if len(f.text) == 0 {
		if f.over {
			return 0, io.EOF
		}
		f.text, _ = f.lines.ReadBytes('\n')
		f.over = len(f.text) <= 1
	}
	n := copy(data, f.text)
	f.text = f.text[n:]
	return n, nil
}

// The SDK's client goes on at another process: there its responses end with the answer and
// with the session, and a graceful shutdown waits for none.
func TestShutdown(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		answer := make(chan struct{})
		home := start(t, newEvents(t, stores[0], 0), answer)
		away, next := start(t, newEvents(t, stores[1], 0), answer), start(t, newEvents(t, stores[1], 0), answer)
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		network := &router{RoundTripper: transport, home: home}
		network.away.Store(away)
		client := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil)
		session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
			Endpoint: "http://replicas/", HTTPClient: &http.Client{Transport: network},
		}, nil)
		must(t, err)
		defer func() { _ = session.Close() }()
		called := make(chan error, 1)
		call := func() {
			_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait"})
			called <- err
		}

		away.serves(t, 1) // the session's own stream
		go call()
		away.serves(t, 2)
		answer <- struct{}{}
		must(t, <-called)
		away.serves(t, 1)

		// The other process is shut down while it serves a call: the client goes on at a third one.
		go call()
		away.serves(t, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond) // short: the responses go on
		defer cancel()
		if err := away.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a shutdown of which the event store does not know: %v", err)
		}
		network.away.Store(next)
		away.RegisterOnShutdown(away.events.Shutdown)
		must(t, away.Shutdown(await.Context(t)))
		next.serves(t, 2) // the call has had no event since
		answer <- struct{}{}
		must(t, <-called)
		next.serves(t, 1)

		// The session ends where it is, and no response waits any more.
		home.endSessions()
		next.serves(t, 0)
		must(t, home.Shutdown(await.Context(t)))
		must(t, next.Shutdown(await.Context(t)))
	})
}

// pipe is a listener with one connection, which has no buffer.
type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error {
	close(p.closed)
	return nil
}

func (p *pipe) Addr() net.Addr { return &net.UnixAddr{} }

// A shutdown waits only briefly for a client that does not read. One that reads gets the
// response's end.
func TestShutdownWhileWriting(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		own := newEvents(t, stores[0], 0)
		must(t, own.Open(t.Context(), "s", ""))
		must(t, own.Open(t.Context(), "s", "r"))
		must(t, own.Append(t.Context(), "s", "r", nil))
		for _, reads := range []bool{true, false} {
			other := newEvents(t, stores[1], 0)
			server := &http.Server{Handler: other.Handler(http.NotFoundHandler()), ReadHeaderTimeout: time.Minute}
			server.RegisterOnShutdown(other.Shutdown)
			listener := &pipe{make(chan net.Conn, 1), make(chan struct{})}
			client, conn := net.Pipe()
			listener.conns <- conn
			served := make(chan struct{})
			go func() {
				defer close(served)
				_ = server.Serve(listener)
			}()
			fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: x\r\nMcp-Session-Id: s\r\nLast-Event-ID: r_0\r\n\r\n")
			lines := bufio.NewReaderSize(client, 16)
			_, err := lines.ReadByte() // the server is about to write the rest
			must(t, err)
			end := make(chan error, 1)
			if reads {
				go func() {
					text, err := io.ReadAll(lines)
					if !strings.HasSuffix(string(text), "\r\n0\r\n\r\n") {
						err = errors.Join(err, io.ErrUnexpectedEOF)
					}
					end <- err
				}()
			} else {
				end <- nil
			}
			if err := server.Shutdown(await.Context(t)); err != nil {
				t.Errorf("a client that reads, %v: %v", reads, err)
			}
			_ = client.Close()
			if err := <-end; err != nil {
				t.Errorf("the end of the response: %v", err)
			}
			_ = server.Close()
			<-served
		}
	})
}

// stalled is a database that does not answer.
type stalled struct {
	repo.Streams
	asked chan struct{}
}

func (s *stalled) Get(ctx context.Context, _ string) (repo.Stream, error) {
	select {
	case s.asked <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return repo.Stream{}, ctx.Err()
}

// A shutdown does not wait for a database that does not answer; nor does a later request.
func TestShutdownWithoutDatabase(t *testing.T) {
	t.Parallel()
	streams := &stalled{asked: make(chan struct{}, 1)}
	events, err := mcpstore.NewEventStore(streams, 0)
	must(t, err)
	first := resume(t, events, "r_0")
	<-streams.asked
	events.Shutdown()
	for _, response := range []*response{first, resume(t, events, "")} {
		await.Value(t, "the response ends", response.done)
		if response.body.Code != http.StatusServiceUnavailable {
			t.Errorf("status %d", response.body.Code)
		}
	}
}
