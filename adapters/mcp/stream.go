package mcpstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-df90f812/agentstore/repo"
)

// A part's sequence is its event's index. It begins with one of these bytes.
const (
	whole = iota // the event follows
	spilt        // it is too large: the key of a stream that has it follows
)

func key(parts ...string) string { return repo.JoinKey(append([]string{"mcp"}, parts...)...) }

// writer writes the events of one stream.
type writer struct {
	new  repo.NewStream
	used time.Time // guarded by EventStore.mu

	mu      sync.Mutex
	stream  repo.Stream
	waiting [][]byte // parts that are not known to be stored
	size    int      // of waiting, in bytes
	lost    bool     // too many waited
}

func (w *writer) add(data []byte) {
	if w.lost = w.lost || w.size > repo.MaxPartsBytes; w.lost {
		w.waiting = nil
		return
	}
	w.waiting = append(w.waiting, slices.Concat([]byte{whole}, data))
	w.size += len(data)
}

// flush stores what waits, each as it was if the outcome was unknown.
func (w *writer) flush(ctx context.Context, streams repo.Streams) (err error) {
	for len(w.waiting) > 0 && err == nil {
		if part := w.waiting[0]; len(part) > repo.MaxPartBytes {
			w.waiting[0], err = spill(ctx, streams, w.new, part)
		} else if w.stream.Next, err = streams.Append(ctx, w.stream, part); err == nil {
			w.waiting = w.waiting[1:]
		}
	}
	if w.lost { // tell those who follow elsewhere
		return errors.Join(mcp.ErrEventsPurged, streams.Fail(ctx, w.stream, "events were dropped"))
	}
	if err == nil {
		w.size = 0
	}
	return err
}

// spill stores a part in a stream of its own, and returns one that refers to it.
func spill(ctx context.Context, streams repo.Streams, as repo.NewStream, part []byte) ([]byte, error) {
	as.Key = key(repo.NewID().String())
	stream, err := streams.Open(ctx, as)
	for chunk := range slices.Chunk(part[1:], repo.MaxPartBytes) {
		if err == nil {
			stream.Next, err = streams.Append(ctx, stream, chunk)
		}
	}
	if err == nil {
		err = streams.Finish(ctx, stream)
	}
	if err != nil {
		return part, err
	}
	return append([]byte{spilt}, as.Key...), nil
}

// get returns a stream of which nothing is missing.
func get(ctx context.Context, streams repo.StreamReader, key string) (repo.Stream, error) {
	stream, err := streams.Get(ctx, key)
	if err == nil && stream.Status == repo.StreamFailed {
		err = &repo.StreamFailedError{Key: key, ID: stream.ID, Reason: stream.Reason}
	}
	switch {
	case errors.Is(err, repo.ErrNotFound): // there never was one
		return repo.Stream{}, err
	case err != nil:
		return repo.Stream{}, purged(err)
	}
	return stream, nil
}

// read yields the events of a stream that follow the one with index, until another one.
func read(ctx context.Context, streams repo.StreamReader, stream repo.Stream, index int, until int64) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		from := repo.StreamPosition{StreamID: stream.ID, Sequence: int64(index) + 1}
		if from.Sequence >= until {
			return
		}
		for part, err := range streams.Follow(ctx, stream.Key, from) {
			data := part.Data
			if err == nil && data[0] == spilt {
				data = data[:1]
				for chunk, failed := range streams.Follow(ctx, string(part.Data[1:]), repo.StreamPosition{}) {
					data, err = append(data, chunk.Data...), failed
				}
			}
			if err != nil {
				yield(nil, purged(err))
				return
			}
			if !yield(data[1:], nil) || part.Sequence+1 == until {
				return
			}
		}
	}
}

// purged returns the error for an event that is missing in a stream.
func purged(err error) error {
	if errors.Is(err, repo.ErrStreamGone) || errors.Is(err, repo.ErrStreamFailed) || errors.Is(err, repo.ErrNotFound) {
		return fmt.Errorf("%w: %w", mcp.ErrEventsPurged, err)
	}
	return err
}
