package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// workload is a task, and the ways of doing it that are compared.
type workload struct {
	name, title string
	unit        string // of rates
	// xAxis makes the workload a curve, and says what the x of its cells is.
	xAxis string
	// latency: the curve shows latencies rather than rates.
	latency bool
	// prepare makes the cells. A workload with goals has one for each way.
	prepare preparation
	// keep keeps the data of the previous workload.
	keep  bool
	goals []goal
}

func (w workload) isCurve() bool { return w.xAxis != "" }

// cell is one way at one place.
type cell struct {
	way string
	x   float64
	run runner
	// end, if set, stops what the cell started.
	end func()
}

// runner does a cell's work for a time.
type runner func(ctx context.Context, duration time.Duration) (sample, error)

// preparation makes a workload's cells.
type preparation func(ctx context.Context, l *lab) ([]cell, error)

// The groups that a selection may name.
const (
	GroupFigures = "figures"
	GroupCurves  = "curves"
	GroupAll     = "all"
)

// Names lists the workloads: a line each, with its title.
func Names() string {
	var text strings.Builder
	for _, w := range workloads() {
		fmt.Fprintf(&text, "  %-18s %s\n", w.name, w.title)
	}
	return text.String()
}

// Check reports a name in selection that is neither a workload nor a group.
func Check(selection []string) error {
	_, err := selected(selection)
	return err
}

// selected returns the workloads that selection names, in the order of workloads.
func selected(selection []string) ([]workload, error) {
	all := workloads()
	for _, name := range selection {
		known := slices.ContainsFunc(all, func(w workload) bool { return w.name == name })
		if !known && !slices.Contains([]string{GroupFigures, GroupCurves, GroupAll}, name) {
			return nil, fmt.Errorf("there is no workload %q", name)
		}
	}
	return slices.DeleteFunc(all, func(w workload) bool {
		group := GroupFigures
		if w.isCurve() {
			group = GroupCurves
		}
		return !slices.Contains(selection, w.name) && !slices.Contains(selection, group) && !slices.Contains(selection, GroupAll)
	}), nil
}

// parts is how many parts a cell's round has. They alternate with the parts of
// other cells, so that other load on the machine affects all of them.
const parts = 4

// play runs a workload.
func (w workload) play(ctx context.Context, l *lab, report func(round int)) ([]Measurement, error) {
	if !w.keep {
		if err := l.empty(ctx); err != nil {
			return nil, err
		}
	}
	cells, err := w.prepare(ctx, l)
	defer func() {
		for _, c := range cells {
			if c.end != nil {
				c.end()
			}
		}
	}()
	if err != nil {
		return nil, err
	}
	duration, rounds := l.options.Duration, l.options.Rounds
	// Make connections and prepare statements before anything is measured.
	report(0)
	for _, c := range cells {
		if _, err := c.run(ctx, duration/parts); err != nil {
			return nil, fmt.Errorf("%s: %w", c.way, err)
		}
	}
	samples := make([][]sample, len(cells))
	for i := range samples {
		samples[i] = make([]sample, rounds)
	}
	for round := range rounds {
		report(round + 1)
		for part := range parts {
			for turn := range cells {
				// Each part begins with another cell, and every other part reverses
				// the order, so that no cell always follows the same one.
				i := (turn + part) % len(cells)
				if part%2 == 1 {
					i = len(cells) - 1 - i
				}
				s, err := cells[i].run(ctx, duration/parts)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", cells[i].way, err)
				}
				samples[i][round].add(s)
			}
		}
	}
	measurements := make([]Measurement, len(cells))
	for i, c := range cells {
		measurements[i] = measure(c.way, c.x, samples[i])
	}
	return measurements, nil
}
