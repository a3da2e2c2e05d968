package mcp

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-df90f812/agentstore"
	mcpstore "github.com/seed-df90f812/agentstore/adapters/mcp"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// after returns the events of session s that a replica would send again.
func after(t *testing.T, events mcp.EventStore, stream string, index int) (all [][]byte, err error) {
	t.Helper()
	for data, err := range events.After(t.Context(), "s", stream, index) {
		if err != nil {
			return all, err
		}
		all = append(all, data)
	}
	return all, nil
}

func onEach(t *testing.T, run func(t *testing.T, stores [2]repo.Store)) {
	t.Helper()
	t.Parallel()
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, stores(t, database))
		})
	}
}

// passing is like onEach, with a function that lets time pass for the streams: by the clock of the store in memory, and by the rows
// of a database.
func passing(t *testing.T, run func(t *testing.T, stores [2]repo.Store, pass func(time.Duration))) {
	t.Helper()
	t.Parallel()
	t.Run("Memory", func(t *testing.T) {
		t.Parallel()
		clock, address := memory.NewClock(time.Now()), databases["Memory"](t)
		first := pgtest.OpenStore(t, address, agentstore.Options{Clock: clock})
		run(t, [2]repo.Store{first, pgtest.OpenStore(t, address, agentstore.Options{})}, clock.Advance)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		replicas := stores(t, databases["PostgreSQL"])
		run(t, replicas, func(d time.Duration) {
			pool := replicas[0].(*agentstore.Store).Pool()
			pgtest.Exec(t, pool, "UPDATE streams SET expires_at = expires_at - make_interval(secs => $1)", d.Seconds())
		})
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Each event has the index of its Append, whatever its size and whether Append failed, at
// both replicas.
func TestEventsKeepTheirIndex(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		streams := &outage{Streams: stores[0].Streams()}
		own, err := mcpstore.NewEventStore(streams, 0)
		must(t, err)
		other := newEvents(t, stores[1], 0)
		must(t, own.Open(t.Context(), "s", "r"))
		if all, err := after(t, other, "r", -1); err != nil || len(all) != 0 {
			t.Errorf("an open stream has %d events, %v", len(all), err)
		}
		want := [][]byte{
			nil, []byte("second"), []byte("not stored at once"), nil, bytes.Repeat([]byte("large"), 1<<19),
			make([]byte, repo.MaxPartBytes-1), []byte("last"),
		}
		for i, data := range want {
			ctx, cancel := t.Context(), func() {}
			if streams.down.Store(i == 2 || i == 3); streams.down.Load() {
				ctx, cancel = context.WithTimeout(ctx, 5*time.Millisecond) // short: the database stays down
			}
			given := bytes.Clone(data)
			if err := own.Append(ctx, "s", "r", given); (err != nil) != streams.down.Load() {
				t.Fatal(i, err)
			}
			cancel()
			clear(given)
		}
		for _, events := range []mcp.EventStore{own, other} {
			for index := -1; index <= len(want); index++ {
				all, err := after(t, events, "r", index)
				must(t, err)
				rest := want[min(index+1, len(want)):]
				if len(all) != len(rest) {
					t.Fatalf("%d events after %d, want %d", len(all), index, len(rest))
				}
				for i := range all {
					if !bytes.Equal(all[i], rest[i]) {
						t.Errorf("event %d after %d has %d bytes, want %d", i, index, len(all[i]), len(rest[i]))
					}
				}
			}
		}
	})
}

// outage is a database that cannot be written to while it is down.
type outage struct {
	repo.Streams
	down atomic.Bool
}

func (o *outage) Append(ctx context.Context, stream repo.Stream, parts ...[]byte) (int64, error) {
	if o.down.Load() {
		return stream.Next, repo.ErrUnavailable
	}
	return o.Streams.Append(ctx, stream, parts...)
}

func (o *outage) Fail(ctx context.Context, stream repo.Stream, reason string) error {
	if o.down.Load() {
		return repo.ErrUnavailable
	}
	return o.Streams.Fail(ctx, stream, reason)
}

// lossy loses the answer to each second append.
type lossy struct {
	repo.Streams
	appends atomic.Int64
}

func (l *lossy) Append(ctx context.Context, stream repo.Stream, parts ...[]byte) (int64, error) {
	next, err := l.Streams.Append(ctx, stream, parts...)
	if l.appends.Add(1)%2 == 0 {
		return stream.Next, repo.ErrUnknownOutcome
	}
	return next, err
}

// An event whose answer is lost is stored once.
func TestLostAnswers(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		streams := &lossy{Streams: stores[0].Streams()}
		own, err := mcpstore.NewEventStore(streams, 0)
		must(t, err)
		must(t, own.Open(t.Context(), "s", "r"))
		for i := range byte(20) {
			must(t, own.Append(t.Context(), "s", "r", []byte{'a' + i}))
		}
		all, err := after(t, newEvents(t, stores[1], 0), "r", -1)
		appends := streams.appends.Load()
		if got := string(bytes.Join(all, nil)); err != nil || got != "abcdefghijklmnopqrst" || appends < 30 {
			t.Errorf("%s, %v; %d appends", got, err, appends)
		}
	})
}

