package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore"
	"github.com/seed-df90f812/agentstore/live"
	"github.com/seed-df90f812/agentstore/repo"
)

// The ways of writing parts: wayAppend and wayInsert wait for each one, and wayInsert
// writes it with a statement of its own.
const (
	wayAppend = "agentstore, Append"
	wayInsert = "one INSERT each"
)

// partSize is the size of a part: a few tokens of an answer.
const partSize = 20

// partWriter writes to one stream, and partReader reads it to its end.
type (
	partWriter func(ctx context.Context, part []byte) error
	partReader func(ctx context.Context, stream repo.Stream, got func(part []byte)) error
)

// writesParts compares ways of writing parts to many streams, with one writer each.
func writesParts(streams int) preparation {
	return func(_ context.Context, l *lab) ([]cell, error) {
		if l.options.Quick {
			streams = min(streams, 20)
		}
		run := func(open func(context.Context) (write partWriter, flush func(context.Context) error, err error)) runner {
			return func(ctx context.Context, duration time.Duration) (sample, error) {
				writers, flushes := make([]partWriter, streams), make([]func(context.Context) error, streams)
				if err := each(streams, func(i int) (err error) {
					writers[i], flushes[i], err = open(ctx)
					return err
				}); err != nil {
					return sample{}, err
				}
				part := make([]byte, partSize)
				begin := time.Now()
				total, err := drive(ctx, streams, duration, func(ctx context.Context, i int) (int, error) { return 1, writers[i](ctx, part) })
				if err == nil {
					err = each(streams, func(i int) error { return flushes[i](ctx) })
				}
				total.took = time.Since(begin)
				return total, err
			}
		}
		written := func(context.Context) error { return nil }
		return []cell{
			{way: wayOurs, run: run(func(ctx context.Context) (partWriter, func(context.Context) error, error) {
				writer, err := openParts(ctx, l.store)
				if err != nil {
					return nil, nil, err
				}
				return writer.Write, writer.Flush, nil
			})},
			{way: wayAppend, run: run(func(ctx context.Context) (partWriter, func(context.Context) error, error) {
				stream, err := openStream(ctx, l.store)
				return func(ctx context.Context, part []byte) (err error) {
					stream.Next, err = l.store.Streams().Append(ctx, stream, part)
					return err
				}, written, err
			})},
			{way: wayInsert, run: run(func(context.Context) (partWriter, func(context.Context) error, error) {
				id, next := uuid(repo.NewID()), 0
				return func(ctx context.Context, part []byte) error {
					_, err := l.baselines.Exec(ctx, "INSERT INTO bare_parts (stream_id, sequence, data) VALUES ($1, $2, $3)", id, next, part)
					next++
					return err
				}, written, nil
			})},
		}, nil
	}
}

func openStream(ctx context.Context, store *agentstore.Store) (repo.Stream, error) {
	return store.Streams().Open(ctx, repo.NewStream{Key: repo.NewID().String(), Owner: "bench"})
}

func openParts(ctx context.Context, store *agentstore.Store) (*live.PartWriter, error) {
	stream, err := openStream(ctx, store)
	return live.NewPartWriter(ctx, store.Streams(), stream), err
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

// settling is the time that readers have to begin in.
const settling = 500 * time.Millisecond

func (d delivery) runner(read partReader) runner {
	return func(ctx context.Context, duration time.Duration) (sample, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		writers := make([]*live.PartWriter, d.streams)
		err := each(d.streams, func(i int) (err error) {
			writers[i], err = openParts(ctx, d.store)
			return err
		})
		if err != nil {
			return sample{}, err
		}
		seen := make([]sample, d.streams)
		begin := time.Now().Add(settling)
		read := func() error {
			return each(d.streams, func(i int) error {
				return read(ctx, writers[i].Stream(), func(part []byte) {
					due := begin.Add(time.Duration(binary.BigEndian.Uint64(part)))
					seen[i].operations, seen[i].rows = seen[i].operations+1, seen[i].rows+1
					seen[i].latencies = append(seen[i].latencies, time.Since(due))
				})
			})
		}
		var took time.Duration
		write := func() error {
			err := each(d.streams, func(i int) error {
				return d.write(ctx, begin, d.every*time.Duration(i)/time.Duration(d.streams), duration, writers[i])
			})
			took = time.Since(begin)
			if err = errors.Join(err, sleep(ctx, settling)); err != nil { // otherwise all would end at once beside the last parts
				return err
			}
			return each(d.streams, func(i int) error { return writers[i].Finish(ctx) })
		}
		err = each(2, func(n int) error {
			err := []func() error{read, write}[n]()
			if err != nil {
				cancel()
			}
			return err
		})
		total := sample{took: took}
		for i := range seen {
			total.add(seen[i])
		}
		return total, err
	}
}

// write writes parts at their times, the first one at first. A part begins with when it was
// due.
func (d delivery) write(
	ctx context.Context, begin time.Time, first, duration time.Duration, writer *live.PartWriter,
) error {
	for due := first; due < duration; due += d.every {
		if err := sleep(ctx, time.Until(begin.Add(due))); err != nil {
			return err
		}
		part := make([]byte, partSize)
		binary.BigEndian.PutUint64(part, uint64(due))
		if err := writer.Write(ctx, part); err != nil {
			return err
		}
	}
	return writer.Flush(ctx)
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
