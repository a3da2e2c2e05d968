package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/seed-df90f812/agentstore/repo"
)

// The ways of a workload with followers that catch up: they read sessions from their
// begin, all at once, as after each deployment.
const (
	wayStorm  = "beside 1,000 that catch up"
	wayCalm   = "alone"
	wayFollow = "Follow"
	wayStream = "Stream, by each"
)

// crowd is what followers that catch up read.
type crowd struct {
	store    repo.Repositories
	ids      []repo.ID
	messages int // of each session
}

// fillCrowd and fillCrowdLarge give sessions messages: of 4 kB, or of one byte with 1 MiB of
// metadata, which are made once and then copied.
const (
	fillCrowd = `
INSERT INTO messages (session_id, sequence, id, role, content)
SELECT s.id, n, gen_random_uuid(), 'user', $3 FROM unnest($1::uuid[]) AS s (id), generate_series(0, $2::bigint - 1) n`
	fillCrowdFirst = `
INSERT INTO messages (session_id, sequence, id, role, content, metadata)
SELECT ($1::uuid[])[1], 0, gen_random_uuid(), 'user', 'x', json_build_object('k', repeat($2, 1024))`
	fillCrowdLarge = `
INSERT INTO messages (session_id, sequence, id, role, content, metadata)
SELECT s.id, n, gen_random_uuid(), 'user', 'x', m.metadata
FROM messages m, unnest($1::uuid[]) AS s (id), generate_series(0, $2::bigint - 1) n
WHERE m.session_id = ($1::uuid[])[1] AND m.sequence = 0 AND (s.id, n) <> (m.session_id, 0)`
	fillCrowdCounters = `UPDATE session_counters SET next_sequence = $2 WHERE session_id = ANY ($1::uuid[])`
)

// crowd creates 1,000 sessions with so many messages each.
func (l *lab) crowd(ctx context.Context, messages int, large bool) (*crowd, error) {
	ids, err := l.sessions(ctx, 1000)
	if err != nil {
		return nil, err
	}
	uuids := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		uuids[i] = uuid(id)
	}
	fill := func(sql string, args ...any) {
		if err == nil {
			_, err = l.pool.Exec(ctx, sql, append([]any{uuids}, args...)...)
		}
	}
	if large {
		fill(fillCrowdFirst, content(1024))
		fill(fillCrowdLarge, messages)
	} else {
		fill(fillCrowd, messages, content(4000))
	}
	fill(fillCrowdCounters, messages)
	if err == nil { // otherwise autovacuum would do so during the measurements
		_, err = l.pool.Exec(ctx, "VACUUM (ANALYZE) messages, session_counters")
	}
	if err != nil {
		return nil, fmt.Errorf("fill sessions: %w", err)
	}
	return &crowd{store: l.store, ids: ids, messages: messages}, nil
}

// read has each session read from its begin to its end, again and again for a time.
func (c *crowd) read(ctx context.Context, duration time.Duration, way string) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	follow := c.store.Sessions().Follow
	if way == wayStream {
		follow = c.store.Sessions().Messages
	}
	var rows atomic.Int64
	begin := time.Now()
	err := each(len(c.ids), func(i int) error {
		for ctx.Err() == nil {
			if err := c.once(follow(ctx, c.ids[i], 0), &rows); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	})
	return sample{rows: int(rows.Load()), took: time.Since(begin)}, err
}

func (c *crowd) once(messages iter.Seq2[repo.Message, error], rows *atomic.Int64) error {
	for m, err := range messages {
		if err != nil {
			return err
		}
		rows.Add(1)
		if m.Sequence == int64(c.messages-1) {
			return nil
		}
	}
	return errors.New("the session has ended too soon")
}

// catchUps measures how much followers read that catch up.
func catchUps(messages int, large bool, ways ...string) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		c, err := l.crowd(ctx, messages, large)
		if err != nil {
			return nil, err
		}
		var cells []cell
		for _, way := range ways {
			cells = append(cells, cell{way: way, run: func(ctx context.Context, duration time.Duration) (sample, error) {
				return c.read(ctx, duration, way)
			}})
		}
		return cells, nil
	}
}

// besideCrowd measures how long a message takes to an up-to-date follower of another session,
// beside followers that catch up, and alone. There is a message every 50 ms.
func besideCrowd(messages int) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		c, err := l.crowd(ctx, messages, false)
		if err != nil {
			return nil, err
		}
		run := func(storm bool) runner {
			return func(ctx context.Context, duration time.Duration) (seen sample, err error) {
				ids, err := l.sessions(ctx, 1)
				if err != nil {
					return sample{}, err
				}
				reading, cancel := context.WithCancel(ctx)
				defer cancel()
				var beside sync.WaitGroup
				var failed error
				if storm {
					beside.Go(func() { _, failed = c.read(reading, time.Hour, wayFollow) })
				}
				seen, err = l.pings(ctx, ids[0], duration)
				cancel()
				beside.Wait()
				return seen, errors.Join(err, failed)
			}
		}
		return []cell{{way: wayStorm, run: run(true)}, {way: wayCalm, run: run(false)}}, nil
	}
}

// pings appends messages to a session for a time, and returns how long each took to a follower
// from when its append had returned: at most as long as this has run.
func (l *lab) pings(ctx context.Context, id repo.ID, duration time.Duration) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	const every = 50 * time.Millisecond
	seen := sample{}
	var answered sync.Map // of sequence: time.Time
	when := func(sequence int64) time.Time {
		first, _ := answered.LoadOrStore(sequence, time.Now())
		return first.(time.Time)
	}
	count := max(1, int64(duration/every))
	ended := make(chan error, 1)
	go func() {
		for m, err := range l.store.Sessions().Follow(ctx, id, 0) {
			if err != nil {
				ended <- err
				return
			}
			seen.operations++
			seen.rows++
			seen.latencies = append(seen.latencies, time.Since(when(m.Sequence)))
			if m.Sequence == count-1 {
				break
			}
		}
		ended <- nil
	}()
	begin := time.Now()
	messages := batch(1, 1)
	for sequence := range count {
		if err := sleep(ctx, time.Until(begin.Add(time.Duration(sequence)*every))); err != nil {
			break
		}
		if _, err := l.store.Sessions().Append(ctx, id, messages...); err != nil {
			cancel()
			return sample{}, errors.Join(err, <-ended)
		}
		when(sequence)
	}
	err := <-ended
	seen.took = time.Since(begin)
	if errors.Is(err, context.DeadlineExceeded) { // a minute: what did not come counts as that long
		err = nil
		seen.latencies = append(seen.latencies, time.Minute)
	}
	return seen, err
}