// What is missing is an error, and never a shorter list.
func TestMissingEvents(t *testing.T) {
	passing(t, func(t *testing.T, stores [2]repo.Store, pass func(time.Duration)) {
		events := newEvents(t, stores[0], time.Hour)
		if _, err := after(t, events, "r", -1); !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("a stream that was never opened: %v", err)
		}
		if err := events.Append(t.Context(), "s", "r", []byte("event")); !errors.Is(err, repo.ErrNotFound) {
			t.Errorf("append to it: %v", err)
		}
		must(t, events.Open(t.Context(), "s", "r"))
		must(t, events.Append(t.Context(), "s", "r", []byte("event")))
		pass(2 * time.Hour)
		if _, err := after(t, newEvents(t, stores[1], 0), "r", -1); !errors.Is(err, mcp.ErrEventsPurged) {
			t.Errorf("an expired stream: %v", err)
		}
		if err := events.Append(t.Context(), "s", "r", []byte("late")); !errors.Is(err, repo.ErrGone) {
			t.Errorf("append to an expired stream: %v", err)
		}
	})
}

// If an event is lost, since too many wait or it is too large, the stream ends for all readers.
func TestDroppedEvents(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		streams := &outage{Streams: stores[0].Streams()}
		own, err := mcpstore.NewEventStore(streams, 0)
		must(t, err)
		for _, id := range []string{"full", "large"} {
			must(t, own.Open(t.Context(), "s", id))
			must(t, own.Append(t.Context(), "s", id, []byte("stored")))
		}
		streams.down.Store(true)
		for range 4 { // more than may wait
			if err := own.Append(shortly(t), "s", "full", make([]byte, repo.MaxPartBytes/2)); err == nil {
				t.Error("an append to a database that is down succeeds")
			}
		}
		err = own.Append(t.Context(), "s", "large", make([]byte, repo.MaxPartBytes))
		if !errors.Is(err, repo.ErrInvalid) || !errors.Is(err, mcp.ErrEventsPurged) {
			t.Errorf("an event that is too large: %v", err)
		}
		streams.down.Store(false)
		for _, id := range []string{"full", "large"} {
			if err := own.Append(t.Context(), "s", id, []byte("after it")); !errors.Is(err, mcp.ErrEventsPurged) {
				t.Errorf("%s: an event after one that was dropped: %v", id, err)
			}
			for _, replica := range []*mcpstore.EventStore{own, newEvents(t, stores[1], 0)} {
				if all, err := after(t, replica, id, -1); !errors.Is(err, mcp.ErrEventsPurged) || len(all) > 0 {
					t.Errorf("%s: %d events where some were dropped, %v", id, len(all), err)
				}
				if status, _ := get(t, replica.Handler(http.NotFoundHandler()), "s", id+"_0", "alice"); status != http.StatusBadRequest {
					t.Errorf("%s: events that were dropped: status %d", id, status)
				}
			}
		}
	})
}

