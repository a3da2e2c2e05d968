package bench

import "context"

// curves show how cost grows. They are plotted, and have no goals.
func curves() []workload {
	lengths := []int{100, 1000, 10_000, 100_000, longSession}
	writers := []int{1, 4, 16, 64, 256}
	return []workload{
		{
			name: "curve-length", title: "cost against session length", unit: "operations/s",
			xAxis: "messages in the session", latency: true, keep: true,
			prepare: joined(
				appendsAtLengths("append", lengths...),
				pagesAtLengths("page of 100 at the end", lengths...),
				lastAtLengths("last 100", lengths...),
			),
		},
		{
			name: "curve-writers", title: "throughput against writers", unit: "appends/s", xAxis: "writers",
			prepare: joined(
				swept(writers, ", 1 session", func(x int) preparation { return appends(x, 1, wayOurs, wayNaive) }),
				swept(writers, ", 1,000 sessions", func(x int) preparation { return appends(x, 1000, wayOurs, wayNaive, wayBare) }),
			),
		},
		{
			name: "curve-sessions", title: "throughput against sessions, 64 writers", unit: "appends/s", xAxis: "sessions",
			prepare: swept([]int{1, 10, 100, 1000, 10_000}, "", func(x int) preparation {
				return appends(64, x, wayOurs, wayNaive, wayBare)
			}),
		},
		{
			name: "curve-batch", title: "throughput against messages in one append, 1 writer", unit: "messages/s",
			xAxis:   "messages in one append",
			prepare: swept([]int{1, 10, 100, 1000}, "", func(x int) preparation { return batches(x, wayOurs, wayCopy) }),
		},
		{
			name: "curve-size", title: "throughput against message size, 16 writers, 1,000 sessions", unit: "appends/s",
			xAxis: "bytes of content",
			prepare: swept([]int{100, 1000, 10_000, 100_000}, "", func(x int) preparation {
				return appendsOf(16, 1000, batch(1, x), wayOurs, wayBare)
			}),
		},
	}
}

// joined prepares the cells of several preparations.
func joined(all ...preparation) preparation {
	return func(ctx context.Context, l *lab) (cells []cell, err error) {
		for _, prepare := range all {
			more, err := prepare(ctx, l)
			if err != nil {
				return nil, err
			}
			cells = append(cells, more...)
		}
		return cells, nil
	}
}

// swept prepares cells at each x of a curve.
func swept(xs []int, suffix string, prepare func(x int) preparation) preparation {
	all := make([]preparation, len(xs))
	for i, x := range xs {
		all[i] = func(ctx context.Context, l *lab) ([]cell, error) {
			cells, err := prepare(x)(ctx, l)
			for i := range cells {
				cells[i].x, cells[i].way = float64(x), cells[i].way+suffix
			}
			return cells, err
		}
	}
	return joined(all...)
}
