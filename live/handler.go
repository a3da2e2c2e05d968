package live

import (
	"context"
	"errors"
	"net/http"

	"github.com/seed-df90f812/agentstore/repo"
)

// Handler serves the feeds of sessions as server-sent events. It is safe for concurrent use.
type Handler struct {
	store   repo.Store
	options Options
	seats   *seats
}

// New returns a handler that reads from store. Errors: InvalidError, also if store or
// options.Authorize is nil.
func New(store repo.Store, options Options) (*Handler, error) {
	if store == nil {
		return nil, &repo.InvalidError{Field: "store", Reason: "is nil"}
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Handler{store: store, options: options, seats: newSeats(options.MaxResponses, options.MaxPerReader)}, nil
}

// ServeHTTP answers GET with the feed of the session that the request may read: its messages, from
// the beginning, and the parts of its open streams and of streams that are opened later; or what
// follows the event whose id is in the header Last-Event-ID, or else in ?after=. An id says how far a
// client has got in all of these: any process goes on from it. A session's ID, a period and the
// sequence of a message are the id of a client that has read up to this message, and no stream.
// ServeHTTP returns when the client has gone, at a [Handler.Shutdown], when the store was closed, or
// after an event with the name [EndEvent]. It answers HEAD as GET, without events. It reads up to 16
// streams at a time; others wait until one has ended.
//
// Statuses: 200, also for a client that comes back with an id to a session that is no more, also if
// Authorize then returns a NotFoundError of a session, and gets the event EndEvent; 204 for a client
// that has had that event, and to OPTIONS; 400 for an invalid id; 403 for a page of another origin;
// what Authorize says; 404 if there is no such session; 405 for methods other than GET, HEAD and
// OPTIONS; 409 if the client has messages that do not exist, because the session was restored to an
// earlier time; 429 and 503 for too many responses; 503 if the database cannot be reached, or at a
// shutdown; 505 for HTTP/1.0, and 500 if the ResponseWriter cannot flush, and for all other errors.
// An EventSource connects again if it is cut off, but not after a status other than 200.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := h.serve(w, r)
	if err == nil {
		return
	}
	answer := statusOf(err, http.StatusInternalServerError)
	if answer.Status >= http.StatusInternalServerError && !errors.Is(err, errShutdown) {
		h.options.Logger.ErrorContext(r.Context(), "live: request failed", "error", err)
	}
	refuse(w, answer)
}

// Shutdown ends all responses in order, so that clients connect again, elsewhere; refuses
// new ones; and waits until all have returned or ctx ends, whose error it returns then. Call it
// before http.Server.Shutdown, which waits for responses and does not end them.
func (h *Handler) Shutdown(ctx context.Context) error {
	h.seats.close()
	select {
	case <-h.seats.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve serves a request. After an error nothing was sent.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) error {
	if err := h.checkOrigin(w, r); err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		allow(w, r)
		return nil
	default:
		return &StatusError{Status: http.StatusMethodNotAllowed, Header: http.Header{"Allow": {methods}}}
	}
	switch {
	case h.seats.isClosing(): // before Authorize has work
		return busy(http.StatusServiceUnavailable, errShutdown)
	case !r.ProtoAtLeast(1, 1):
		return &StatusError{
			Status: http.StatusHTTPVersionNotSupported,
			Public: "events need HTTP/1.1: a proxy may have to be told to use it",
		}
	case !canFlush(w):
		return &StatusError{
			Status: http.StatusInternalServerError, Public: "the server cannot send events: its ResponseWriter has no Flush",
			Err: errors.New("live: the ResponseWriter can neither flush nor be unwrapped"),
		}
	}
	target, err := h.options.Authorize(r)
	at, invalid := positionOf(r)
	switch {
	case err != nil && (!isSessionMissing(err) || !at.ended && at.session.IsZero()):
		return statusOf(err, http.StatusForbidden)
	case invalid != nil:
		return invalid
	case at.ended:
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return h.respond(w, r, target, at, err)
}

// isSessionMissing reports whether Authorize found that there is no session, such as by a key.
func isSessionMissing(err error) bool {
	missing, is := errors.AsType[*repo.NotFoundError](err)
	_, hasStatus := errors.AsType[*StatusError](err)
	return is && missing.Kind == "session" && !hasStatus
}

// respond sends the feed of target, or, if a session is missing that the client knew, its end.
func (h *Handler) respond(w http.ResponseWriter, r *http.Request, target Target, at position, missing error) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	leave, err := h.seats.take(target.Reader, cancel)
	if err != nil {
		return err
	}
	defer leave()
	ctx, stop := context.WithTimeoutCause(context.WithValue(ctx, limitKey{}, h.options.MaxEventBytes),
		h.options.MaxDuration, errExpired)
	defer stop()

	f := &feed{end: missing}
	if missing == nil {
		f, err = h.open(ctx, target, at)
	}
	switch {
	case err != nil && ctx.Err() != nil: // at a shutdown, or it took too long
		return busy(http.StatusServiceUnavailable, context.Cause(ctx))
	case err != nil:
		return err
	}
	setHeader(w, r)
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	f.response, err = begin(w, &h.options, cancel, f)
	defer f.response.end()
	if err == nil {
		h.finish(ctx, f.response, f.run(ctx))
	}
	return nil
}

func setHeader(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	// Neither kept nor changed (compressed in blocks) on the way.
	header.Set("Cache-Control", "no-cache, no-store, no-transform")
	header.Set("X-Accel-Buffering", "no") // nginx
	header.Set("X-Content-Type-Options", "nosniff")
	if r.ProtoMajor == 1 {
		// The next request may go to another process, and this one's deadline for
		// writes does not apply to it. In HTTP/2 it would end the other requests.
		header.Set("Connection", "close")
	}
}

// finish says to the client why nothing more comes.
func (h *Handler) finish(ctx context.Context, response *response, err error) {
	cause := context.Cause(ctx)
	event, isEnd := endOf(err)
	switch {
	case errors.Is(cause, errShutdown):
		response.goodbye("shutting down")
	case errors.Is(cause, errExpired):
		response.goodbye("time is up")
	case cause != nil: // the client has gone, or does not read
	case isEnd:
		_ = response.send(ended, event, true)
	default:
		h.options.Logger.WarnContext(ctx, "live: response ended", "error", err)
		response.goodbye("interrupted")
	}
}
