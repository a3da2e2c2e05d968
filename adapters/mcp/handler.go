package mcpstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-df90f812/agentstore/repo"
)

const (
	// farewell is how long a response may take to end at a shutdown: its client may not read.
	farewell = time.Second
	// writeTimeout bounds how long a client may take to accept an event, and maxDuration a response: then it comes again. heartbeat is
	// the time without an event after which it gets a comment.
	writeTimeout, maxDuration, heartbeat = 30 * time.Second, time.Hour, 15 * time.Second
	// maxResponses bounds the responses under way, and maxPerUser the responses of one user, or of a session without one: each may
	// hold an event until its client accepts it.
	maxResponses, maxPerUser = 1000, 32
)

// ahead is how many events a client may have got that its replica has yet to store: as many as a live.PartWriter holds.
const ahead = 2000

// anybody owns the streams of a session that was begun without a user.
const anybody = "anybody"

func owner(ctx context.Context) string {
	if token := auth.TokenInfoFromContext(ctx); token != nil && token.UserID != "" {
		return "user/" + token.UserID
	}
	return anybody
}

// Handler returns a handler that serves what next does, a [mcp.StreamableHTTPHandler] with
// this event store. To a GET for a session that another replica has, it serves the events that the client lacks, and each
// further one soon after it was sent; only to the user that began the session. Like the SDK's, its response ends when the
// request is answered, and when the session ends; and at [EventStore.Shutdown], after an hour, and when its client accepts
// nothing for 30 seconds. A user has at most 32 at a time (status 429), and all have 1,000 (503). A POST has to reach the
// session's replica.
func (s *EventStore) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := r.Header.Get("Mcp-Session-Id")
		away := r.Method == http.MethodGet && session != "" && s.writer(key(session, "")) == nil
		if !away || !s.resume(w, r, session) {
			next.ServeHTTP(w, r)
		}
	})
}

// Shutdown ends the responses that [EventStore.Handler] serves itself, so that their clients
// go on at other replicas; later requests get status 503. A client that does not read is cut
// off after a second. It is for http.Server.RegisterOnShutdown,
// since http.Server.Shutdown waits for responses and does not end them. Nothing else ends:
// the SDK's responses do when their sessions are closed.
func (s *EventStore) Shutdown() { s.stop() }

// resume reports whether it knows the session. It has the SDK's statuses.
func (s *EventStore) resume(w http.ResponseWriter, r *http.Request, session string) bool {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.serving, cancel)() //nolint:contextcheck // it ends with either
	id, last := "", -1
	if header := r.Header.Get("Last-Event-ID"); header != "" {
		stream, index, _ := strings.Cut(header, "_")
		n, err := strconv.ParseInt(index, 10, 32)
		if err != nil || n < 0 {
			return false
		}
		id, last = stream, int(n)
	}
	own, err := s.streams.Get(ctx, key(session, ""))
	if err == nil && own.Status == repo.StreamFinished {
		return false
	}
	stream, err := s.get(ctx, key(session, id))
	switch {
	case err == nil && stream.Owner != anybody && stream.Owner != owner(ctx):
		http.Error(w, "session user mismatch", http.StatusForbidden)
	case errors.Is(err, mcp.ErrEventsPurged) || err == nil && int64(last) >= stream.Next+ahead:
		http.Error(w, "failed to replay events", http.StatusBadRequest)
	case errors.Is(err, repo.ErrNotFound) || errors.Is(err, repo.ErrInvalid):
		return false
	case err != nil || int64(last) >= stream.Next:
		http.Error(w, "events are not available", http.StatusServiceUnavailable)
	default:
		leave, status := s.enter(reader(ctx, session))
		if status != 0 {
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many responses", status)
			return true
		}
		defer leave()
		s.serve(w, r.WithContext(ctx), stream, id, last)
	}
	return true
}

// reader returns the user, or the session, for which a response counts.
func reader(ctx context.Context, session string) string {
	if user := owner(ctx); user != anybody {
		return user
	}
	return key(session, "")
}

