// Package mcpstore keeps what servers of the Model Context Protocol send, so that a client
// that is cut off goes on at any replica. README.md has the lines to write. The API may
// change with github.com/modelcontextprotocol/go-sdk.
package mcpstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
)

const (
	// DefaultTTL is how long the events of a request can be had after the last one.
	DefaultTTL = time.Hour
	// patience bounds an operation whose context the SDK gives no end.
	patience = 15 * time.Second
	// event and answer are the first byte of a part, whose sequence is its event's index: an
	// event may be empty, and a part may not.
	event = 0
	// answer: the event is the response to a request of the stream.
	answer = 1
	// dropped is why a stream has failed.
	dropped = "events were dropped"
)

// EventStore is a [mcp.EventStore] on streams, safe for concurrent use. One process at a
// time writes to a session, as in the SDK: the last that opened its streams. Its errors
// are the errors of [repo.Streams], and [mcp.ErrEventsPurged].
type EventStore struct {
	streams repo.Streams
	ttl     time.Duration
	serving context.Context //nolint:containedctx // it ends the responses that Handler serves itself
	stop    context.CancelFunc

	mu      sync.Mutex
	writers map[string]*writer // by key
	swept   time.Time
	// responses are Handler's responses under way, and readers counts them by reader.
	responses int
	readers   map[string]int
}

// writer writes the events of one stream.
type writer struct {
	*live.PartWriter

	ttl  time.Duration
	used time.Time // guarded by EventStore.mu
	// answered: the last event is an answer. Followers in other processes see that, too.
	answered atomic.Bool

	mu   sync.Mutex
	lost error // why an event could not be added
}

// NewEventStore returns an event store. The events of a request expire when ttl has passed
// since the last one, from repo.MinStreamTTL to repo.MaxStreamTTL; zero: DefaultTTL. The
// events of a session's own stream, which may be idle for long, expire after
// repo.MaxStreamTTL. Errors: InvalidError.
func NewEventStore(streams repo.Streams, ttl time.Duration) (*EventStore, error) {
	if ttl == 0 {
		ttl = DefaultTTL
	}
	if ttl < repo.MinStreamTTL || ttl > repo.MaxStreamTTL {
		return nil, &repo.InvalidError{Field: "ttl", Reason: "is not between repo.MinStreamTTL and repo.MaxStreamTTL"}
	}
	serving, stop := context.WithCancel(context.Background())
	return &EventStore{
		streams: streams, ttl: ttl, serving: serving, stop: stop, writers: map[string]*writer{}, swept: time.Now(), readers: map[string]int{},
	}, nil
}

func key(sessionID, streamID string) string { return repo.JoinKey("mcp", sessionID, streamID) }

// Open implements [mcp.EventStore]. The stream belongs to the user of the context, if
// there is one. A session without an id cannot be resumed, and nothing of it is kept.
func (s *EventStore) Open(ctx context.Context, sessionID, streamID string) error {
	if sessionID == "" {
		return nil
	}
	w := &writer{ttl: s.ttl, used: time.Now()}
	if streamID == "" {
		w.ttl = repo.MaxStreamTTL
	}
	stream, err := s.streams.Open(ctx, repo.NewStream{Key: key(sessionID, streamID), Owner: owner(ctx), TTL: w.ttl})
	if err != nil {
		return err
	}
	// What could not be stored at once is stored when the request is over. The writer ends with the store. It renews nothing: the SDK
	// does not report the end of a request.
	stream.TTL = 0
	w.PartWriter = live.NewPartWriter(context.WithoutCancel(ctx), s.streams, stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writers[stream.Key] = w
	if time.Since(s.swept) > s.ttl { // a request has a stream, and its end is not reported
		s.swept = time.Now()
		for key, w := range s.writers {
			if time.Since(w.used) > 2*w.ttl {
				delete(s.writers, key)
			}
		}
	}
	return nil
}

func (s *EventStore) writer(key string) *writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writers[key]
	if w != nil {
		w.used = time.Now()
	}
	return w
}

