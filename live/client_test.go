package live_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// event is one that a client has got.
type event struct {
	id, name, data string
	dispatched     bool // it had data
}

// sequence is the part of the id behind the period.
func (e event) sequence() string {
	_, sequence, _ := strings.Cut(e.id, ".")
	return sequence
}

// client reads events as the standard says. It notes what EventSource hides.
type client struct {
	lines    *bufio.Reader
	body     io.Closer
	response *http.Response
	lastID   string
	begin    string // the data of the first event
	comments []string
	retries  []int
}

// next returns the next event, or an error at the end of the response, whose last event
// does not count if it is not complete.
func (c *client) next() (event, error) {
	var e event
	var data []string
	fields, retries := 0, len(c.retries)
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			return event{}, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && fields > 0 && data == nil && len(c.retries) > retries: // how to connect again
			return c.next()
		case line == "" && e.name == live.BeginEvent:
			c.begin = data[0]
			return c.next()
		case line == "" && fields > 0:
			e.id, e.data, e.dispatched = c.lastID, strings.Join(data, "\n"), data != nil
			return e, nil
		case line == "":
			continue
		case name == "":
			c.comments = append(c.comments, value)
			if value == "" {
				return event{name: "heartbeat"}, nil
			}
			continue
		case name == "id":
			c.lastID = value
		case name == "event":
			e.name = value
		case name == "data":
			data = append(data, value)
		case name == "retry":
			n, err := strconv.Atoi(value)
			if err != nil {
				return event{}, err
			}
			c.retries = append(c.retries, n)
			continue
		}
		fields++
	}
}

// want reads events until one that is no heartbeat, and fails the test if there is none.
func (c *client) want(t *testing.T) event {
	t.Helper()
	for {
		e, err := c.next()
		if err != nil {
			t.Fatalf("no event: %v", err)
		}
		if e.name != "heartbeat" {
			return e
		}
	}
}

// drain reads to the end of the response and returns the events.
func (c *client) drain() (events []event) {
	for {
		e, err := c.next()
		if err != nil {
			return events
		}
		if e.name != "heartbeat" {
			events = append(events, e)
		}
	}
}

// world is a handler that is served, and its store.
type world struct {
	*testing.T

	store   repo.Store
	handler *live.Handler
	server  *httptest.Server
	session repo.ID
}

// anybody lets every reader read the session.
func anybody(id repo.ID) func(*http.Request) (live.Target, error) {
	return func(*http.Request) (live.Target, error) { return live.Target{Session: id}, nil }
}

// newWorld serves a session with messages. change changes the options.
func newWorld(t *testing.T, messages int, change func(*live.Options)) *world {
	t.Helper()
	w := &world{T: t, store: memory.New()}
	t.Cleanup(func() { _ = w.store.Close() })
	session, err := w.store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	w.session = session.ID
	for i := range messages {
		w.write("message " + strconv.Itoa(i))
	}
	w.serve(w.store, change)
	return w
}

// serve serves the session as it is in store.
func (w *world) serve(store repo.Store, change func(*live.Options)) {
	w.Helper()
	options := live.Options{Authorize: anybody(w.session), Retry: time.Millisecond, WriteTimeout: time.Hour}
	if change != nil {
		change(&options)
	}
	var err error
	if w.handler, err = live.New(store, options); err != nil {
		w.Fatal(err)
	}
	w.server = httptest.NewServer(w.handler)
	w.Cleanup(w.stop)
}

func (w *world) stop() {
	if err := w.handler.Shutdown(context.Background()); err != nil {
		w.Errorf("shutdown: %v", err)
	}
	w.server.Close()
}

// id returns the id of the event of a message.
func (w *world) id(sequence int) string { return w.session.String() + "." + strconv.Itoa(sequence) }

func (w *world) write(content string) {
	w.Helper()
	_, err := w.store.Sessions().Append(w.Context(), w.session, repo.NewMessage{Role: repo.RoleUser, Content: content})
	if err != nil {
		w.Error(err)
	}
}

// request returns a request with these headers, as "Name: value".
func (w *world) request(method, query string, headers ...string) *http.Request {
	r, err := http.NewRequestWithContext(await.Context(w), method, w.server.URL+"/"+query, nil)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// get begins to read.
func (w *world) get(query string, headers ...string) *client {
	w.Helper()
	c := w.do(w.request(http.MethodGet, query, headers...))
	if c.response.StatusCode != http.StatusOK {
		w.Fatalf("status %s", c.response.Status)
	}
	return c
}

// do sends any request.
func (w *world) do(r *http.Request) *client {
	w.Helper()
	response, err := w.server.Client().Do(r)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = response.Body.Close() })
	return &client{lines: bufio.NewReader(response.Body), body: response.Body, response: response}
}
