package live

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rs/zerolog"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// subject is what a browser reads in a test.
type subject struct {
	target live.Target
	write  func(number int)
	// end ends it, for a reason that the browser is told.
	end    func()
	reason string
}

// newSubject makes what is read in a store.
type newSubject func(t *testing.T, store repo.Store) subject

func newSession(t *testing.T, store repo.Store) subject {
	t.Helper()
	id := pgtest.NewSession(t, store)
	return subject{
		target: live.Target{Session: id, Reader: "the browser"}, reason: "deleted",
		write: func(number int) {
			_, err := store.Sessions().Append(t.Context(), id, repo.NewMessage{Role: repo.RoleUser, Content: strconv.Itoa(number)})
			if err != nil {
				t.Error(err)
			}
		},
		end: func() {
			if _, err := store.Sessions().Delete(t.Context(), id); err != nil {
				t.Error(err)
			}
		},
	}
}

func newStream(t *testing.T, store repo.Store) subject {
	t.Helper()
	id := pgtest.NewSession(t, store)
	stream, err := store.Streams().Open(t.Context(), repo.NewStream{Key: "an answer", Owner: "test", Session: id})
	if err != nil {
		t.Fatal(err)
	}
	return subject{
		target: live.Target{Session: id}, reason: "deleted",
		write: func(number int) {
			var err error
			if stream.Next, err = store.Streams().Append(t.Context(), stream, []byte(strconv.Itoa(number))); err != nil {
				t.Error(err)
			}
		},
		end: func() {
			if err := store.Streams().Finish(t.Context(), stream); err != nil {
				t.Error(err)
			}
			if _, err := store.Sessions().Delete(t.Context(), id); err != nil {
				t.Error(err)
			}
		},
	}
}

// TestEventsInBrowser reads the messages of a session, and a stream of one, with the EventSource of a real browser while
// servers, their connections to the database and the page end and begin again: it gets each
// message once, in order.
// Guarantee: Following: A browser gets each message once, in order, while servers and pages end.
func TestEventsInBrowser(t *testing.T) {
	t.Parallel()
	for name, made := range map[string]newSubject{"Session": newSession, "Stream": newStream} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testEventSource(t, made)
		})
	}
}

func testEventSource(t *testing.T, made newSubject) {
	const rounds = 8
	databaseURL := pgtest.NewDatabase(t)
	read := made(t, pgtest.OpenStore(t, databaseURL, agentstore.Options{}))
	network, through := newProxy(t, databaseURL)
	// Two processes, one of which serves at a time.
	var stores []repo.Store
	for range 2 {
		pool := pgtest.NewPool(t, through, func(c *pgxpool.Config) { c.MaxConns, c.ConnConfig.ConnectTimeout = 4, time.Hour })
		stores = append(stores, pgtest.OpenPool(t, pool, agentstore.Options{}))
	}
	page, gate := newPage(t), newGate(t)
	var asked requests
	var handler *live.Handler
	serve := func(round int) {
		handler = newHandler(t, stores[round%len(stores)], read.target, page.URL)
		gate.serve(asked.count(handler))
	}
	serve(0)

	count := 0
	var stop atomic.Bool
	var writing sync.WaitGroup
	defer writing.Wait()
	defer stop.Store(true)
	writing.Go(func() {
		for !stop.Load() {
			if log, _ := page.told(); count < len(log)+100 { // however slow the browser is
				read.write(count)
				count++
			}
			time.Sleep(2 * time.Millisecond) // pace: others are at work meanwhile
		}
	})
	startChromium(t, page.URL+"/?events="+url.QueryEscape("http://"+gate.Addr().String()+"/events"))
	for round := 1; round <= rounds; round++ {
		log, _ := page.told()
		page.has(len(log) + 10)
		switch round % 4 {
		case 0: // the process ends in order
			shutdown(t, handler)
			gate.kill()
			serve(round)
		case 1: // it is killed
			gate.kill()
			time.Sleep(50 * time.Millisecond) // pace: the browser gets no answer
			serve(round)
		case 2: // the database cannot be reached, and once not for a process that begins either
			network.Stop()
			if round%8 == 2 {
				gate.kill()
				before := asked.all.Load()
				serve(round)
				await.For(t, "the browser has asked the new process", func() bool { return asked.all.Load() > before })
			}
			time.Sleep(300 * time.Millisecond) // pace: the database cannot be reached
			if err := network.Start(); err != nil {
				t.Fatal(err)
			}
		case 3:
			page.again()
		}
	}
	stop.Store(true)
	writing.Wait()
	check(t, page.has(count), count)

	// The end stops an EventSource for good.
	read.end()
	await.For(t, "the EventSource has stopped", func() bool {
		_, told := page.told()
		return told.State == "stopped"
	})
	log, told := page.told()
	if told.Ended != read.reason || len(log) != count || asked.stopped.Load() == 0 {
		t.Errorf("%d events of %d, ended %q, %d responses with status 204", len(log), count, told.Ended, asked.stopped.Load())
	}
	if asked.resumed.Load() == 0 {
		t.Error("no EventSource has connected again by itself")
	}
	shutdown(t, handler)
	t.Logf("%d requests, of which %d with Last-Event-ID; %d times an EventSource gave up",
		asked.all.Load(), asked.resumed.Load(), told.Recreated)
}

