package live_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/repo/repotest/bykey"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	c := w.get("")
	w.write("later,\nwith <two> lines")
	for i, content := range []string{"message 0", "message 1", "later,\nwith <two> lines"} {
		e := c.want(t)
		var data struct {
			Sequence  int64
			ID        repo.ID
			Role      repo.Role
			Content   string
			Metadata  map[string]any
			CreatedAt time.Time `json:"created_at"`
		}
		if err := json.Unmarshal([]byte(e.data), &data); err != nil {
			t.Fatal(err)
		}
		if e.sequence() != strconv.Itoa(i) || e.name != "" || data.Sequence != int64(i) || data.Content != content || data.Role != repo.RoleUser ||
			data.ID == (repo.ID{}) || data.Metadata == nil || data.CreatedAt.IsZero() {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if len(c.retries) != 1 || c.retries[0] < 1 || c.retries[0] > 2 {
		t.Errorf("told to wait %v ms, want one or two", c.retries)
	}
	for name, value := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache, no-store, no-transform",
		"X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff",
	} {
		if got := c.response.Header.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	if !c.response.Close {
		t.Error("the connection is kept for other requests")
	}
}

func TestPosition(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, nil)
	id := w.session.String()
	for _, test := range []struct {
		query  string
		header []string
		first  string // sequence, or the status
	}{
		{"", nil, "0"},
		{"?after=" + w.id(2), nil, "3"},
		{"?after=" + id, nil, "0"},
		{"", []string{"Last-Event-ID: " + w.id(1)}, "2"},
		{"", []string{"Last-Event-ID: " + id}, "0"},
		{"", []string{"Last-Event-ID: "}, "0"},
		{"?after=" + w.id(3), []string{"Last-Event-ID: " + w.id(1)}, "2"}, // EventSource repeats its address
		{"?after=nonsense", []string{"Last-Event-ID: " + w.id(1)}, "2"},
		{"?after=" + w.id(5), nil, "409"},
		{"", []string{"Last-Event-ID: " + w.id(5)}, "409"},
		{"", []string{"Last-Event-ID: end"}, "204"},
		{"?after=end", nil, "204"},
		{"?after=", nil, "400"},
		{"?after=" + id + "&after=" + id, nil, "400"},
		{"?after=" + id + ".9223372036854775808", nil, "400"},
		{"?after=" + id + "~", nil, "400"},
		{"?after=" + id + "~" + id + "~" + id, nil, "400"}, // twice
		{"?after=" + id + "~x", nil, "400"},
		{"?after=" + id + many(17), nil, "400"},
		{"", []string{"Last-Event-ID: 1"}, "400"}, // of which session?
		{"", []string{"Last-Event-ID: " + id + ".-1"}, "400"},
		{"", []string{"Last-Event-ID: " + id + ".+1"}, "400"},
		{"", []string{"Last-Event-ID: " + id + ".01"}, "400"},
		{"", []string{"Last-Event-ID: " + id + "."}, "400"},
		{"", []string{"Last-Event-ID: 1.0"}, "400"},
		{"", []string{"Last-Event-ID: " + id + ".9223372036854775807"}, "400"},
		{"", []string{"Last-Event-ID: " + w.id(1), "Last-Event-ID: " + w.id(2)}, "400"},
	} {
		c := w.do(w.request(http.MethodGet, test.query, test.header...))
		got := strconv.Itoa(c.response.StatusCode)
		if got == "200" {
			got = c.want(t).sequence()
		}
		if got != test.first {
			t.Errorf("%q %q: got %s, want %s", test.query, test.header, got, test.first)
		}
		_ = c.body.Close()
	}
}

// many returns the places of many streams, as they are in an id.
func many(count int) (text string) {
	for range count {
		text += "~" + repo.NewID().String()
	}
	return text
}

