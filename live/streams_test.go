package live_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
)

const streamKey = "answer"

func newStreamWorld(t *testing.T) *world {
	return newWorld(t, 0, func(o *live.Options) {
		o.Authorize = func(*http.Request) (live.Target, error) { return live.Target{Stream: streamKey}, nil }
	})
}

func (w *world) openStream(ttl time.Duration) repo.Stream {
	w.Helper()
	stream, err := w.store.Streams().Open(w.Context(), repo.NewStream{Key: streamKey, Owner: "test", TTL: ttl})
	if err != nil {
		w.Fatal(err)
	}
	return stream
}

func (w *world) add(stream *repo.Stream, parts ...string) {
	w.Helper()
	for _, part := range parts {
		var err error
		if stream.Next, err = w.store.Streams().Append(w.Context(), *stream, []byte(part)); err != nil {
			w.Error(err)
			return
		}
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	w := newStreamWorld(t)
	stream := w.openStream(0)
	w.add(&stream, "one", "two\n")
	c := w.get("")
	want := func(c *client, sequence int64, data string) string {
		t.Helper()
		e := c.want(t)
		if e.id != stream.ID.String()+"."+strconv.FormatInt(sequence, 10) || e.data != data {
			t.Errorf("got %+v, want %d with %s", e, sequence, data)
		}
		return e.id
	}
	want(c, 0, `{"sequence":0,"text":"one"}`)
	last := want(c, 1, `{"sequence":1,"text":"two\n"}`)
	w.add(&stream, "\xff")
	want(c, 2, `{"sequence":2,"base64":"/w=="}`)
	_ = c.body.Close()
	for query, header := range map[string]string{"": "Last-Event-ID: " + last, "?from=2": "X: y", "?from=" + stream.ID.String() + ".2": "X: y"} {
		c = w.get(query, header)
		want(c, 2, `{"sequence":2,"base64":"/w=="}`)
		defer func() { _ = c.body.Close() }()
	}
	if err := w.store.Streams().Finish(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	if e := c.want(t); e.id != "end" || e.name != live.EndEvent || e.data != `{"reason":"finished"}` {
		t.Errorf("got %+v", e)
	}

	// Another stream has the key: who has read the first one goes on there.
	second := w.openStream(0)
	w.add(&second, "other")
	c = w.get("", "Last-Event-ID: "+last)
	want(c, 2, `{"sequence":2,"base64":"/w=="}`)
	if e := c.want(t); e.data != `{"reason":"finished"}` {
		t.Errorf("got %+v", e)
	}
	stream = second
	c = w.get("")
	want(c, 0, `{"sequence":0,"text":"other"}`)
	if err := w.store.Streams().Fail(t.Context(), second, "out of words"); err != nil {
		t.Fatal(err)
	}
	if e := c.want(t); e.id != "end" || e.data != `{"reason":"failed","error":"out of words"}` {
		t.Errorf("got %+v", e)
	}
	if rest := c.drain(); len(rest) > 0 {
		t.Errorf("after the end: %v", rest)
	}
}

func TestStreamStatuses(t *testing.T) {
	t.Parallel()
	w := newStreamWorld(t)
	status := func(want int, query string, headers ...string) {
		t.Helper()
		c := w.do(w.request(http.MethodGet, query, headers...))
		if c.response.StatusCode != want {
			t.Errorf("%q %q: status %s, want %d", query, headers, c.response.Status, want)
		}
		_ = c.body.Close()
	}
	status(404, "")
	stream := w.openStream(0)
	id := stream.ID.String()
	w.add(&stream, "part")
	status(200, "")
	status(200, "?from=1")
	status(409, "?from=2")
	status(409, "", "Last-Event-ID: "+id+".1")
	status(400, "", "Last-Event-ID: 0") // of which stream?
	status(200, "", "Last-Event-ID: "+id)
	status(200, "?from="+id)
	status(400, "", "Last-Event-ID: "+id+".")
	status(400, "", "Last-Event-ID: "+id+".01")
	status(400, "?from=0.0")
	status(204, "", "Last-Event-ID: end")
}

// A key that no stream can have, perhaps of a path, is a stream that does not exist.
func TestImpossibleStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, func(o *live.Options) {
		o.Authorize = func(r *http.Request) (live.Target, error) { return live.Target{Stream: r.Header.Get("Key")}, nil }
	})
	for _, key := range []string{strings.Repeat("x", repo.MaxKeyBytes+1), "\xff"} {
		if c := w.do(w.request(http.MethodGet, "", "Key: "+key)); c.response.StatusCode != http.StatusNotFound {
			t.Errorf("%.10q: status %s", key, c.response.Status)
		}
	}
}

func TestStreamExpires(t *testing.T) {
	t.Parallel()
	w := newStreamWorld(t)
	var stream repo.Stream
	for { // on a busy machine it may expire before it is followed
		stream = w.openStream(repo.MinStreamTTL)
		c := w.do(w.request(http.MethodGet, ""))
		if c.response.StatusCode == http.StatusGone {
			continue
		}
		if e := c.want(t); e.id != "end" || e.data != `{"reason":"gone"}` {
			t.Errorf("got %+v", e)
		}
		break
	}
	if c := w.do(w.request(http.MethodGet, "")); c.response.StatusCode != http.StatusGone {
		t.Errorf("status %s", c.response.Status)
	}
	for _, id := range []repo.ID{stream.ID, repo.NewID()} {
		if e := w.get("", "Last-Event-ID: "+id.String()+".0").want(t); e.data != `{"reason":"gone"}` {
			t.Errorf("got %+v", e)
		}
	}
}

// A stream that lives is read by those who name it, although a later one of its key has
// expired.
func TestStreamBeforeTheNewest(t *testing.T) {
	t.Parallel()
	w := newStreamWorld(t)
	older := w.openStream(0)
	w.add(&older, "a", "b")
	if err := w.store.Streams().Finish(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	newer := w.openStream(repo.MinStreamTTL)
	eventually(t, "the newer one does not expire", func() bool {
		_, err := w.store.Streams().Get(t.Context(), newer.Key)
		return errors.Is(err, repo.ErrStreamGone)
	})
	c := w.get("?from=" + older.ID.String() + ".1")
	if e := c.want(t); e.id != older.ID.String()+".1" {
		t.Errorf("got %+v", e)
	}
	if e := c.want(t); e.data != `{"reason":"finished"}` {
		t.Errorf("got %+v", e)
	}
	if e := w.get("?from=" + newer.ID.String() + ".0").want(t); e.data != `{"reason":"gone"}` {
		t.Errorf("got %+v", e)
	}
}

// A client that reads a stream while it is written, and is cut off after each part, gets
// each once.
func TestStreamResume(t *testing.T) {
	t.Parallel()
	const parts = 100
	w := newStreamWorld(t)
	stream := w.openStream(0)
	go func() {
		for i := range parts {
			w.add(&stream, strconv.Itoa(i))
		}
		if err := w.store.Streams().Finish(t.Context(), stream); err != nil {
			t.Error(err)
		}
	}()
	last := ""
	for i := range parts {
		c := w.get("", "Last-Event-ID: "+last)
		e := c.want(t)
		var data struct{ Text string }
		if err := json.Unmarshal([]byte(e.data), &data); err != nil || data.Text != strconv.Itoa(i) {
			t.Fatalf("%v: got %+v, want part %d", err, e, i)
		}
		last = e.id
		_ = c.body.Close()
	}
	if e := w.get("", "Last-Event-ID: "+last).want(t); e.data != `{"reason":"finished"}` {
		t.Errorf("got %+v", e)
	}
}