// If the last event of a request is lost, the other replica says so when the database is back,
// although nothing more is appended.
func TestLastEventDropped(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		streams := &outage{Streams: stores[0].Streams()}
		own, err := mcpstore.NewEventStore(streams, 0)
		must(t, err)
		must(t, own.Open(t.Context(), "s", "r"))
		must(t, own.Append(t.Context(), "s", "r", []byte("stored")))
		streams.down.Store(true)
		for range 3 { // one is being stored, one waits, and the last one is lost
			if err := own.Append(shortly(t), "s", "r", make([]byte, repo.MaxPartBytes/2)); err == nil {
				t.Error("an append to a database that is down succeeds")
			}
		}
		streams.down.Store(false)
		await.For(t, "the other replica to know that an event was lost", func() bool {
			_, err := after(t, newEvents(t, stores[1], 0), "r", -1)
			return errors.Is(err, mcp.ErrEventsPurged)
		})
	})
}

// Append ends with its context, also while an After waits for the database.
func TestAppendBesideAfter(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		streams := &outage{Streams: stores[0].Streams()}
		own, err := mcpstore.NewEventStore(streams, 0)
		must(t, err)
		must(t, own.Open(t.Context(), "s", "r"))
		streams.down.Store(true)
		if err := own.Append(shortly(t), "s", "r", []byte("waits")); err == nil {
			t.Error("an append to a database that is down succeeds")
		}
		reading, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for _, err := range own.After(reading, "s", "r", -1) {
				if err == nil {
					t.Error("an event that is not stored")
				}
			}
		}()
		time.Sleep(100 * time.Millisecond) // pace: the After waits by now, or soon
		err = own.Append(shortly(t), "s", "r", []byte("waits too"))
		if !errors.Is(err, context.DeadlineExceeded) || reading.Err() != nil {
			t.Errorf("beside an After: %v; the After's context: %v", err, reading.Err())
		}
		cancel()
		<-done
		streams.down.Store(false)
		must(t, own.Append(t.Context(), "s", "r", []byte("after it")))
	})
}

// shortly returns a context that ends soon.
func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // short: the database stays down meanwhile
	t.Cleanup(cancel)
	return ctx
}

// A large event lives as long as its stream, and no longer. A client that needs it then gets a status,
// also when it is removed: an empty answer would be asked for again and again.
func TestLargeEventExpires(t *testing.T) {
	passing(t, func(t *testing.T, stores [2]repo.Store, pass func(time.Duration)) {
		own, other := newEvents(t, stores[0], time.Hour), newEvents(t, stores[1], 0)
		must(t, own.Open(t.Context(), "s", "r"))
		must(t, own.Append(t.Context(), "s", "r", []byte("first")))
		must(t, own.Append(t.Context(), "s", "r", make([]byte, repo.MaxPartBytes/4)))
		for range 4 {
			pass(50 * time.Minute)
			must(t, own.Append(t.Context(), "s", "r", nil))
		}
		if all, err := after(t, other, "r", 0); err != nil || len(all[0]) != repo.MaxPartBytes/4 {
			t.Errorf("the large event of a stream that goes on: %d events, %v", len(all), err)
		}
		pass(2 * time.Hour)
		if _, err := after(t, other, "r", 0); !errors.Is(err, mcp.ErrEventsPurged) {
			t.Errorf("an expired stream: %v", err)
		}
		for _, want := range []int{http.StatusBadRequest, http.StatusNotFound} {
			if status, _ := get(t, other.Handler(http.NotFoundHandler()), "s", "r_0", "alice"); status != want {
				t.Errorf("the large event: status %d, want %d", status, want)
			}
			for removed := int64(1); removed > 0; { // a call removes a bounded number of bytes
				streams, parts, err := stores[0].Streams().RemoveExpired(t.Context(), 0)
				must(t, err)
				removed = streams + parts
			}
		}
	})
}

func TestTTL(t *testing.T) {
	for _, ttl := range []time.Duration{-1, repo.MinStreamTTL - 1, repo.MaxStreamTTL + 1} {
		var invalid *repo.InvalidError
		if _, err := mcpstore.NewEventStore(nil, ttl); !errors.As(err, &invalid) || invalid.Field != "ttl" {
			t.Errorf("%v: %v", ttl, err)
		}
	}
}

// get asks a replica that has no session of its own for events.
func get(t *testing.T, replica http.Handler, session, last, user string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithCancel(await.Context(t))
	defer cancel()
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("Mcp-Session-Id", session)
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	request.Header.Set("Authorization", "Bearer "+user)
	recorder := &enough{ResponseRecorder: httptest.NewRecorder(), cancel: cancel}
	authorized(replica).ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.String()
}