// Clients that are cut off again and again, while others write, get each message once, in
// order.
func TestResume(t *testing.T) {
	t.Parallel()
	const writers, each, readers = 4, 50, 4
	w := newWorld(t, 0, nil)
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for i := range each {
				w.write(strconv.Itoa(i))
			}
		})
	}
	for reader := range readers {
		running.Go(func() {
			for next, last := 0, ""; next < writers*each; {
				r := w.request(http.MethodGet, "")
				r.Header.Set("Last-Event-ID", last)
				c, err := open(w.server.Client(), r)
				if err != nil {
					t.Error(err)
					return
				}
				for range min(1+reader*3, writers*each-next) {
					e, err := c.next()
					if err != nil || e.sequence() != strconv.Itoa(next) {
						t.Errorf("reader %d got %q, %v, want %d", reader, e.id, err, next)
						_ = c.body.Close()
						return
					}
					next, last = next+1, e.id
				}
				_ = c.body.Close()
			}
		})
	}
	running.Wait()
}

func TestDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	c := w.get("")
	c.want(t)
	if _, err := w.store.Sessions().Delete(t.Context(), w.session); err != nil {
		t.Fatal(err)
	}
	e := c.want(t)
	if e.name != live.EndEvent || e.data != `{"reason":"deleted"}` {
		t.Errorf("got %+v", e)
	}
	if rest := c.drain(); len(rest) > 0 {
		t.Errorf("after the end: %v", rest)
	}
	for header, status := range map[string]int{"Last-Event-ID: " + e.id: 204, "X: y": 404} {
		if c := w.do(w.request(http.MethodGet, "", header)); c.response.StatusCode != status {
			t.Errorf("%s: status %s, want %d", header, c.response.Status, status)
		}
	}
	// A page that was cut off before the end reads it when it comes back.
	for query, header := range map[string]string{"": "Last-Event-ID: " + w.id(0), "?after=" + w.id(0): "X: y", "?after=" + w.session.String(): "X: y"} {
		c := w.get(query, header)
		if got := c.want(t); got != e || len(c.drain()) > 0 {
			t.Errorf("%q, %q: got %+v", query, header, got)
		}
	}
}

// A client of a conversation that is deleted, and made again under its key, is told that what it
// has read is gone, wherever it was, and gets nothing of the other one. One that has read nothing
// knows what it was about to read.
func TestMadeAgain(t *testing.T) {
	t.Parallel()
	key := repo.SessionKey{Key: "conversation"}
	for _, messages := range []int{0, 3} {
		w := newWorld(t, 0, nil)
		named := bykey.Of(w.store.Sessions(), key)
		fill := func(count int, content string) {
			t.Helper()
			session, err := w.store.Sessions().Create(t.Context(), repo.NewSession{Key: key.Key})
			if err != nil {
				t.Fatal(err)
			}
			w.session = session.ID
			for range count {
				w.write(content)
			}
		}
		fill(messages, "old")
		w.serve(w.store, func(o *live.Options) {
			o.Authorize = func(r *http.Request) (live.Target, error) {
				session, err := named.Get(r.Context())
				return live.Target{Session: session.ID}, err
			}
		})
		old := w.session.String()
		// What a client has: the ID before the first event, and then the events' ids.
		c := w.get("")
		for range 3 { // how long to wait, and then where it is
			line, err := c.lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			c.lastID = strings.TrimPrefix(line, "id: ")
		}
		if c.lastID != old+"\n" {
			t.Fatalf("the response begins with %q", c.lastID)
		}
		positions := []string{old}
		for range messages {
			positions = append(positions, c.want(t).id)
		}
		_ = c.body.Close()
		ends := func(reason string) {
			t.Helper()
			for _, position := range positions {
				for query, header := range map[string]string{"": "Last-Event-ID: " + position, "?after=" + position: "X: y"} {
					c := w.get(query, header)
					if e := c.want(t); e.id != "end" || e.data != `{"reason":"`+reason+`"}` || len(c.drain()) > 0 {
						t.Errorf("%q, %q: got %+v, want the end, %s", query, header, e, reason)
					}
				}
			}
			if c := w.do(w.request(http.MethodGet, "", "Last-Event-ID: end")); c.response.StatusCode != http.StatusNoContent {
				t.Errorf("after the end: status %s", c.response.Status)
			}
		}
		if _, err := named.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		ends("deleted")
		if c := w.do(w.request(http.MethodGet, "")); c.response.StatusCode != http.StatusNotFound {
			t.Errorf("who never knew it: status %s", c.response.Status)
		}
		fill(5, "new")
		ends("gone")
		c = w.get("")
		for i := range 5 {
			if e := c.want(t); e.id != w.id(i) || !strings.Contains(e.data, "new") {
				t.Errorf("got %+v", e)
			}
		}
	}
}

