package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// outcome is the result of all injections of a fault.
type outcome struct {
	name         string
	times        int
	acknowledged int
	errors       map[string]int
	findings     findings
	recoveries   []time.Duration
}

func (o *outcome) add(l *load, f findings, recovery time.Duration) {
	o.times++
	o.acknowledged += len(l.acknowledged)
	for kind, count := range l.errors {
		o.errors[kind] += count
	}
	o.findings = o.findings.add(f)
	o.recoveries = append(o.recoveries, recovery)
}

// table formats outcomes for people. It counts a message at another sequence than the
// acknowledged one as lost, one that was not acknowledged as duplicated, and a
// counter that differs from the number of messages as a gap.
func table(outcomes []outcome) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\ttimes\tacknowledged\tlost\tduplicated\tgaps\trecovery median\tmax\terrors that callers saw")
	for _, o := range outcomes {
		slices.Sort(o.recoveries)
		var median, longest time.Duration
		if n := len(o.recoveries); n > 0 {
			median, longest = o.recoveries[n/2], o.recoveries[n-1]
		}
		var errors []string
		for _, kind := range slices.Sorted(maps.Keys(o.errors)) {
			errors = append(errors, fmt.Sprintf("%d %s", o.errors[kind], kind))
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t%s\n", o.name, o.times, o.acknowledged,
			o.findings.lost+o.findings.moved, o.findings.duplicated+o.findings.uninvited, o.findings.gaps+o.findings.counters,
			median.Round(time.Millisecond), longest.Round(time.Millisecond), strings.Join(errors, ", "))
	}
	_ = w.Flush()
	return text.String()
}
