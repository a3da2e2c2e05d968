package mcpstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-df90f812/agentstore/repo"
)

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
// with whom the session began. A POST has to reach the session's replica.
func (s *EventStore) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session := r.Header.Get("Mcp-Session-Id")
		away := r.Method == http.MethodGet && session != "" && s.writer(key(session, "")) == nil
		if !away || !s.resume(w, r, session) {
			next.ServeHTTP(w, r)
		}
	})
}

// resume reports whether it knows the session. Statuses are those of the SDK.
func (s *EventStore) resume(w http.ResponseWriter, r *http.Request, session string) bool {
	ctx, id, last := r.Context(), "", -1
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
	case errors.Is(err, mcp.ErrEventsPurged):
		http.Error(w, "failed to replay events", http.StatusBadRequest)
	case errors.Is(err, repo.ErrNotFound) || errors.Is(err, repo.ErrInvalid):
		return false
	case err != nil:
		http.Error(w, "events are not available", http.StatusServiceUnavailable)
	default:
		s.serve(ctx, w, stream, id, last)
	}
	return true
}

// serve ends when the client goes, or at an error: then it comes again, and gets a status.
func (s *EventStore) serve(ctx context.Context, w http.ResponseWriter, stream repo.Stream, id string, last int) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache, no-transform")
	fmt.Fprint(w, ": ok\n\n") // a proxy may hold back headers alone
	control := http.NewResponseController(w)
	_ = control.Flush()
	for part, err := range s.follow(ctx, stream, last) {
		if err != nil {
			return
		}
		if data := part.Data[1:]; len(data) > 0 { // else it gave the client an id to go on from
			data = bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata: "))
			fmt.Fprintf(w, "event: message\nid: %s_%d\ndata: %s\n\n", id, part.Sequence, data) //nolint:gosec // this is not HTML
			_ = control.Flush()
		}
	}
}