// A panic in a function of the caller's ends its response alone, and leaves its seat.
func TestPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, func(o *live.Options) {
		o.MaxResponses, o.MaxPerReader, o.Heartbeat = 1, 1, time.Millisecond
		o.Message = func(_ context.Context, m repo.Message) (live.Event, error) {
			if m.Sequence == 1 {
				panic(http.ErrAbortHandler)
			}
			return live.Event{Data: []byte("x")}, nil
		}
	})
	for range 3 {
		await.For(t, "the seat is not left", func() bool {
			c := w.do(w.request(http.MethodGet, ""))
			defer func() { _ = c.body.Close() }()
			c.drain()
			return c.response.StatusCode == http.StatusOK
		})
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, func(o *live.Options) { o.Heartbeat = time.Millisecond })
	c := w.get("")
	for range 3 {
		if e, err := c.next(); err != nil || e.name != "heartbeat" {
			t.Fatalf("got %+v, %v", e, err)
		}
	}
	w.write("a")
	if e := c.want(t); e.sequence() != "0" {
		t.Errorf("got %+v", e)
	}
}

// What is not flushed because more is known to come, goes with the next heartbeat.
func TestHeartbeatFlushes(t *testing.T) {
	t.Parallel()
	reached := make(chan struct{})
	w := newWorld(t, 3, func(o *live.Options) {
		o.Heartbeat = 10 * time.Millisecond
		o.Message = func(ctx context.Context, m repo.Message) (live.Event, error) {
			if m.Sequence == 1 {
				select {
				case <-reached:
				case <-ctx.Done():
				}
			}
			return live.MessageEvent(ctx, m)
		}
	})
	c := w.get("")
	if e := c.want(t); e.sequence() != "0" {
		t.Errorf("got %+v", e)
	}
	close(reached)
	if e := c.want(t); e.sequence() != "1" {
		t.Errorf("got %+v", e)
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	for method, status := range map[string]int{"GET": 200, "HEAD": 200, "OPTIONS": 204, "POST": 405, "DELETE": 405, "PUT": 405} {
		c := w.do(w.request(method, ""))
		if c.response.StatusCode != status {
			t.Errorf("%s: status %s, want %d", method, c.response.Status, status)
		}
		if allow := c.response.Header.Get("Allow"); (status == 405 || method == "OPTIONS") && allow != "GET, HEAD, OPTIONS" {
			t.Errorf("%s: Allow: %q", method, allow)
		}
		if body, err := io.ReadAll(io.LimitReader(c.lines, 1)); method == "HEAD" && (err != nil || len(body) > 0 ||
			c.response.Header.Get("Content-Type") != "text/event-stream; charset=utf-8") {
			t.Errorf("HEAD: %q, %v", body, c.response.Header)
		}
		_ = c.body.Close()
	}
}

func TestAuthorize(t *testing.T) {
	t.Parallel()
	var answer error
	w := newWorld(t, 1, func(o *live.Options) {
		o.Authorize = func(*http.Request) (live.Target, error) { return live.Target{}, answer }
	})
	for _, test := range []struct {
		err    error
		status int
		text   string
	}{
		{errors.New("secret"), 403, "Forbidden"},
		{&live.StatusError{Status: 401, Err: errors.New("secret"), Header: http.Header{"Www-Authenticate": {"Bearer"}}}, 401, "Unauthorized"},
		{fmt.Errorf("wrapped: %w", &live.StatusError{Status: 402, Public: "pay first", Err: errors.New("secret")}), 402, "pay first"},
		{&live.StatusError{Status: 200, Public: "secret"}, 500, "Internal Server Error"},
		{&repo.NotFoundError{Kind: "secret"}, 404, "Not Found"},
		{&repo.NotFoundError{Kind: "stream", Name: "secret", Gone: true}, 410, "Gone"},
		{fmt.Errorf("secret: %w", repo.ErrUnavailable), 503, "Service Unavailable"},
		{fmt.Errorf("secret: %w", repo.ErrClosed), 503, "Service Unavailable"},
		{fmt.Errorf("secret: %w", repo.ErrContention), 503, "Service Unavailable"},
		{nil, 404, "Not Found"}, // the zero id
	} {
		answer = test.err
		c := w.do(w.request(http.MethodGet, ""))
		body, err := io.ReadAll(c.lines)
		if err != nil || c.response.StatusCode != test.status || strings.TrimSpace(string(body)) != test.text {
			t.Errorf("%v: status %s, %q, %v", test.err, c.response.Status, body, err)
		}
		if test.status == 401 && c.response.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Error("without the header")
		}
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	const listed = "https://app.example.com"
	w := newWorld(t, 1, func(o *live.Options) { o.Origins = []string{listed} })
	for _, test := range []struct {
		headers []string
		status  int
		cors    bool
	}{
		{nil, 200, false},
		{[]string{"Origin: " + w.server.URL}, 200, false},
		{[]string{"Origin: https://proxied.example", "Sec-Fetch-Site: same-origin"}, 200, false},
		{[]string{"Sec-Fetch-Site: none"}, 200, false},
		{[]string{"Origin: " + listed}, 200, true},
		{[]string{"Origin: " + listed, "Sec-Fetch-Site: cross-site"}, 200, true},
		{[]string{"Origin: https://app.example.com.evil.example"}, 403, false},
		{[]string{"Origin: http://app.example.com"}, 403, false},
		{[]string{"Origin: null"}, 403, false},
		{[]string{"Sec-Fetch-Site: cross-site"}, 403, false},
		{[]string{"Sec-Fetch-Site: same-site"}, 403, false},
	} {
		for _, method := range []string{http.MethodGet, http.MethodOptions} {
			c := w.do(w.request(method, "", append(test.headers, "Access-Control-Request-Method: GET")...))
			status := test.status
			if method == http.MethodOptions && status == 200 {
				status = 204
			}
			allowed := c.response.Header.Get("Access-Control-Allow-Origin") == listed && c.response.Header.Get("Access-Control-Allow-Credentials") == "true"
			if c.response.StatusCode != status || allowed != test.cors || c.response.Header.Get("Vary") != "Origin" {
				t.Errorf("%s %q: status %s, %v", method, test.headers, c.response.Status, c.response.Header)
			}
			if headers := c.response.Header.Get("Access-Control-Allow-Headers"); method == http.MethodOptions && (headers != "") != test.cors {
				t.Errorf("%q: allowed headers %q", test.headers, headers)
			}
			_ = c.body.Close()
		}
	}
}

func TestMessageOption(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4, func(o *live.Options) {
		o.MaxEventBytes = 100
		o.Message = func(_ context.Context, m repo.Message) (live.Event, error) {
			switch m.Sequence {
			case 0:
				return live.Event{}, nil
			case 1:
				return live.Event{Name: "two", Data: []byte("a\r\nb\n\nc\r")}, nil
			case 2:
				return live.Event{Data: make([]byte, 101)}, nil
			}
			return live.Event{Name: "a\nid: 1000", Data: []byte("x")}, nil
		}
	})
	c := w.get("")
	for _, want := range []event{
		{id: w.id(0)},
		{id: w.id(1), name: "two", data: "a\nb\n\nc\n", dispatched: true},
		{id: w.id(2), name: live.OmittedEvent, data: `{"sequence":2,"bytes":101}`, dispatched: true},
	} {
		if e := c.want(t); e != want {
			t.Errorf("got %+v, want %+v", e, want)
		}
	}
	if rest := c.drain(); len(rest) > 0 || len(c.comments) != 1 || len(c.retries) != 2 {
		t.Errorf("after an event that cannot be sent: %v, %q, %v", rest, c.comments, c.retries)
	}
}

