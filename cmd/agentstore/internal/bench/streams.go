package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/repo"
)

// wayInsert writes each part with a statement of its own.
const wayInsert = "one INSERT each"

// partSize is the size of a part: a few tokens of an answer.
const partSize = 20

// partWriter writes to one stream, and partReader reads it to its end.
type (
	partWriter func(ctx context.Context, part []byte) error
	partReader func(ctx context.Context, stream repo.Stream, got func(part []byte)) error
)

// writesParts compares ways of writing parts to many streams, each with a writer that
// waits for each answer.
func writesParts(streams int) preparation {
	return func(_ context.Context, l *lab) ([]cell, error) {
		if l.options.Quick {
			streams = min(streams, 20)
		}
		run := func(open func(context.Context) (partWriter, error)) runner {
			return func(ctx context.Context, duration time.Duration) (sample, error) {
				writers := make([]partWriter, streams)
				if err := each(streams, func(i int) (err error) {
					writers[i], err = open(ctx)
					return err
				}); err != nil {
					return sample{}, err
				}
				part := make([]byte, partSize)
				return drive(ctx, streams, duration, func(ctx context.Context, i int) (int, error) { return 1, writers[i](ctx, part) })
			}
		}
		return []cell{
			{way: wayOurs, run: run(func(ctx context.Context) (partWriter, error) {
				_, write, err := openParts(ctx, l.store)
				return write, err
			})},
			{way: wayInsert, run: run(func(context.Context) (partWriter, error) {
				id, next := uuid(repo.NewID()), 0
				return func(ctx context.Context, part []byte) error {
					_, err := l.baselines.Exec(ctx, "INSERT INTO bare_parts (stream_id, sequence, data) VALUES ($1, $2, $3)", id, next, part)
					next++
					return err
				}, nil
			})},
		}, nil
	}
}

// openParts opens a stream.
func openParts(ctx context.Context, store *agentstore.Store) (repo.Stream, partWriter, error) {
	stream, err := store.Streams().Open(ctx, repo.NewStream{Key: repo.NewID().String(), Owner: "bench"})
	at := stream
	return stream, func(ctx context.Context, part []byte) (err error) {
		at.Next, err = store.Streams().Append(ctx, at, part)
		return err
	}, err
}

// deliversParts measures from the time at which a part is due until a reader elsewhere
// has it. Each stream has rate parts in a second, and one reader.
func deliversParts(streams, rate int) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		if l.options.Quick {
			streams = min(streams, 20)
		}
		pool, err := pgxpool.NewWithConfig(ctx, l.pool.Config())
		if err != nil {
			return nil, err
		}
		elsewhere, err := agentstore.OpenPool(ctx, pool, agentstore.Options{})
		if err != nil {
			pool.Close()
			return nil, err
		}
		d := delivery{l.store, streams, time.Second / time.Duration(rate)}
		return []cell{
			{way: wayElsewhere, run: d.runner(following(elsewhere)), end: func() { _ = elsewhere.Close(); pool.Close() }},
			{way: wayPoll, run: d.runner(polling(l.baselines))},
		}, nil
	}
}

type delivery struct {
	store   *agentstore.Store
	streams int
	every   time.Duration
}

func (d delivery) runner(read partReader) runner {
	return func(ctx context.Context, duration time.Duration) (sample, error) {
		seen := make([]sample, d.streams)
		begin := time.Now()
		var readers sync.WaitGroup
		reading, cancel := context.WithCancel(ctx)
		defer cancel()
		failures := make(chan error, d.streams)
		err := each(d.streams, func(i int) error {
			stream, write, err := openParts(ctx, d.store)
			if err != nil {
				return err
			}
			readers.Go(func() {
				failures <- read(reading, stream, func(part []byte) {
					due := begin.Add(time.Duration(binary.BigEndian.Uint64(part)))
					seen[i].operations, seen[i].rows = seen[i].operations+1, seen[i].rows+1
					seen[i].latencies = append(seen[i].latencies, time.Since(due))
				})
			})
			return d.write(ctx, begin, d.every*time.Duration(i)/time.Duration(d.streams), duration, stream, write)
		})
		if err != nil {
			cancel()
		}
		readers.Wait()
		total := sample{took: time.Since(begin)}
		for i := range seen {
			if failed := <-failures; err == nil {
				err = failed
			}
			total.add(seen[i])
		}
		return total, err
	}
}

// write writes parts at their times, the first one at first, and then finishes the stream.
// A part begins with when it was due.
func (d delivery) write(
	ctx context.Context, begin time.Time, first, duration time.Duration, stream repo.Stream, write partWriter,
) error {
	count := int64(0)
	for due := first; due < duration; due += d.every {
		if err := sleep(ctx, time.Until(begin.Add(due))); err != nil {
			return err
		}
		part := make([]byte, partSize)
		binary.BigEndian.PutUint64(part, uint64(due))
		if err := write(ctx, part); err != nil {
			return err
		}
		count++
	}
	stream.Next = count
	return d.store.Streams().Finish(ctx, stream)
}

func following(store *agentstore.Store) partReader {
	return func(ctx context.Context, stream repo.Stream, got func([]byte)) error {
		for part, err := range store.Streams().Follow(ctx, stream.Key, repo.StreamPosition{StreamID: stream.ID}) {
			if err != nil {
				return err
			}
			got(part.Data)
		}
		return nil
	}
}

// polling reads as one would do by hand.
func polling(pool *pgxpool.Pool) partReader {
	const query = `SELECT data, status FROM streams s LEFT JOIN stream_parts p ON p.stream_id = s.id AND p.sequence >= $2
		WHERE s.id = $1 ORDER BY p.sequence`
	return func(ctx context.Context, stream repo.Stream, got func([]byte)) error {
		for next, ended := 0, false; !ended; {
			rows, err := pool.Query(ctx, query, uuid(stream.ID), next)
			if err != nil {
				return err
			}
			for rows.Next() {
				var data []byte
				var status string
				if err := rows.Scan(&data, &status); err != nil {
					return fmt.Errorf("read a part: %w", err)
				}
				if ended = status != string(repo.StreamOpen); data != nil {
					got(data)
					next++
				}
			}
			if err := rows.Err(); err != nil {
				return err
			}
			if !ended {
				if err := sleep(ctx, pollEvery/2+rand.N(pollEvery)); err != nil {
					return err
				}
			}
		}
		return nil
	}
}
