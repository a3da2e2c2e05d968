package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"
)

// run runs each workload a number of rounds, in which the ways take turns, and prints a
// table. The first round warms up and is not counted, except for what it lost.
func run(ctx context.Context, databaseURL string, workloads []workload, rounds int, duration time.Duration, out io.Writer) (err error) {
	l, err := newLab(ctx, databaseURL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.leave(ctx)) }()
	var version, fsync string
	if err := l.conn.QueryRow(ctx, "SELECT current_setting('server_version'), current_setting('fsync')").Scan(&version, &fsync); err != nil {
		return err
	}
	fmt.Fprintf(out, "PostgreSQL %s, fsync %s; %d CPUs, %s; %d rounds of %v; the adapter has %d connections, the framework's store %d.\n\n",
		version, fsync, runtime.GOMAXPROCS(0), runtime.Version(), rounds, duration, ourConnections, theirConnections)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "workload\tstore\tappends/s\tp50\tp99\trefused\tlost\tratio, lowest – highest\tgoal\t")
	stored := make([]int, len(l.ways)) // acknowledged in all workloads
	for _, w := range workloads {
		results := make([][]result, len(l.ways))
		totals := make([]result, len(l.ways))
		for round := range rounds + 1 {
			for i, way := range l.ways {
				sessions, err := prepare(ctx, w, way.service)
				if err != nil {
					return err
				}
				got, err := drive(ctx, w, way.service, sessions, round, duration)
				if err != nil {
					return err
				}
				stored[i] += got.appends
				totals[i].refused += got.refused
				totals[i].lost += got.lost
				if round > 0 {
					results[i] = append(results[i], got)
				}
			}
		}
		for i, way := range l.ways {
			var count int
			if err := l.conn.QueryRow(ctx, way.count).Scan(&count); err != nil {
				return err
			}
			totals[i].lost += max(0, stored[i]-count)
			stored[i] = count
			fmt.Fprintf(table, "%s\t%s\t%.0f\t%v\t%v\t%d\t%d\t%s\t\n", w.name, way.name,
				median(results[i], func(r result) float64 { return r.rate }),
				percentile(results[i], 0.50), percentile(results[i], 0.99), totals[i].refused, totals[i].lost, ratio(w, i, results))
		}
	}
	return table.Flush()
}

func median(results []result, of func(result) float64) float64 {
	var values []float64
	for _, r := range results {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func percentile(results []result, part float64) time.Duration {
	of := func(r result) float64 { return float64(r.percentile(part)) }
	return time.Duration(median(results, of)).Round(10 * time.Microsecond)
}

// ratio compares the rounds of the adapter with those of the framework beside them.
func ratio(w workload, way int, results [][]result) string {
	if way > 0 {
		return "\t"
	}
	var ratios []float64
	for i, ours := range results[0] {
		ratios = append(ratios, ours.rate/max(results[1][i].rate, 0.1))
	}
	slices.Sort(ratios)
	verdict := "reached"
	middle := ratios[len(ratios)/2]
	if middle < w.goal {
		verdict = "NOT reached"
	}
	return fmt.Sprintf("%.1f ×, %.1f – %.1f\t≥ %.0f × %s", middle, ratios[0], ratios[len(ratios)-1], w.goal, verdict)
}