// enter makes room for a response, or returns the status that says why there is none.
func (s *EventStore) enter(reader string) (leave func(), status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.responses >= maxResponses:
		return nil, http.StatusServiceUnavailable
	case s.readers[reader] >= maxPerUser:
		return nil, http.StatusTooManyRequests
	}
	s.responses++
	s.readers[reader]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.responses--
		if s.readers[reader]--; s.readers[reader] == 0 {
			delete(s.readers, reader)
		}
	}, 0
}

// response writes events. Its methods may be called by several goroutines.
type response struct {
	w       http.ResponseWriter
	control *http.ResponseController
	serving context.Context //nolint:containedctx // after its end nothing has a longer deadline than farewell
	cancel  context.CancelFunc

	mu    sync.Mutex
	over  bool
	beats *time.Timer
}

// beat writes a comment, unless an event is being written.
func (r *response) beat() {
	if r.mu.TryLock() {
		defer r.mu.Unlock()
		r.put([]byte(":\n\n"))
	}
}

// write writes the parts of an event. If that fails, the response is over.
func (r *response) write(parts ...[]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.put(parts...)
}

func (r *response) put(parts ...[]byte) {
	if r.over {
		return
	}
	r.limit(time.Now().Add(writeTimeout))
	for _, part := range parts {
		if _, err := r.w.Write(part); err != nil { //nolint:gosec // this is not HTML
			r.over = true
		}
	}
	if err := r.control.Flush(); r.over || err != nil && !errors.Is(err, http.ErrNotSupported) {
		r.over = true
		r.cancel()
		return
	}
	r.limit(time.Time{}) // in HTTP/2 it would end the response also if nothing is written
	r.beats.Reset(heartbeat)
}

// limit sets the deadline for writes.
func (r *response) limit(deadline time.Time) {
	if _ = r.control.SetWriteDeadline(deadline); r.serving.Err() != nil {
		_ = r.control.SetWriteDeadline(time.Now().Add(farewell))
	}
}

// end has the server's end of the response come within writeTimeout, too.
func (r *response) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beats.Stop()
	r.over = true
	r.limit(time.Now().Add(writeTimeout))
}

// serve ends after an answer that is the last event, or if the stream is finished; when the
// client goes, or does not read; at a shutdown; or at an error: then it comes again, and gets a status.
func (s *EventStore) serve(w http.ResponseWriter, r *http.Request, stream repo.Stream, id string, last int) {
	ctx, cancel := context.WithTimeout(r.Context(), maxDuration)
	defer cancel()
	out := &response{w: w, control: http.NewResponseController(w), serving: s.serving, cancel: cancel}
	set := make(chan struct{})
	stop := context.AfterFunc(s.serving, func() { //nolint:contextcheck // it ends with either
		defer close(set)
		_ = out.control.SetWriteDeadline(time.Now().Add(farewell))
	})
	defer func() {
		if !stop() {
			<-set // control is of no use later
		}
	}()
	out.mu.Lock()
	out.beats = time.AfterFunc(heartbeat, out.beat)
	out.mu.Unlock()
	defer out.end()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // the deadline is not the next request's
	}
	begin := ": ok\n\n" // a proxy may hold back headers alone
	if last >= 0 && r.Header.Get("Mcp-Protocol-Version") >= "2025-11-25" {
		// The SDK's client forgets the id if no event comes before it is cut off again.
		begin += fmt.Sprintf("event: prime\nid: %s_%d\ndata: \n\n", id, last)
	}
	out.write([]byte(begin))
	for part, err := range s.follow(ctx, stream, max(last-1, -1)) { // what the client has may be the answer
		if err != nil {
			return
		}
		if data := part.Data[1:]; int(part.Sequence) > last && len(data) > 0 { // if empty, it gave the client an id to go on from
			data = bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata: "))
			out.write(fmt.Appendf(nil, "event: message\nid: %s_%d\ndata: ", id, part.Sequence), data, []byte("\n\n"))
		}
		// A batch of requests has several answers. If others follow, the client comes again.
		if part.Data[0] == answer && part.Sequence+1 >= stream.Next {
			return
		}
	}
}