// The deadlines of the server, which are for requests and answers that are short, do not
// end a response.
func TestServerTimeouts(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	w := newWorld(t, 0, nil)
	server := httptest.NewUnstartedServer(w.handler)
	server.Config.ReadTimeout, server.Config.WriteTimeout = timeout, timeout
	server.Start()
	w.server.Close()
	w.server = server
	var c *client
	await.For(t, "no response", func() (begun bool) { // on a busy machine the request itself may take too long
		var err error
		c, err = open(server.Client(), w.request(http.MethodGet, ""))
		return err == nil
	})
	defer func() { _ = c.body.Close() }()
	for i := range 2 {
		time.Sleep(timeout + timeout/10) // pace: past the deadlines, which ended a response then
		w.write("a")
		if e := c.want(t); e.sequence() != strconv.Itoa(i) {
			t.Errorf("got %+v", e)
		}
	}
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	server := httptest.NewUnstartedServer(w.handler)
	server.EnableHTTP2 = true
	server.StartTLS()
	w.server.Close()
	w.server = server
	first, second := w.get(""), w.get("")
	w.write("a")
	for _, c := range []*client{first, second} {
		if c.want(t).sequence() != "0" || c.want(t).sequence() != "1" || c.response.ProtoMajor != 2 || c.response.Header.Get("Connection") != "" {
			t.Errorf("%s %v", c.response.Proto, c.response.Header)
		}
	}
}