// TestNaiveEventsInBrowser has a server that begins with what comes, whatever the client has got:
// the same harness finds what is missing.
func TestNaiveEventsInBrowser(t *testing.T) {
	t.Parallel()
	store := pgtest.NewStore(t, agentstore.Options{})
	read := newSession(t, store)
	page, gate := newPage(t), newGate(t)
	handler := newHandler(t, store, read.target, page.URL)
	naive := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := store.Sessions().Get(r.Context(), read.target.Session)
		if err != nil { // the browser is killed, or the store is closed, at the test's end
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		r.Header.Del("Last-Event-ID")
		r.URL.RawQuery = ""
		if session.MessageCount > 0 {
			r.URL.RawQuery = "after=" + session.ID.String() + "." + strconv.FormatInt(session.MessageCount-1, 10)
		}
		handler.ServeHTTP(w, r)
	})
	gate.serve(naive)
	startChromium(t, page.URL+"/?events="+url.QueryEscape("http://"+gate.Addr().String()+"/events"))
	written := 0
	write := func() { read.write(written); written++ }
	await.For(t, "the browser has got a message", func() bool {
		write()
		log, _ := page.told()
		return len(log) > 0
	})
	gate.kill()
	for range 5 {
		write()
	}
	unseen := written // the page may tell late of what came before
	gate.serve(naive)
	await.For(t, "the browser has got a message again", func() bool {
		write()
		log, _ := page.told()
		return log[len(log)-1].number(t) >= unseen
	})
	log, _ := page.told()
	first, last := log[0].number(t), log[len(log)-1].number(t)
	if missed := last - first + 1 - len(log); missed < 5 {
		t.Errorf("from message %d to %d the browser has missed %d", first, last, missed)
	}
	shutdown(t, handler)
}

func newHandler(t *testing.T, store repo.Store, target live.Target, origin string) *live.Handler {
	t.Helper()
	handler, err := live.New(store, live.Options{
		Authorize: func(r *http.Request) (live.Target, error) {
			if c, err := r.Cookie(cookie); err != nil || c.Value != "may read" {
				return live.Target{}, &live.StatusError{Status: http.StatusUnauthorized, Err: err}
			}
			return target, nil
		},
		Part: func(_ context.Context, p repo.StreamPart) (live.Event, error) {
			return live.Event{Data: fmt.Appendf(nil, `{"content":"%s"}`, p.Data)}, nil
		},
		Origins: []string{origin}, Retry: 20 * time.Millisecond, Heartbeat: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

func shutdown(t *testing.T, handler *live.Handler) {
	t.Helper()
	if err := handler.Shutdown(await.Context(t)); err != nil {
		t.Error(err)
	}
}

// number returns the sequence in an event's id.
func (g got) number(t *testing.T) int {
	t.Helper()
	id := g.ID
	if _, sequence, ofStream := strings.Cut(id, "."); ofStream {
		id = sequence
	}
	number, err := strconv.Atoi(id)
	if err != nil {
		t.Error(err)
	}
	return number
}

// check compares what the browser has got with the messages, whose contents are their
// sequences.
func check(t *testing.T, log []got, count int) {
	t.Helper()
	for i, one := range log {
		if one.number(t) != i || one.Content != strconv.Itoa(i) {
			t.Fatalf("event %d of %d is %+v", i, count, one)
		}
	}
	if len(log) != count {
		t.Errorf("%d events of %d messages", len(log), count)
	}
}

// requests counts requests for events, which EventSource makes.
type requests struct{ all, resumed, stopped atomic.Int64 }

func (q *requests) count(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q.all.Add(1)
		if last := r.Header.Get("Last-Event-ID"); last == "end" {
			q.stopped.Add(1)
		} else if last != "" {
			q.resumed.Add(1)
		}
		handler.ServeHTTP(w, r)
	})
}

// newProxy starts a proxy in front of a database's server, and returns its URL through it.
func newProxy(t *testing.T, databaseURL string) (*toxiproxy.Proxy, string) {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, "postgresql", "127.0.0.1:0", net.JoinHostPort(u.Hostname(), u.Port()))
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Stop)
	u.Host = proxy.Listen
	return proxy, u.String()
}
