package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
	"github.com/seed-df90f812/agentstore/repo/memory"
)

// workloads in the order in which they run. Those about long sessions come
// last: the others begin with empty tables.
func workloads() []workload {
	return append(figures(), curves()...)
}

func figures() []workload {
	rate := func(baseline string, figure float64) goal {
		return goal{subject: wayOurs, baseline: baseline, figure: figure}
	}
	latency := func(subject, baseline string, figure float64) goal {
		return goal{subject: subject, baseline: baseline, latency: true, figure: figure}
	}
	return []workload{
		{
			name: "append-64w-1s", title: "64 writers, 1 session", unit: "appends/s",
			prepare: appends(64, 1, wayOurs, wayNaive, wayRetry, wayBare),
			goals:   []goal{rate(wayNaive, 20), rate(wayBare, 2)},
		},
		{
			name: "append-64w-1000s", title: "64 writers, 1,000 sessions", unit: "appends/s",
			prepare: appends(64, 1000, wayOurs, wayNaive, wayRetry, wayBare),
			goals:   []goal{rate(wayNaive, 4), rate(wayBare, 1.3)},
		},
		{
			name: "append-256w-1000s", title: "256 writers, 1,000 sessions", unit: "appends/s",
			prepare: appends(256, 1000, wayOurs, wayNaive, wayBare),
			goals:   []goal{rate(wayBare, 2.5)},
		},
		{
			name: "append-16w-1000s", title: "16 writers, 1,000 sessions", unit: "appends/s",
			prepare: appends(16, 1000, wayOurs, wayNaive, wayBare),
			goals:   []goal{rate(wayNaive, 1.5), rate(wayBare, 0.85)},
		},
		{
			name: "append-8w-1000s", title: "8 writers, 1,000 sessions", unit: "appends/s",
			prepare: appends(8, 1000, wayOurs, wayBare),
			goals:   []goal{rate(wayBare, 0.9)},
		},
		{
			name: "append-4w-1000s", title: "4 writers, 1,000 sessions", unit: "appends/s",
			prepare: appends(4, 1000, wayOurs, wayBare),
			goals:   []goal{rate(wayBare, 0.9)},
		},
		{
			name: "append-2w-1000s", title: "2 writers, 1,000 sessions", unit: "appends/s",
			prepare: appends(2, 1000, wayOurs, wayBare),
			goals:   []goal{rate(wayBare, 0.9)},
		},
		{
			name: "append-100kB", title: "messages of 100 kB, 16 writers, 1,000 sessions", unit: "appends/s",
			prepare: appendsOf(16, 1000, batch(1, 100_000), wayOurs, wayBare),
			goals:   []goal{rate(wayBare, 0.8)},
		},
		{
			name: "held-1", title: "64 writers, 1 of 1,000 sessions held", unit: "appends/s",
			prepare: besideHeld(64, 1000, 1),
			goals:   heldGoals(),
		},
		{
			name: "held-100", title: "64 writers, 100 of 1,000 sessions held", unit: "appends/s",
			prepare: besideHeld(64, 1000, 100),
			goals:   heldGoals(),
		},
		{
			name: "append-1w-1s", title: "1 writer, 1 session", unit: "appends/s",
			prepare: appends(1, 1, wayOurs, wayNaive, wayBare),
			goals:   []goal{latency(wayOurs, wayBare, 1.15)},
		},
		{
			name: "append-4p-16w-1s", title: "4 processes × 16 writers, 1 session", unit: "appends/s",
			prepare: processes(4, 16, wayOurs, wayNaive),
			goals:   []goal{rate(wayNaive, 8)},
		},
		{
			name: "batch-1000", title: "one append of 1,000 messages", unit: "messages/s",
			prepare: batches(1000, wayOurs, wayCopy),
			goals:   []goal{rate(wayCopy, 0.5)},
		},
		{
			name: "memory-64w-1s", title: "memory store, 64 writers, 1 session", unit: "appends/s",
			prepare: inMemory(64),
			goals:   []goal{{subject: wayOurs, figure: 500_000}},
		},
		{
			name: "stream", title: "stream of a whole session", unit: "messages/s",
			prepare: streams,
			goals:   []goal{rate("bare SELECT", 0.8)},
		},
		{
			name: "append-length", title: "append to a long session", unit: "appends/s", keep: true,
			prepare: appendsAtLengths(shortSession, longSession),
			goals:   []goal{latency(lengthWay(longSession), lengthWay(shortSession), 1.1)},
		},
		{
			name: "page-length", title: "page of 100 at the end of a long session", unit: "messages/s", keep: true,
			prepare: pagesAtLengths("", 1000, longSession),
			goals:   []goal{latency(lengthWay(longSession), lengthWay(1000), 1.2)},
		},
		{
			name: "last-length", title: "last 100 of a long session", unit: "messages/s", keep: true,
			prepare: lastAtLengths("", 1000, longSession),
			goals:   []goal{latency(lengthWay(longSession), lengthWay(1000), 1.2)},
		},
	}
}

const (
	shortSession = 100
	longSession  = 1_000_000
)

