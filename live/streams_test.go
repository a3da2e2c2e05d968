package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/internal/await"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// openStream opens a stream of the session.
func (w *world) openStream(key string) repo.Stream {
	w.Helper()
	return w.open(repo.NewStream{Key: key, Session: w.session})
}

func (w *world) open(asked repo.NewStream) repo.Stream {
	w.Helper()
	asked.Owner = "test"
	stream, err := w.store.Streams().Open(w.Context(), asked)
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

func (w *world) finish(stream repo.Stream) {
	w.Helper()
	if err := w.store.Streams().Finish(w.Context(), stream); err != nil {
		w.Fatal(err)
	}
}

// wantStream checks that the next event says what has become of a stream.
func (c *client) wantStream(t *testing.T, id, stream repo.ID, state string) string {
	t.Helper()
	e := c.want(t)
	var data struct {
		Stream            repo.ID
		Key, State, Error string
	}
	if err := json.Unmarshal([]byte(e.data), &data); err != nil || e.name != live.StreamEvent || data.Stream != stream ||
		strings.TrimSuffix(data.State+" "+data.Error, " ") != state {
		t.Fatalf("got %+v, want stream %s to be %s", e, stream, state)
	}
	if !strings.HasPrefix(e.id, id.String()) {
		t.Errorf("the id is %q", e.id)
	}
	return e.id
}

// wantPart checks that the next event is a part of a stream.
func (c *client) wantPart(t *testing.T, stream repo.Stream, sequence int, rest string) string {
	t.Helper()
	e := c.want(t)
	if e.name != "part" || e.data != fmt.Sprintf(`{"stream":%q,"sequence":%d,%s}`, stream.ID, sequence, rest) {
		t.Fatalf("got %+v, want part %d with %s", e, sequence, rest)
	}
	return e.id
}

// Guarantee: History: A page that begins is told the transcript's last message.
func TestFeedOfBranches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, nil)
	after := int64(0)
	for _, turn := range []struct {
		added []repo.NewMessage
		begin string
	}{
		{nil, `{"head":0,"messages":3}`},
		{[]repo.NewMessage{{Role: repo.RoleUser, Content: "another"}}, `{"messages":4}`},
	} {
		if _, err := w.store.Sessions().AppendTurn(t.Context(), repo.Turn{SessionID: w.session, After: &after, Messages: turn.added}); err != nil {
			t.Fatal(err)
		}
		c := w.get("")
		for range 3 {
			c.want(t)
		}
		if c.begin != turn.begin {
			t.Errorf("it begins with %s, want %s", c.begin, turn.begin)
		}
		if turn.added != nil {
			if e := c.want(t); !strings.HasPrefix(e.data, `{"sequence":3,"follows":0,`) {
				t.Errorf("got %+v", e)
			}
		}
	}
}