// In HTTP/2 a deadline for writes does not end a response to which nothing is written.
func TestHTTP2Idle(t *testing.T) {
	t.Parallel()
	for timeout := 300 * time.Millisecond; timeout < time.Minute; timeout *= 2 { // on a busy machine a write may take too long
		w := newWorld(t, 1, func(o *live.Options) { o.WriteTimeout, o.Heartbeat = timeout, time.Hour })
		server := httptest.NewUnstartedServer(w.handler)
		server.EnableHTTP2 = true
		server.StartTLS()
		w.server.Close()
		w.server = server
		c, err := open(server.Client(), w.request(http.MethodGet, ""))
		if err != nil {
			continue
		}
		_, err = c.next()
		time.Sleep(timeout * 3 / 2) // pace: past the deadline, which ended a response then
		w.write("a")
		if err == nil {
			_, err = c.next()
		}
		_ = c.body.Close()
		if err == nil {
			return
		}
	}
	t.Error("a response does not outlast the deadline for writes")
}

// plain is a ResponseWriter that cannot flush.
type plain struct{ http.ResponseWriter }

// wrapped is one that can, below.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestResponseWriters(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t, 1, func(o *live.Options) {
		o.Message = func(ctx context.Context, m repo.Message) (live.Event, error) {
			cancel() // the client goes
			return live.MessageEvent(ctx, m)
		}
	})
	for _, test := range []struct {
		proto  string
		wrap   func(http.ResponseWriter) http.ResponseWriter
		status int
		text   string
	}{
		{"HTTP/1.1", func(w http.ResponseWriter) http.ResponseWriter { return plain{w} }, 500, "no Flush"},
		{"HTTP/1.1", func(w http.ResponseWriter) http.ResponseWriter { return wrapped{wrapped{w}} }, 200, "id: " + w.id(0) + "\n"},
		{"HTTP/1.0", func(w http.ResponseWriter) http.ResponseWriter { return w }, 505, "HTTP/1.1"},
	} {
		recorder := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		r.Proto, r.ProtoMinor = test.proto, int(test.proto[7]-'0')
		w.handler.ServeHTTP(test.wrap(recorder), r)
		if recorder.Code != test.status || !strings.Contains(recorder.Body.String(), test.text) {
			t.Errorf("%s: status %d, %q", test.proto, recorder.Code, recorder.Body)
		}
	}
}

// failing is a store whose sessions cannot be read as they are.
type failing struct {
	repo.Store
	read, follow error
}

type failingSessions struct {
	repo.Sessions
	failing failing
}

func (f failing) Sessions() repo.Sessions { return failingSessions{f.Store.Sessions(), f} }

func (s failingSessions) Read(ctx context.Context, read repo.ReadSessions) (repo.Snapshot, error) {
	if s.failing.read != nil {
		return repo.Snapshot{}, s.failing.read
	}
	return s.Sessions.Read(ctx, read)
}