// shrunk is a prepared session's real length: less in a quick run.
func (l *lab) shrunk(length int) int {
	if l.options.Quick {
		return min(length, 2000)
	}
	return length
}

func lengthWay(length int) string { return fmt.Sprintf("length %d", length) }

// appending drives a way's appends of single messages.
func appending(way appender, writers int, sessions []repo.ID, messages []repo.NewMessage) runner {
	return func(ctx context.Context, duration time.Duration) (sample, error) {
		return drive(ctx, writers, duration, func(ctx context.Context, _ int) (int, error) {
			return len(messages), way(ctx, sessions[rand.N(len(sessions))], messages)
		})
	}
}

// appends compares ways of appending one message of the usual size.
func appends(writers, sessions int, ways ...string) preparation {
	return appendsOf(writers, sessions, batch(1, messageSize), ways...)
}

// batches compares ways of appending many messages at once, by one writer.
func batches(count int, ways ...string) preparation {
	return appendsOf(1, 1, batch(count, messageSize), ways...)
}

func appendsOf(writers, sessions int, messages []repo.NewMessage, ways ...string) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		cells := make([]cell, len(ways))
		for i, way := range ways {
			ids, err := l.sessions(ctx, sessions)
			if err != nil {
				return nil, err
			}
			cells[i] = cell{way: way, run: appending(l.appender(way), writers, ids, messages)}
		}
		return cells, nil
	}
}

// inMemory appends to the memory store. Each part has a new one: it keeps what
// it gets.
func inMemory(writers int) preparation {
	return func(context.Context, *lab) ([]cell, error) {
		messages := batch(1, messageSize)
		return []cell{{way: wayOurs, run: func(ctx context.Context, duration time.Duration) (sample, error) {
			store := memory.New()
			defer func() { _ = store.Close() }()
			ids, err := createSessions(ctx, store, 1)
			if err != nil {
				return sample{}, err
			}
			return appending(appendTo(store), writers, ids, messages)(ctx, duration)
		}}}, nil
	}
}

// streams compares reading a session whole.
func streams(ctx context.Context, l *lab) ([]cell, error) {
	length := l.shrunk(50_000)
	id, err := l.ofLength(ctx, length)
	if err != nil {
		return nil, err
	}
	read := selecting(l.baselines)
	reading := func(stream operation) runner {
		return func(ctx context.Context, duration time.Duration) (sample, error) {
			return drive(ctx, 1, duration, stream)
		}
	}
	return []cell{
		{way: wayOurs, run: reading(func(ctx context.Context, _ int) (rows int, err error) {
			for _, err := range l.store.Sessions().Stream(ctx, id, 0) {
				if err != nil {
					return rows, err
				}
				rows++
			}
			return rows, nil
		})},
		{way: "bare SELECT", run: reading(func(ctx context.Context, _ int) (rows int, err error) {
			return rows, read(ctx, id, func(repo.Message) { rows++ })
		})},
	}, nil
}

// appendsAtLengths appends to sessions of several lengths.
func appendsAtLengths(lengths ...int) preparation {
	return atLengths("", lengths, func(l *lab, id repo.ID, _ int) runner {
		return appending(l.appender(wayOurs), 1, []repo.ID{id}, batch(1, messageSize))
	})
}

const pageSize = 100

// pagesAtLengths reads the page that ends the session.
func pagesAtLengths(way string, lengths ...int) preparation {
	return atLengths(way, lengths, func(l *lab, id repo.ID, length int) runner {
		return paging(func(ctx context.Context) ([]repo.Message, error) {
			return l.store.Sessions().MessagesFrom(ctx, id, int64(length-pageSize), pageSize)
		})
	})
}

// lastAtLengths reads the last messages, without knowing the length.
func lastAtLengths(way string, lengths ...int) preparation {
	return atLengths(way, lengths, func(l *lab, id repo.ID, _ int) runner {
		return paging(func(ctx context.Context) ([]repo.Message, error) {
			return l.store.Sessions().LastMessages(ctx, id, pageSize)
		})
	})
}

func paging(page func(context.Context) ([]repo.Message, error)) runner {
	return func(ctx context.Context, duration time.Duration) (sample, error) {
		return drive(ctx, 1, duration, func(ctx context.Context, _ int) (int, error) {
			messages, err := page(ctx)
			if err == nil && len(messages) != pageSize {
				err = fmt.Errorf("a page of %d messages", len(messages))
			}
			return len(messages), err
		})
	}
}

// atLengths makes a cell for each length, named by it or, in a curve, by way.
func atLengths(way string, lengths []int, run func(*lab, repo.ID, int) runner) preparation {
	return func(ctx context.Context, l *lab) ([]cell, error) {
		var cells []cell
		for _, length := range lengths {
			id, err := l.ofLength(ctx, l.shrunk(length))
			if err != nil {
				return nil, err
			}
			name := way
			if name == "" {
				name = lengthWay(length)
			}
			cells = append(cells, cell{way: name, x: float64(length), run: run(l, id, l.shrunk(length))})
		}
		return cells, nil
	}
}
