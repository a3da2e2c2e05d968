package mcp

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-df90f812/agentstore"
	mcpstore "github.com/seed-df90f812/agentstore/adapters/mcp"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// counting is what the tool "count" of a test does: it sends progress 1, 2, 3, … and every
// few steps waits until the client has all of it. So the client is cut off both while
// events wait for it and while it waits for them.
type counting struct {
	steps int
	got   func(step int) bool
	over  <-chan struct{} // the client has gone for good
}

func (c counting) count(ctx context.Context, request *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	for step := 1; step <= c.steps; step++ {
		progress := &mcp.ProgressNotificationParams{ProgressToken: request.Params.GetProgressToken(), Progress: float64(step)}
		if err := request.Session.NotifyProgress(ctx, progress); err != nil {
			return nil, nil, err
		}
		for step%10 == 0 && !c.got(step) {
			select {
			case <-c.over:
				return nil, nil, context.Canceled
			case <-time.After(time.Millisecond): // pace: it is looked at again
			}
		}
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
}

// serve starts a replica.
func serve(t *testing.T, tool counting, events mcp.EventStore) (*url.URL, *mcp.Server) {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "counter"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "count"}, tool.count)
	var handler http.Handler = mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{EventStore: events})
	if ours, ok := events.(*mcpstore.EventStore); ok {
		handler = ours.Handler(handler)
	}
	replica := httptest.NewServer(handler)
	t.Cleanup(func() {
		for session := range server.Sessions() {
			_ = session.Close()
		}
		replica.CloseClientConnections()
		replica.Close()
	})
	address, err := url.Parse(replica.URL)
	if err != nil {
		t.Fatal(err)
	}
	return address, server
}

// newEvents returns an event store of ours.
func newEvents(t testing.TB, store repo.Store, ttl time.Duration) *mcpstore.EventStore {
	t.Helper()
	events, err := mcpstore.NewEventStore(store.Streams(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// stores returns two stores with the same data, as two processes have them.
func stores(t *testing.T, database func(t testing.TB) string) [2]repo.Store {
	t.Helper()
	address := database(t)
	if strings.HasPrefix(address, "memory:") {
		return [2]repo.Store{pgtest.OpenStore(t, address, agentstore.Options{}), pgtest.OpenStore(t, address, agentstore.Options{})}
	}
	return [2]repo.Store{
		pgtest.OpenPool(t, pgtest.NewPool(t, address), agentstore.Options{}),
		pgtest.OpenPool(t, pgtest.NewPool(t, address), agentstore.Options{}),
	}
}

// databases are where the tests run.
var databases = map[string]func(t testing.TB) string{
	"PostgreSQL": pgtest.NewDatabase,
	"Memory":     func(t testing.TB) string { return "memory://" + strings.ReplaceAll(t.Name(), "/", "-") },
}

// balancer is the network between a client and its replicas. It brings a POST to the first
// one, which has the sessions, and each GET to the other one or to the first in turn. It
// cuts each stream off after some bytes.
type balancer struct {
	http.RoundTripper
	replicas [2]*url.URL
	resumed  atomic.Int64
}

func (b *balancer) RoundTrip(request *http.Request) (*http.Response, error) {
	replica := b.replicas[0]
	if request.Method == http.MethodGet {
		replica = b.replicas[b.resumed.Add(1)%2]
	}
	for {
		copied := request.Clone(request.Context())
		copied.URL.Host, copied.Host = replica.Host, replica.Host
		response, err := b.RoundTripper.RoundTrip(copied)
		if err != nil || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
			if err == nil && response.StatusCode == http.StatusConflict { // it has not noticed yet that the client was cut off
				_ = response.Body.Close()
				continue
			}
			return response, err
		}
		body := response.Body
		response.Body = &cut{body, io.MultiReader(strings.NewReader("retry: 1\n\n"), body), 300 + rand.IntN(1500)}
		return response, nil
	}
}

// cut is a stream that ends before its end.
type cut struct {
	io.Closer
	reader io.Reader
	left   int
}

func (c *cut) Read(data []byte) (int, error) {
	if c.left == 0 {
		_ = c.Close()
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.reader.Read(data[:min(len(data), c.left)])
	c.left -= n
	return n, err
}
