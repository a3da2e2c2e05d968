package live

import (
	"context"
	"errors"
	"iter"
	"net/http"

	"github.com/seed-df90f812/agentstore/repo"
)

// feed is what a response sends.
type feed struct {
	items iter.Seq2[item, error]
	// begin is the id that a client has before the first event. Empty: none.
	begin string
	// next was the sequence of the next item when the response began: those before need
	// not be sent one by one.
	next int64
}

// item is an event, and where it is.
type item struct {
	id       string
	sequence int64
	event    Event
}

// open begins to read. Errors: those of the store, before anything is sent.
func (h *Handler) open(ctx context.Context, target Target, at position) (feed, error) {
	if target.Stream != "" {
		return h.openStream(ctx, target.Stream, at)
	}
	if !at.id.IsZero() && at.id != target.Session {
		return endOnly(errReplaced), nil
	}
	session, err := h.store.Sessions().Get(ctx, target.Session)
	switch knew := !at.id.IsZero() || at.sequence > 0; {
	case knew && errors.Is(err, repo.ErrNotFound): // deleted since: a page cannot see a status
		return endOnly(err), nil
	case err != nil:
		return feed{}, err
	}
	if at.sequence > session.MessageCount {
		return feed{}, errAhead
	}
	messages := h.store.Sessions().Follow(ctx, session.ID, at.sequence)
	return feed{begin: lastID(session.ID, at.sequence), next: session.MessageCount, items: events(messages, func(m repo.Message) (item, error) {
		event, err := h.options.Message(ctx, m)
		return item{eventID(m.SessionID, m.Sequence), m.Sequence, event}, err
	})}, nil
}

// errReplaced: the client has events of another session than the one that it may read, which
// has its key by now.
var errReplaced = errors.New("live: another session has taken the place of the one that was read")

func (h *Handler) openStream(ctx context.Context, key string, at position) (feed, error) {
	newest, err := h.store.Streams().Get(ctx, key)
	gone := errors.Is(err, repo.ErrStreamGone) || errors.Is(err, repo.ErrNotFound)
	switch {
	case gone && !at.id.IsZero(): // that one may live; if not, following tells so, in a way that a page can read
	case errors.Is(err, repo.ErrInvalid): // no stream can have this key, which may be of the request
		return feed{}, &StatusError{Status: http.StatusNotFound, Err: err}
	case err != nil:
		return feed{}, err
	case at.id.IsZero():
		at.id = newest.ID
	}
	next := int64(0)
	if at.id == newest.ID {
		next = newest.Next
		if at.sequence > next {
			return feed{}, errAhead
		}
	}
	parts := h.store.Streams().Follow(ctx, key, repo.StreamPosition{StreamID: at.id, Sequence: at.sequence})
	return feed{begin: lastID(at.id, at.sequence), next: next, items: events(parts, func(p repo.StreamPart) (item, error) {
		event, err := h.options.Part(ctx, p)
		return item{eventID(p.StreamID, p.Sequence), p.Sequence, event}, err
	})}, nil
}

// endOnly returns a feed of nothing but its end.
func endOnly(end error) feed {
	return feed{items: func(yield func(item, error) bool) { yield(item{}, end) }}
}

// errAhead: the client has events that do not exist. Waiting until there are as many would
// leave out those before.
var errAhead = &StatusError{Status: http.StatusConflict, Public: "there are fewer events"}

// events converts what is followed, until its end or an error.
func events[T any](followed iter.Seq2[T, error], convert func(T) (item, error)) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for value, err := range followed {
			var converted item
			if err == nil {
				converted, err = convert(value)
			}
			if !yield(converted, err) || err != nil {
				return
			}
		}
	}
}