// enough stops a stream after the event "end".
type enough struct {
	*httptest.ResponseRecorder
	cancel func()
}

func (e *enough) Write(data []byte) (int, error) {
	n, err := e.ResponseRecorder.Write(data)
	if strings.HasSuffix(e.Body.String(), "data: end\n\n") {
		e.cancel()
	}
	return n, err
}

// authorized lets each client be the user of its token.
func authorized(next http.Handler) http.Handler {
	return auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}, nil)(next)
}

// A replica answers for sessions of others as it does for its own.
func TestHandlerAnswersForOthers(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		own, other := newEvents(t, stores[0], 0), newEvents(t, stores[1], 0)
		next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "next", http.StatusNotFound) })
		replica := other.Handler(next)
		begin := authorized(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { // as Alice
			must(t, own.Open(r.Context(), "s", ""))
			must(t, own.Open(r.Context(), "s", "r"))
		}))
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		request.Header.Set("Authorization", "Bearer alice")
		begin.ServeHTTP(httptest.NewRecorder(), request)
		for _, data := range []string{"", "two\nlines", "end"} {
			must(t, own.Append(t.Context(), "s", "r", []byte(data)))
		}
		for _, c := range []struct {
			name, session, last, user string
			status                    int
			body                      string
		}{
			{"all", "s", "r_0", "alice", 200, ": ok\n\nevent: message\nid: r_1\ndata: two\ndata: lines\n\nevent: message\nid: r_2\ndata: end\n\n"},
			{"some", "s", "r_1", "alice", 200, ": ok\n\nevent: message\nid: r_2\ndata: end\n\n"},
			{"not stored yet", "s", "r_3", "alice", 503, "events are not available\n"},
			{"beyond the end", "s", "r_2000000000", "alice", 400, "failed to replay events\n"},
			{"another user", "s", "r_0", "bob", 403, "session user mismatch\n"},
			{"another session", "other", "r_0", "alice", 404, "next\n"},
			{"another stream", "s", "other_0", "alice", 404, "next\n"},
			{"key of another stream", "s/r", "_0", "alice", 404, "next\n"},
			{"malformed", "s", "r_-1", "alice", 404, "next\n"},
			{"malformed too", "s", "r", "alice", 404, "next\n"},
			{"not text", "s\x00", "r_0", "alice", 404, "next\n"},
		} {
			if status, body := get(t, replica, c.session, c.last, c.user); status != c.status || body != c.body {
				t.Errorf("%s: %d %q", c.name, status, body)
			}
		}
		for key, ttl := range map[string]time.Duration{"mcp/s/": repo.MaxStreamTTL, "mcp/s/r": mcpstore.DefaultTTL} {
			stream, err := stores[1].Streams().Get(t.Context(), key)
			must(t, err)
			if life := stream.ExpiresAt.Sub(stream.OpenedAt); life < ttl || life > 2*ttl {
				t.Errorf("stream %s lives for %v", key, life)
			}
		}
		must(t, own.SessionClosed(t.Context(), "s"))
		must(t, own.SessionClosed(t.Context(), "s"))
		if status, _ := get(t, replica, "s", "r_0", "alice"); status != http.StatusNotFound {
			t.Errorf("a session that is over: %d", status)
		}
	})
}

// A stream that a process opens after another one goes on with the next index.
func TestSessionMoves(t *testing.T) {
	onEach(t, func(t *testing.T, stores [2]repo.Store) {
		own, other := newEvents(t, stores[0], 0), newEvents(t, stores[1], 0)
		must(t, own.Open(t.Context(), "s", "r"))
		must(t, own.Append(t.Context(), "s", "r", []byte("0")))
		must(t, other.Open(t.Context(), "s", "r"))
		must(t, other.Append(t.Context(), "s", "r", []byte("1")))
		if err := own.Append(t.Context(), "s", "r", []byte("late")); !errors.Is(err, repo.ErrConflict) {
			t.Errorf("the former writer: %v", err)
		}
		all, err := after(t, newEvents(t, stores[0], 0), "r", -1)
		if got := bytes.Join(all, []byte(" ")); err != nil || string(got) != "0 1" {
			t.Errorf("%q, %v", got, err)
		}
		must(t, own.Open(t.Context(), "", ""))
		must(t, own.Append(t.Context(), "", "", []byte("nobody's")))
	})
}