// One feed has the messages of a session, and the parts of its streams, whenever they are opened.
// Each of its ids says how far the client is in all of them.
func TestFeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	c := w.get("")
	if e := c.want(t); e.id != w.id(0) || c.begin != `{"messages":1}` {
		t.Errorf("got %+v after %s", e, c.begin)
	}
	first := w.openStream("first") // the feed has waited for it
	opened := c.wantStream(t, w.session, first.ID, "open")
	if opened != w.id(0)+"~"+first.ID.String() {
		t.Errorf("the id is %q", opened)
	}
	w.add(&first, "one", "two\n", "\xff")
	c.wantPart(t, first, 0, `"text":"one"`)
	afterTwo := c.wantPart(t, first, 1, `"text":"two\n"`)
	if afterTwo != w.id(0)+"~"+first.ID.String()+".1" {
		t.Errorf("the id is %q", afterTwo)
	}
	c.wantPart(t, first, 2, `"base64":"/w=="`)
	second := w.openStream("second")
	c.wantStream(t, w.session, second.ID, "open")
	w.add(&second, "x")
	c.wantPart(t, second, 0, `"text":"x"`)
	w.write("message 1")
	e := c.want(t)
	if e.id != w.id(1)+"~"+first.ID.String()+".2~"+second.ID.String()+".0" {
		t.Errorf("got %+v", e)
	}
	_ = c.body.Close()

	// Streams of others, and of none, are not its.
	other, err := w.store.Sessions().Create(t.Context(), repo.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	foreign := w.open(repo.NewStream{Key: "foreign", Session: other.ID})
	w.add(&foreign, "secret")
	w.open(repo.NewStream{Key: "none"})

	// Another process goes on where the client was, in each of them.
	for query, header := range map[string]string{"": "Last-Event-ID: " + afterTwo, "?after=" + afterTwo: "X: y"} {
		c = w.get(query, header)
		got := map[string]bool{}
		for range 4 {
			e := c.want(t)
			got[e.name+e.data[:10]] = true
			if strings.Contains(e.data, "one") || strings.Contains(e.data, "two") || strings.Contains(e.data, "message 0") {
				t.Errorf("once more: %+v", e)
			}
		}
		if len(got) != 4 && len(got) != 3 {
			t.Errorf("got %v", got)
		}
		_ = c.body.Close()
	}
	c = w.get("", "Last-Event-ID: "+e.id+"~"+foreign.ID.String())
	c.wantStream(t, w.session, foreign.ID, "gone") // it may be any session's
	w.finish(first)
	c.wantStream(t, w.session, first.ID, "finished")
	if err := w.store.Streams().Fail(t.Context(), second, "out of words"); err != nil {
		t.Fatal(err)
	}
	last := c.wantStream(t, w.session, second.ID, "failed out of words")
	if last != w.id(1) {
		t.Errorf("the id is %q", last)
	}
	_ = c.body.Close()

	// The end of one that has ended meanwhile is told to its readers only.
	c = w.get("", "Last-Event-ID: "+e.id)
	ends := map[string]bool{c.want(t).data[:37]: true, c.want(t).data[:37]: true}
	if len(ends) != 2 {
		t.Errorf("got %v", ends)
	}
	_ = c.body.Close()
	third := w.openStream("first") // with a key that was used before
	c = w.get("?after=" + last)
	c.wantStream(t, w.session, third.ID, "open")
	if _, err := w.store.Sessions().Delete(t.Context(), w.session); err != nil {
		t.Fatal(err)
	}
	for e = c.want(t); e.name == live.StreamEvent; e = c.want(t) { // gone, perhaps
	}
	if e.id != "end" || e.data != `{"reason":"deleted"}` {
		t.Errorf("got %+v", e)
	}
}

// A reader of an answer whose attempt was given up is told so, wherever it was.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, nil)
	stream := w.openStream("answer")
	w.add(&stream, "dead", "attempt")
	c := w.get("")
	c.wantStream(t, w.session, stream.ID, "open")
	middle := c.wantPart(t, stream, 0, `"text":"dead"`)
	c.wantPart(t, stream, 1, `"text":"attempt"`)
	again := w.open(repo.NewStream{Key: "answer", Restart: true})
	w.add(&again, "alive")
	restarted := c.wantStream(t, w.session, stream.ID, "restarted")
	c.wantPart(t, stream, 3, `"text":"alive"`)
	c = w.get("", "Last-Event-ID: "+middle)
	c.wantPart(t, stream, 1, `"text":"attempt"`)
	c.wantStream(t, w.session, stream.ID, "restarted")
	c = w.get("", "Last-Event-ID: "+restarted)
	c.wantPart(t, stream, 3, `"text":"alive"`)
}

// A stream that is deleted, or expires, is gone for its readers; the feed goes on.
func TestStreamGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, nil)
	stream := w.openStream("answer")
	c := w.get("")
	before := c.wantStream(t, w.session, stream.ID, "open")
	if err := w.store.Streams().Delete(t.Context(), stream.Key); err != nil {
		t.Fatal(err)
	}
	c.wantStream(t, w.session, stream.ID, "gone")
	w.write("later")
	if e := c.want(t); e.id != w.id(0) {
		t.Errorf("got %+v", e)
	}
	w.get("", "Last-Event-ID: "+before).wantStream(t, w.session, stream.ID, "gone")
	ahead := w.openStream("ahead")
	w.get("", "Last-Event-ID: "+w.id(0)+"~"+ahead.ID.String()+".7").wantStream(t, w.session, ahead.ID, "gone")
	// short: before it is read, or meanwhile, it expires
	short := w.open(repo.NewStream{Key: "short", Session: w.session, TTL: repo.MinStreamTTL})
	c = w.get("", "Last-Event-ID: "+w.id(0)+"~"+ahead.ID.String()+"~"+short.ID.String())
	c.wantStream(t, w.session, short.ID, "gone")
}

