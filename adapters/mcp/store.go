// Package mcpstore keeps what servers of the Model Context Protocol send, so that a client
// that is cut off goes on at any replica. README.md has the lines to write. The API may
// change with that of github.com/modelcontextprotocol/go-sdk.
package mcpstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

const (
	// DefaultTTL is how long the events of a request can be had after the last one.
	DefaultTTL = time.Hour
	// patience bounds an operation whose context the SDK gives no end.
	patience = 15 * time.Second
)

// EventStore is a [mcp.EventStore] on streams, safe for concurrent use. One process at a
// time writes to a session, as in the SDK: the last that opened its streams. Errors are
// those of [repo.Streams], and [mcp.ErrEventsPurged].
type EventStore struct {
	streams repo.Streams
	ttl     time.Duration

	mu      sync.Mutex
	writers map[string]*writer // by key
	swept   time.Time
}

// NewEventStore returns an event store. The events of a request expire when ttl has passed
// since the last one, from repo.MinStreamTTL to repo.MaxStreamTTL; zero: DefaultTTL. Those
// of a session's own stream, which may be idle for long, do after repo.MaxStreamTTL.
// Errors: InvalidError.
func NewEventStore(streams repo.Streams, ttl time.Duration) (*EventStore, error) {
	if ttl == 0 {
		ttl = DefaultTTL
	}
	if ttl < repo.MinStreamTTL || ttl > repo.MaxStreamTTL {
		return nil, &repo.InvalidError{Field: "ttl", Reason: fmt.Sprintf("is not between %v and %v", repo.MinStreamTTL, repo.MaxStreamTTL)}
	}
	return &EventStore{streams: streams, ttl: ttl, writers: map[string]*writer{}, swept: time.Now()}, nil
}

// Open implements [mcp.EventStore]. The stream belongs to the user of the context, if
// there is one. A session without an id cannot be resumed, and nothing of it is kept.
func (s *EventStore) Open(ctx context.Context, sessionID, streamID string) (err error) {
	if sessionID == "" {
		return nil
	}
	w := &writer{new: repo.NewStream{Key: key(sessionID, streamID), Owner: owner(ctx), TTL: s.ttl}, used: time.Now()}
	if streamID == "" {
		w.new.TTL = repo.MaxStreamTTL
	}
	if w.stream, err = s.streams.Open(ctx, w.new); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writers[w.new.Key] = w
	if time.Since(s.swept) > s.ttl { // a request has a stream, and nobody says when it is over
		s.swept = time.Now()
		for key, w := range s.writers {
			if time.Since(w.used) > 2*w.new.TTL {
				delete(s.writers, key)
			}
		}
	}
	return nil
}

func (s *EventStore) writer(sessionID, streamID string) *writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writers[key(sessionID, streamID)]
	if w != nil {
		w.used = time.Now()
	}
	return w
}

// Append implements [mcp.EventStore]. An event has its index even if Append fails, since
// the client may have got it: it is stored with the next one. Further error:
// StreamNotFoundError if the stream was not opened here.
func (s *EventStore) Append(ctx context.Context, sessionID, streamID string, data []byte) error {
	if sessionID == "" {
		return nil
	}
	w := s.writer(sessionID, streamID)
	if w == nil {
		return &repo.StreamNotFoundError{Key: key(sessionID, streamID)}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(data)
	return w.flush(ctx, s.streams)
}

// After implements [mcp.EventStore]. Events that wait to be stored are stored first.
func (s *EventStore) After(ctx context.Context, sessionID, streamID string, index int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var err error
		if w := s.writer(sessionID, streamID); w != nil {
			w.mu.Lock()
			err = w.flush(ctx, s.streams)
			w.mu.Unlock()
		}
		var stream repo.Stream
		if err == nil {
			stream, err = get(ctx, s.streams, key(sessionID, streamID))
		}
		var events [][]byte // if one is missing, none is yielded
		for data, failed := range read(ctx, s.streams, stream, index, stream.Next) {
			events, err = append(events, data), failed
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for _, data := range events {
			if !yield(data, nil) {
				return
			}
		}
	}
}

// SessionClosed implements [mcp.EventStore]: the other replicas no longer know the session.
// What is stored expires.
func (s *EventStore) SessionClosed(ctx context.Context, sessionID string) error {
	w := s.writer(sessionID, "")
	if w == nil {
		return nil
	}
	s.mu.Lock()
	delete(s.writers, w.new.Key)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	err := s.streams.Finish(ctx, w.stream)
	if errors.Is(err, repo.ErrStreamGone) || errors.Is(err, repo.ErrConflict) {
		return nil // nothing is left, or somebody else goes on with it
	}
	return err
}
