package live

import (
	"context"
	"errors"
	"net/http"

	"github.com/seed-df90f812/agentstore/repo"
)

// Handler serves sessions and streams as server-sent events. It is safe for concurrent use.
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

// ServeHTTP answers GET with the events of what the request may read, from the beginning, or
// after the event that the header Last-Event-ID names, or else from ?from= on. The id of an event
// is the session's or the stream's ID, a period and the sequence, because another one may have its
// key later; before the first event it is the ID alone. ?from= is such an ID, with or without a
// period and a sequence, or a sequence, which is then of whatever the request leads to. ServeHTTP
// returns when the client has gone, at a [Handler.Shutdown], when the store was closed, or after
// an event with the name [EndEvent]. It answers HEAD as GET, without events.
//
// Statuses: 200, also for a client that comes back (with an ID, or a sequence of a session above
// 0) to what is no more, also if Authorize then returns a NotFoundError of a session, and gets the
// event EndEvent; 204 for one that has had that, and to
// OPTIONS; 400 for an invalid Last-Event-ID or from; 403 for a page of another origin; what
// Authorize says; 404 if there is no such session or stream; 405 for methods other than GET, HEAD
// and OPTIONS; 409 if the client is ahead of what there is, so that it knows another one, or one
// that was restored; 410 if the stream has expired, unless the client names its ID; 429 and 503
// for too many responses; 503 if the database cannot be reached, or at a shutdown; 505 for
// HTTP/1.0, and 500 if the ResponseWriter cannot flush, and for all other errors. An EventSource
// connects again if it is cut off, but not after a status other than 200.
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
		return &StatusError{Status: http.StatusHTTPVersionNotSupported, Public: "events need HTTP/1.1: a proxy may have to be told to use it"}
	case !canFlush(w):
		return &StatusError{
			Status: http.StatusInternalServerError, Public: "the server cannot send events: its ResponseWriter has no Flush",
			Err: errors.New("live: the ResponseWriter can neither flush nor be unwrapped"),
		}
	}
	target, err := h.options.Authorize(r)
	at, invalid := positionOf(r)
	switch {
	case err != nil && (!isSessionMissing(err) || !at.ended && at.id.IsZero()):
		return statusOf(err, http.StatusForbidden)
	case target.Stream != "" && !target.Session.IsZero():
		return errors.New("live: Authorize named a session and a stream")
	case invalid != nil:
		return invalid
	case at.ended:
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return h.respond(w, r, target, func(ctx context.Context) (feed, error) {
		if err != nil { // the client knew it
			return endOnly(err), nil //nolint:nilerr // it is what the feed tells
		}
		return h.open(ctx, target, at)
	})
}

// isSessionMissing reports whether Authorize found that there is no session, such as by a key.
func isSessionMissing(err error) bool {
	missing, is := errors.AsType[*repo.NotFoundError](err)
	_, hasStatus := errors.AsType[*StatusError](err)
	return is && missing.Kind == "session" && !hasStatus
}

// respond sends the events of target.
func (h *Handler) respond(w http.ResponseWriter, r *http.Request, target Target, open func(context.Context) (feed, error)) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	leave, err := h.seats.take(target.Reader, cancel)
	if err != nil {
		return err
	}
	defer leave()
	ctx, stop := context.WithTimeoutCause(ctx, h.options.MaxDuration, errExpired)
	defer stop()

	feed, err := open(ctx)
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
	response, err := begin(w, &h.options, cancel, feed.begin)
	defer response.end()
	if err == nil {
		err = h.send(response, feed)
		h.finish(ctx, response, err)
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

// send sends what there is and what comes. It returns why that ended. Nil: there is no more.
func (h *Handler) send(response *response, feed feed) error {
	for item, err := range feed.items {
		if err != nil {
			return err
		}
		event := item.event
		if len(event.Data) > h.options.MaxEventBytes {
			event = omitted(item.sequence, len(event.Data))
		}
		if err := response.send(item.id, event, item.sequence+1 >= feed.next); err != nil {
			return err
		}
	}
	return nil
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
