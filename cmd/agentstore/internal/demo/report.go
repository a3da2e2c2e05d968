package demo

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/seed-df90f812/agentstore/repo"
)

// result is what one way of writing led to.
type result struct {
	acknowledged, stored, lost, duplicates, gaps int
	took                                         time.Duration
}

// summarize looks at what was stored. A gap is a number that no message has, a
// duplicate a message whose number another one has already.
func summarize(acknowledged []repo.ID, stored map[repo.ID]int, sequences []int64, took time.Duration) result {
	r := result{acknowledged: len(acknowledged), stored: len(sequences), took: took}
	for _, id := range acknowledged {
		if stored[id] == 0 {
			r.lost++
		}
	}
	used := make([]bool, len(sequences))
	for _, sequence := range sequences {
		switch {
		case sequence < 0 || sequence >= int64(len(used)):
		case used[sequence]:
			r.duplicates++
		default:
			used[sequence] = true
		}
	}
	for _, taken := range used {
		if !taken {
			r.gaps++
		}
	}
	return r
}

func (r result) rate() float64 { return float64(r.acknowledged) / r.took.Seconds() }

// report prints both ways side by side, then the checks. A nil naive is left out.
func report(out io.Writer, ours result, naive *result, checks []check) error {
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	if naive == nil {
		fmt.Fprintf(table, "messages acknowledged\t%d\t\nof these lost\t%d\t\nduplicate sequences\t%d\t\ngaps\t%d\t\nappends per second\t%.0f\t\n",
			ours.acknowledged, ours.lost, ours.duplicates, ours.gaps, ours.rate())
		return reportChecks(out, table, checks)
	}
	fmt.Fprintln(table, "\tagentstore\tnaive (count, then insert)\t")
	for _, row := range []struct {
		name        string
		ours, naive any
	}{
		{"messages acknowledged", ours.acknowledged, naive.acknowledged},
		{"of these lost", ours.lost, naive.lost},
		{"duplicate sequences", ours.duplicates, naive.duplicates},
		{"gaps", ours.gaps, naive.gaps},
		{"appends per second", fmt.Sprintf("%.0f", ours.rate()), fmt.Sprintf("%.0f", naive.rate())},
	} {
		fmt.Fprintf(table, "%s\t%v\t%v\t\n", row.name, row.ours, row.naive)
	}
	return reportChecks(out, table, checks)
}

func reportChecks(out io.Writer, table *tabwriter.Writer, checks []check) error {
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
