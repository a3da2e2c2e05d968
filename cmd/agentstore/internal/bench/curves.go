package bench

import (
	"context"

	"github.com/seed-df90f812/agentstore/repo"
)

// curves show how cost grows. They are drawn, and have no figures to reach.
func curves() []workload {
	return []workload{
		{
			name: "curve-length", title: "cost against session length", unit: "operations/s",
			xAxis: "messages in the session", latency: true, keep: true, prepare: lengthCurve,
		},
		{
			name: "curve-writers", title: "throughput against writers", unit: "appends/s",
			xAxis: "writers", prepare: writersCurve,
		},
		{
			name: "curve-sessions", title: "throughput against sessions, 64 writers", unit: "appends/s",
			xAxis: "sessions", prepare: sessionsCurve,
		},
		{
			name: "curve-batch", title: "throughput against messages in one append, 1 writer", unit: "messages/s",
			xAxis: "messages in one append", prepare: batchCurve,
		},
		{
			name: "curve-size", title: "throughput against message size, 16 writers, 1,000 sessions", unit: "appends/s",
			xAxis: "bytes of content", prepare: sizeCurve,
		},
	}
}

func lengthCurve(ctx context.Context, l *lab) ([]cell, error) {
	lengths := []int{100, 1000, 10_000, 100_000, longSession}
	var cells []cell
	for _, prepare := range []preparation{
		atLengths("append", lengths, func(l *lab, id repo.ID, _ int) runner {
			return appending(l.appender(wayOurs), 1, []repo.ID{id}, batch(1, messageSize))
		}),
		pagesAtLengths("page of 100 at the end", lengths...),
		lastAtLengths("last 100", lengths...),
	} {
		more, err := prepare(ctx, l)
		if err != nil {
			return nil, err
		}
		cells = append(cells, more...)
	}
	return cells, nil
}

// at moves cells to a place on a curve.
func at(x int, name func(way string) string, cells []cell) []cell {
	for i := range cells {
		cells[i].x, cells[i].way = float64(x), name(cells[i].way)
	}
	return cells
}

func same(way string) string { return way }

// swept prepares cells for each x.
func swept(ctx context.Context, l *lab, name func(string) string, xs []int, prepare func(x int) preparation) ([]cell, error) {
	var cells []cell
	for _, x := range xs {
		more, err := prepare(x)(ctx, l)
		if err != nil {
			return nil, err
		}
		cells = append(cells, at(x, name, more)...)
	}
	return cells, nil
}

func writersCurve(ctx context.Context, l *lab) ([]cell, error) {
	writers := []int{1, 4, 16, 64, 256}
	var cells []cell
	for _, sessions := range []int{1, 1000} {
		ways := []string{wayOurs, wayNaive}
		if sessions > 1 {
			ways = append(ways, wayBare)
		}
		more, err := swept(ctx, l, func(way string) string {
			if sessions == 1 {
				return way + ", 1 session"
			}
			return way + ", 1,000 sessions"
		}, writers, func(x int) preparation {
			return appends(x, sessions, ways...)
		})
		if err != nil {
			return nil, err
		}
		cells = append(cells, more...)
	}
	return cells, nil
}

func sessionsCurve(ctx context.Context, l *lab) ([]cell, error) {
	return swept(ctx, l, same, []int{1, 10, 100, 1000, 10_000}, func(x int) preparation {
		return appends(64, x, wayOurs, wayNaive, wayBare)
	})
}

func batchCurve(ctx context.Context, l *lab) ([]cell, error) {
	return swept(ctx, l, same, []int{1, 10, 100, 1000}, func(x int) preparation {
		return batches(x, wayOurs, wayCopy)
	})
}

func sizeCurve(ctx context.Context, l *lab) ([]cell, error) {
	return swept(ctx, l, same, []int{100, 1000, 10_000, 100_000}, func(x int) preparation {
		return appendsOf(16, 1000, batch(1, x), wayOurs, wayBare)
	})
}