// Append implements [mcp.EventStore]. An event has its index even if Append fails, since
// the client may have got it: it is stored when the database is back. Further error:
// NotFoundError if the stream was not opened here.
func (s *EventStore) Append(ctx context.Context, sessionID, streamID string, data []byte) error {
	if sessionID == "" {
		return nil
	}
	w := s.writer(key(sessionID, streamID))
	if w == nil {
		return &repo.NotFoundError{Kind: "stream", Name: key(sessionID, streamID)}
	}
	kind := kindOf(data)
	w.answered.Store(kind == answer)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w.mu.Lock() // for patience at most
	if w.lost == nil {
		if w.lost = cmp.Or(w.Write(ctx, append([]byte{kind}, data...)), w.Gone()); w.lost != nil {
			// It may be the last one: tell followers in other processes once the database
			// is back, and what waits is stored. That ends with the store.
			go func() { _ = w.Fail(context.WithoutCancel(ctx), dropped) }()
		}
	}
	w.mu.Unlock()
	return s.flush(ctx, w)
}

func kindOf(data []byte) byte {
	if message, err := jsonrpc.DecodeMessage(data); err == nil {
		if _, ok := message.(*jsonrpc.Response); ok {
			return answer
		}
	}
	return event
}

// flush waits until what was written is stored. If an event was lost, it tells followers
// in other processes.
func (s *EventStore) flush(ctx context.Context, w *writer) error {
	w.mu.Lock()
	lost := w.lost
	w.mu.Unlock()
	if lost != nil {
		return errors.Join(mcp.ErrEventsPurged, lost, s.streams.Fail(ctx, w.Stream(), dropped))
	}
	return cmp.Or(w.Flush(ctx), w.Gone())
}

// After implements [mcp.EventStore]. Events that wait to be stored are stored first.
func (s *EventStore) After(ctx context.Context, sessionID, streamID string, index int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		events, err := s.after(ctx, key(sessionID, streamID), index)
		for _, data := range events {
			if !yield(data, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// after returns all events that there are, or an error if one is missing.
func (s *EventStore) after(ctx context.Context, key string, index int) (events [][]byte, err error) {
	if w := s.writer(key); w != nil {
		if err := s.flush(ctx, w); err != nil {
			return nil, err
		}
	}
	stream, err := s.get(ctx, key)
	if err != nil || int64(index)+1 >= stream.Next {
		return nil, err
	}
	for part, err := range s.follow(ctx, stream, index) {
		if err != nil {
			return nil, purged(err)
		}
		if events = append(events, part.Data[1:]); part.Sequence+1 == stream.Next {
			break
		}
	}
	return events, nil
}

func (s *EventStore) follow(ctx context.Context, stream repo.Stream, index int) iter.Seq2[repo.StreamPart, error] {
	return s.streams.Follow(ctx, stream.Key, repo.StreamPosition{StreamID: stream.ID, Sequence: int64(index) + 1})
}

// get returns a stream of which nothing is missing.
func (s *EventStore) get(ctx context.Context, key string) (repo.Stream, error) {
	stream, err := s.streams.Get(ctx, key)
	if err == nil && stream.Status == repo.StreamFailed {
		err = &repo.StreamFailedError{Key: key, ID: stream.ID, Reason: stream.Reason}
	}
	return stream, purged(err)
}

// purged returns the error for events that are missing in a stream.
func purged(err error) error {
	if errors.Is(err, repo.ErrGone) || errors.Is(err, repo.ErrStreamFailed) {
		return fmt.Errorf("%w: %w", mcp.ErrEventsPurged, err)
	}
	return err
}

// SessionClosed implements [mcp.EventStore]: the other replicas no longer know the session,
// and what they send of it ends. What is stored expires.
func (s *EventStore) SessionClosed(ctx context.Context, sessionID string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, w := range s.remove(sessionID) {
		// Gone: it was deleted. Conflict: it has failed, or another writer goes on with it.
		if e := w.Finish(ctx); !errors.Is(e, repo.ErrGone) && !errors.Is(e, repo.ErrConflict) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// remove removes the writers of a session, and returns the ones whose streams others may wait for.
func (s *EventStore) remove(sessionID string) (open []*writer) {
	prefix := key(sessionID, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, w := range s.writers {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		delete(s.writers, key)
		if !w.answered.Load() {
			open = append(open, w)
		}
	}
	return open
}