// More streams than a response reads wait until there is room, and an id stays short.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	const count, room = 20, 16
	w := newWorld(t, 0, nil)
	var streams []repo.Stream
	for i := range count {
		streams = append(streams, w.openStream(strconv.Itoa(i)))
	}
	c := w.get("")
	opened := map[string]bool{}
	var last event
	for range room {
		last = c.want(t)
		opened[last.data] = true
	}
	if len(last.id) > 1000 || strings.Count(last.id, "~") != room {
		t.Errorf("the id is %q", last.id)
	}
	w.write("between")
	if e := c.want(t); e.name != "" {
		t.Errorf("got %+v", e)
	}
	for _, stream := range streams {
		w.finish(stream)
	}
	finished := 0
	for finished < count {
		e := c.want(t)
		if strings.Contains(e.data, `"open"`) {
			opened[e.data] = true
		} else if strings.Contains(e.data, `"finished"`) {
			finished++
		}
	}
	if len(opened) != count {
		t.Errorf("%d streams were opened", len(opened))
	}
}

// A client that reads an answer while it is written, and is cut off after each event, gets each
// part and each message once.
func TestFeedResume(t *testing.T) {
	t.Parallel()
	const parts = 100
	w := newWorld(t, 0, nil)
	stream := w.openStream("answer")
	last := w.get("").wantStream(t, w.session, stream.ID, "open")
	go func() {
		for i := range parts {
			w.add(&stream, strconv.Itoa(i))
			w.write(strconv.Itoa(i))
		}
		if err := w.store.Streams().Finish(t.Context(), stream); err != nil {
			t.Error(err)
		}
	}()
	part, message, ended := 0, 0, false
	for part < parts || message < parts || !ended {
		c := w.get("", "Last-Event-ID: "+last)
		e := c.want(t)
		var data struct{ Text, Content, State string }
		if err := json.Unmarshal([]byte(e.data), &data); err != nil {
			t.Fatal(err)
		}
		switch {
		case e.name == "part" && data.Text == strconv.Itoa(part):
			part++
		case e.name == "" && data.Content == strconv.Itoa(message):
			message++
		case data.State == "finished":
			ended = true
		default:
			t.Fatalf("got %+v after %d parts and %d messages", e, part, message)
		}
		last = e.id
		_ = c.body.Close()
	}
}

// A function of the caller's that panics for a part ends its response alone.
func TestPartPanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, func(o *live.Options) {
		o.MaxResponses = 1
		o.Part = func(context.Context, repo.StreamPart) (live.Event, error) { panic(http.ErrAbortHandler) }
	})
	stream := w.openStream("answer")
	w.add(&stream, "x")
	for range 3 {
		await.For(t, "the seat is not left", func() bool {
			c := w.do(w.request(http.MethodGet, ""))
			defer func() { _ = c.body.Close() }()
			c.drain()
			return c.response.StatusCode == http.StatusOK
		})
	}
}

// A page can drop what a rewind has replaced: the event says what the message follows.
func TestRewoundFeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, nil)
	c := w.get("")
	for range 3 {
		if e := c.want(t); strings.Contains(e.data, `"follows"`) {
			t.Errorf("got %+v", e)
		}
	}
	for _, after := range []int64{0, -1} {
		turn := repo.Turn{SessionID: w.session, After: &after, Messages: []repo.NewMessage{{Role: repo.RoleUser, Content: "again"}}}
		if _, err := w.store.Sessions().AppendTurn(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		if e := c.want(t); !strings.Contains(e.data, fmt.Sprintf(`"follows":%d,`, after)) {
			t.Errorf("got %+v, want a message that follows %d", e, after)
		}
	}
}

// One handler of the whole store serves all tenants: Authorize asks the tenant's view, and what is written in views is sent.
// Guarantee: Streams: A feed of the whole store has the streams that views have opened.
func TestOneFeedForAllTenants(t *testing.T) {
	t.Parallel()
	whole := memory.New()
	t.Cleanup(func() { _ = whole.Close() })
	w := &world{T: t, store: whole.In("tenant")}
	session, err := w.store.Sessions().Create(t.Context(), repo.NewSession{Key: "trip"})
	if err != nil {
		t.Fatal(err)
	}
	w.session = session.ID
	w.serve(whole, func(o *live.Options) {
		o.Authorize = func(r *http.Request) (live.Target, error) {
			id, err := whole.In("tenant").Sessions().Find(r.Context(), repo.SessionKey{Key: "trip"})
			return live.Target{Session: id}, err
		}
	})
	stream := w.openStream("answer")
	c := w.get("")
	c.wantStream(t, w.session, stream.ID, "open")
	w.add(&stream, "Hel")
	at := c.wantPart(t, stream, 0, `"text":"Hel"`)
	c = w.get("?after=" + at)
	w.add(&stream, "lo")
	c.wantPart(t, stream, 1, `"text":"lo"`)
	w.finish(stream)
	c.wantStream(t, w.session, stream.ID, "finished")
}
