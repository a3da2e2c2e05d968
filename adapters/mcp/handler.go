package mcpstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-df90f812/agentstore/repo"
)

// farewell is how long a response may take to end at a shutdown: its client may not read.
const farewell = time.Second

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
// this event store. To a GET for a session that another replica has, it serves the events
// that the client lacks, and each further one soon after it was sent; only to the user
// with whom the session began. Like the SDK's, its response ends when the request is
// answered, and when the session ends; and at [EventStore.Shutdown]. A POST has to reach the
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

// resume reports whether it knows the session. Statuses are those of the SDK.
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
		s.serve(w, r.WithContext(ctx), stream, id, last)
	}
	return true
}

// serve ends after an answer that is the last event, or if the stream is finished; when the
// client goes; at a shutdown; or at an error: then it comes again, and gets a status.
func (s *EventStore) serve(w http.ResponseWriter, r *http.Request, stream repo.Stream, id string, last int) {
	control := http.NewResponseController(w)
	set := make(chan struct{})
	stop := context.AfterFunc(s.serving, func() { //nolint:contextcheck // it ends with either
		defer close(set)
		_ = control.SetWriteDeadline(time.Now().Add(farewell))
	})
	defer func() {
		if !stop() {
			<-set // control is of no use later
		}
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	fmt.Fprint(w, ": ok\n\n") // a proxy may hold back headers alone
	if last >= 0 && r.Header.Get("Mcp-Protocol-Version") >= "2025-11-25" {
		// The SDK's client forgets the id if no event comes before it is cut off again.
		fmt.Fprintf(w, "event: prime\nid: %s_%d\ndata: \n\n", id, last) //nolint:gosec // this is not HTML
	}
	_ = control.Flush()
	for part, err := range s.follow(r.Context(), stream, max(last-1, -1)) { // what the client has may be the answer
		if err != nil {
			return
		}
		if data := part.Data[1:]; int(part.Sequence) > last && len(data) > 0 { // if empty, it gave the client an id to go on from
			data = bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata: "))
			fmt.Fprintf(w, "event: message\nid: %s_%d\ndata: %s\n\n", id, part.Sequence, data) //nolint:gosec // this is not HTML
			_ = control.Flush()
		}
		// A batch of requests has several answers. If others follow, the client comes again.
		if part.Data[0] == answer && part.Sequence+1 >= stream.Next {
			return
		}
	}
}
