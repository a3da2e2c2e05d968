package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteTable writes the report as text: what each way did, then each figure with
// its goal.
func (r Report) WriteTable(out io.Writer) error {
	s := r.Server
	fmt.Fprintf(out, "PostgreSQL %s, fsync %s, synchronous_commit %s, shared_buffers %s; %d CPUs, %s; %d rounds of %gs.\n",
		s.Version, s.Fsync, s.SynchronousCommit, s.SharedBuffers, r.CPUs, r.Go, r.Rounds, r.Seconds)
	fmt.Fprintf(out, "agentstore has %d connections, what it is compared with up to %d.\n", s.StoreConnections, s.BaselineConnections)
	if r.Quick {
		fmt.Fprintln(out, "This was a quick run: it shows that the workloads run, and no figure of it means anything.")
	}
	for _, w := range r.Workloads {
		fmt.Fprintf(out, "\n%s (%s)\n", w.Title, w.Name)
		if err := w.write(out); err != nil {
			return err
		}
	}
	if len(r.Figures) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nFigures: medians of the rounds' ratios, of rates or, where it says p50 or p99, of latencies.")
	return writeFigures(out, r.Figures)
}

func (o Outcome) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	x := ""
	if o.XAxis != "" {
		x = o.XAxis + "\t"
	}
	fmt.Fprintf(table, "  \t%s%s\tlowest – highest\tp50\tp99\t\n", x, o.Unit)
	for _, m := range o.Measurements {
		if o.XAxis != "" {
			x = grouped(m.X) + "\t"
		}
		fmt.Fprintf(table, "%s\t%s%s\t%s – %s\t%s\t%s\t\n", m.Way, x,
			grouped(m.Rate.Median), grouped(m.Rate.Low), grouped(m.Rate.High), latencyText(m.P50.Median), latencyText(m.P99.Median))
	}
	return table.Flush()
}

func writeFigures(out io.Writer, figures []Figure) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "workload\tagainst\tfigure\tlowest – highest\tto reach\t")
	for _, f := range figures {
		bound, verdict := "≥ ", "reached"
		if f.Latency {
			bound = "≤ "
		}
		if !f.Reached {
			verdict = "NOT reached"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s – %s\t%s\t%s\n", f.Title, f.against(), f.text(f.Value.Median),
			f.text(f.Value.Low), f.text(f.Value.High), bound+f.text(f.Goal), verdict)
	}
	return table.Flush()
}

func (f Figure) against() string {
	switch {
	case f.Baseline == "":
		return "(rows/s)"
	case f.Tail:
		return f.Baseline + ", p99"
	case f.Latency:
		return f.Baseline + ", p50"
	default:
		return f.Baseline
	}
}

// text formats a ratio, or another figure.
func (f Figure) text(value float64) string {
	if f.Baseline == "" {
		return grouped(value)
	}
	return fmt.Sprintf("%.2f ×", value)
}

// latencyText formats milliseconds.
func latencyText(value float64) string {
	switch {
	case value < 1:
		return fmt.Sprintf("%.0f µs", value*1000)
	case value < 100:
		return fmt.Sprintf("%.2f ms", value)
	default:
		return fmt.Sprintf("%.0f ms", value)
	}
}

// grouped formats a number without decimals and with separated thousands: 17,028.
func grouped(value float64) string {
	digits := fmt.Sprintf("%.0f", value)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
