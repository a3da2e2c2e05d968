package demo

import (
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// result is the outcome of one way of writing.
type result struct {
	acknowledged, lost, duplicates, gaps int
	took                                 time.Duration
}

// summarize examines what was stored. A gap is a number that no message has; a
// duplicate is a message whose number another one has.
func summarize(acknowledged []repo.ID, stored map[repo.ID]int, sequences []int64, took time.Duration) result {
	r := result{acknowledged: len(acknowledged), took: took}
	for _, id := range acknowledged {
		if stored[id] == 0 {
			r.lost++
		}
	}
	used := make([]bool, len(sequences))
	r.gaps = len(used)
	for _, sequence := range sequences {
		switch {
		case sequence < 0 || sequence >= int64(len(used)):
		case used[sequence]:
			r.duplicates++
		default:
			used[sequence] = true
			r.gaps--
		}
	}
	return r
}

// report prints the results side by side, ours first, then the checks.
func report(out io.Writer, checks []check, ways ...result) error {
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	if len(ways) > 1 {
		fmt.Fprintln(table, "\tagentstore\tnaive (count, then insert)\t")
	}
	for _, row := range []struct {
		name string
		of   func(result) int
	}{
		{"messages acknowledged", func(r result) int { return r.acknowledged }},
		{"of these lost", func(r result) int { return r.lost }},
		{"duplicate sequences", func(r result) int { return r.duplicates }},
		{"gaps", func(r result) int { return r.gaps }},
		{"appends per second", func(r result) int { return int(math.Round(float64(r.acknowledged) / r.took.Seconds())) }},
	} {
		fmt.Fprintf(table, "%s\t", row.name)
		for _, way := range ways {
			fmt.Fprintf(table, "%d\t", row.of(way))
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nChecked:")
	failed := false
	for _, check := range checks {
		mark := "ok    "
		if !check.ok {
			mark, failed = "FAILED", true
		}
		fmt.Fprintf(out, "  %s  %s\n", mark, check.what)
	}
	if failed {
		return errors.New("a check failed")
	}
	return nil
}
