package live

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"sync"

	"github.com/seed-df90f812/agentstore/repo"
)

// feed is what a response sends: the messages of a session, and the parts of its streams. Each is
// followed by a goroutine of its own, which hands what it gets to the handler's. So one event is
// made at a time, and a function of the caller's that panics ends the response alone.
type feed struct {
	*Handler

	response *response
	at       position
	// messages is how many there were when the response began: these may be sent together. head is the last one of the
	// transcript, or -1.
	messages, head int64
	// listed are the streams of the session, if the client was reading some.
	listed []repo.Stream
	// end, if not nil, is all that there is to send.
	end error

	ctx   context.Context //nolint:containedctx // ends with run
	steps chan func() error
	// running are the goroutines that follow.
	running sync.WaitGroup
	// waiting are streams for which there is no room yet.
	waiting []repo.Stream
}

// open begins a feed. Errors: the store's, before anything is sent.
func (h *Handler) open(ctx context.Context, target Target, at position) (*feed, error) {
	f := &feed{Handler: h, at: at}
	knew := !at.session.IsZero()
	if knew && at.session != target.Session {
		f.end = errReplaced
		return f, nil
	}
	read := repo.ReadSessions{IDs: []repo.ID{target.Session}, Last: 1, WithoutContent: true, WithoutPayload: true}
	snapshot, err := h.store.Sessions().Read(ctx, read)
	if err != nil {
		return nil, err
	}
	found := snapshot.Sessions[0]
	switch {
	case found == nil && knew: // deleted since: a page cannot see a status
		f.end = &repo.NotFoundError{Kind: "session", ID: target.Session}
		return f, nil
	case found == nil:
		return nil, &repo.NotFoundError{Kind: "session", ID: target.Session}
	case at.next > found.Session.MessageCount:
		return nil, errAhead
	}
	f.at.session, f.messages, f.head = target.Session, found.Session.MessageCount, -1
	if len(found.Messages) > 0 {
		f.head = found.Messages[0].Sequence
	}
	if len(at.streams) > 0 { // the client may name any: only what is listed is read
		list, err := h.store.Streams().List(ctx, target.Session, repo.Page{Limit: repo.MaxPageSize})
		if f.listed = list.Items; err != nil {
			return nil, err
		}
	}
	return f, nil
}

var (
	// errReplaced: the client has events of another session than the one that it may read, which
	// has its key by now.
	errReplaced = errors.New("live: another session has taken the place of the one that was read")
	// errAhead: the client has events that do not exist. Waiting until there are as many would
	// leave out those before.
	errAhead = &StatusError{Status: http.StatusConflict, Public: "there are fewer messages"}
)

// run sends what there is and what comes. It returns why that ended.
func (f *feed) run(ctx context.Context) error {
	if f.end != nil {
		return f.end
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.running.Wait()
	defer cancel()
	f.ctx, f.steps = ctx, make(chan func() error)
	known := map[repo.ID]bool{}
	for _, place := range slices.Clone(f.at.streams) {
		known[place.StreamID] = true
		if err := f.resume(place); err != nil {
			return err
		}
	}
	f.listed = nil
	itself := func(err error) error { return err }
	follow(f, f.store.Sessions().Follow(ctx, f.at.session, f.at.next), f.message, itself)
	follow(f, f.store.Streams().FollowSession(ctx, f.at.session), func(stream repo.Stream) error {
		if known[stream.ID] {
			return nil
		}
		f.waiting = append(f.waiting, stream)
		return f.take()
	}, itself)
	for {
		select {
		case step := <-f.steps:
			if err := step(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow hands what a source yields, and its end, to the goroutine of the handler.
func follow[T any](f *feed, source iter.Seq2[T, error], each func(T) error, end func(error) error) {
	step := func(do func() error) bool {
		select {
		case f.steps <- do:
			return true
		case <-f.ctx.Done():
			return false
		}
	}
	f.running.Go(func() {
		for value, err := range source {
			if err != nil {
				step(func() error { return end(err) })
				return
			}
			if !step(func() error { return each(value) }) {
				return
			}
		}
		step(func() error { return end(nil) })
	})
}

func (f *feed) message(m repo.Message) error {
	event, err := f.options.Message(f.ctx, m)
	if err != nil {
		return &hookError{err}
	}
	if len(event.Data) > f.options.MaxEventBytes {
		event = omitted(repo.ID{}, m.Sequence, len(event.Data))
	}
	f.at.next = m.Sequence + 1
	return f.response.send(f.at.String(), event, f.at.next >= f.messages)
}

// resume goes on with a stream that the client was reading.
func (f *feed) resume(place repo.StreamPosition) error {
	at := slices.IndexFunc(f.listed, func(s repo.Stream) bool { return s.ID == place.StreamID })
	if at < 0 || place.Sequence > f.listed[at].Next {
		return f.close(repo.Stream{ID: place.StreamID}, repo.ErrGone)
	}
	f.read(f.listed[at])
	return nil
}

// take begins to read streams that wait, for as many as there is room.
func (f *feed) take() error {
	for len(f.waiting) > 0 && len(f.at.streams) < maxStreams {
		stream := f.waiting[0]
		f.waiting = f.waiting[1:]
		f.at.streams = append(f.at.streams, repo.StreamPosition{StreamID: stream.ID})
		if err := f.tell(stream, "open", ""); err != nil {
			return err
		}
		f.read(stream)
	}
	return nil
}

// read follows a stream from where the client is.
func (f *feed) read(stream repo.Stream) {
	parts := f.store.Streams().Follow(f.ctx, stream.Key, *f.at.stream(stream.ID))
	follow(f, parts, func(p repo.StreamPart) error { return f.part(stream, p) },
		func(err error) error { return f.close(stream, err) })
}

func (f *feed) part(stream repo.Stream, p repo.StreamPart) error {
	if f.at.stream(stream.ID).Sequence = p.Sequence + 1; p.Restart {
		return f.tell(stream, "restarted", "")
	}
	event, err := f.options.Part(f.ctx, p)
	if err != nil {
		return &hookError{err}
	}
	if len(event.Data) > f.options.MaxEventBytes {
		event = omitted(p.StreamID, p.Sequence, len(event.Data))
	}
	return f.response.send(f.at.String(), event, p.Sequence+1 >= stream.Next)
}

// close ends a stream for the client, unless err is one after which it should come again.
func (f *feed) close(stream repo.Stream, err error) error {
	state, reason := "finished", ""
	failed, isFailed := errors.AsType[*repo.StreamFailedError](err)
	switch {
	case isFailed:
		state, reason = "failed", failed.Reason
	case errors.Is(err, repo.ErrNotFound), errors.Is(err, repo.ErrGone), errors.Is(err, repo.ErrConflict):
		state = "gone"
	case err != nil:
		return err
	}
	f.at.streams = slices.DeleteFunc(f.at.streams, func(s repo.StreamPosition) bool { return s.StreamID == stream.ID })
	if err := f.tell(stream, state, reason); err != nil {
		return err
	}
	return f.take()
}

// tell says what has become of a stream.
func (f *feed) tell(stream repo.Stream, state, reason string) error {
	event := encoded(StreamEvent, struct {
		Stream repo.ID `json:"stream"`
		Key    string  `json:"key,omitempty"`
		State  string  `json:"state"`
		Error  string  `json:"error,omitempty"`
	}{stream.ID, stream.Key, state, reason})
	return f.response.send(f.at.String(), event, true)
}

// hookError is an error of Options.Message or Part. Whatever it matches, it says nothing about
// what is read.
type hookError struct{ err error }

func (e *hookError) Error() string { return "live: no event was made: " + e.err.Error() }