func (s failingSessions) Follow(ctx context.Context, id repo.ID, from int64) iter.Seq2[repo.Message, error] {
	return func(yield func(repo.Message, error) bool) {
		for message, err := range s.Sessions.Follow(ctx, id, from) {
			if err != nil || s.failing.follow != nil && message.Sequence == 1 {
				yield(repo.Message{}, errors.Join(err, s.failing.follow))
				return
			}
			if !yield(message, nil) {
				return
			}
		}
	}
}

func TestStoreFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	for err, status := range map[error]int{repo.ErrUnavailable: 503, repo.ErrClosed: 503, repo.ErrPermission: 500} {
		w.serve(failing{w.store, err, nil}, nil)
		c := w.do(w.request(http.MethodGet, ""))
		if c.response.StatusCode != status || status == 503 && c.response.Header.Get("Retry-After") != "1" {
			t.Errorf("%v: status %s, %v", err, c.response.Status, c.response.Header)
		}
	}
	var log strings.Builder
	w.serve(failing{w.store, nil, repo.ErrClosed}, func(o *live.Options) { o.Logger = textLogger(&log) })
	c := w.get("")
	if events := c.drain(); len(events) != 1 || events[0].sequence() != "0" || len(c.comments) != 1 || c.comments[0] != "interrupted" {
		t.Errorf("got %v, %q", events, c.comments)
	}
	w.stop()
	if !strings.Contains(log.String(), "store is closed") || strings.Contains(log.String(), "message 0") {
		t.Errorf("logged %q", log.String())
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	authorize := anybody(repo.ID{})
	for field, options := range map[string]live.Options{
		"options.Authorize":     {},
		"options.Heartbeat":     {Authorize: authorize, Heartbeat: -1},
		"options.Retry":         {Authorize: authorize, Retry: time.Microsecond},
		"options.WriteTimeout":  {Authorize: authorize, WriteTimeout: 48 * time.Hour},
		"options.MaxDuration":   {Authorize: authorize, MaxDuration: -time.Second},
		"options.MaxResponses":  {Authorize: authorize, MaxResponses: -1},
		"options.MaxPerReader":  {Authorize: authorize, MaxPerReader: -1},
		"options.MaxEventBytes": {Authorize: authorize, MaxEventBytes: -1},
		"options.Origins[1]":    {Authorize: authorize, Origins: []string{"https://a.example", "https://b.example/"}},
		"options.Origins[0]":    {Authorize: authorize, Origins: []string{"*"}},
	} {
		_, err := live.New(memory.New(), options)
		if wrong, ok := errors.AsType[*repo.InvalidError](err); !ok || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, err := live.New(nil, live.Options{Authorize: authorize})
	if wrong, ok := errors.AsType[*repo.InvalidError](err); !ok || wrong.Field != "store" {
		t.Errorf("no store: %v", err)
	}
}

// Whatever an error of a hook matches, it is not the end of what is read: it is logged, and the
// client asks again.
func TestHookFails(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{
		&repo.NotFoundError{Kind: "session"}, &repo.NotFoundError{Kind: "stream", Name: "other", Gone: true}, &repo.StreamFailedError{Reason: "of another stream"},
		repo.ErrNotFound, context.Canceled,
	} {
		var log strings.Builder
		w := newWorld(t, 2, func(o *live.Options) {
			o.Logger = textLogger(&log)
			o.Message = func(ctx context.Context, m repo.Message) (live.Event, error) {
				if m.Sequence == 1 {
					return live.Event{}, fmt.Errorf("lookup: %w", failure)
				}
				return live.MessageEvent(ctx, m)
			}
		})
		c := w.get("")
		if events := c.drain(); len(events) != 1 || events[0].id != w.id(0) || len(c.comments) != 1 || c.comments[0] != "interrupted" {
			t.Errorf("%v: got %v, %q", failure, events, c.comments)
		}
		w.stop() // the response has returned
		if !strings.Contains(log.String(), "lookup") {
			t.Errorf("%v: logged %q", failure, log.String())
		}
	}
}
