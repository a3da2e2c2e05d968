// Package bench measures the library on a real database. Each workload alternates
// with other implementations of the same task: the ratios hold on other machines, the
// figures do not.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Options say what to run, and on which database.
type Options struct {
	// Config is the database. Its MaxConns is the size of the store's pool.
	Config *pgxpool.Config
	// DatabaseURL is the URL of Config, for worker processes.
	DatabaseURL string
	// Workloads are names of workloads or groups.
	Workloads []string
	// Rounds is at least 1. Duration is of each cell in each round.
	Rounds   int
	Duration time.Duration
	// Quick shrinks the prepared sessions for tests: its figures mean nothing.
	Quick bool
	// Progress receives a line from time to time.
	Progress io.Writer
}

// Report is the result of a run.
type Report struct {
	Server    Server    `json:"server"`
	CPUs      int       `json:"cpus"`
	Go        string    `json:"go"`
	Rounds    int       `json:"rounds"`
	Seconds   float64   `json:"seconds_per_round"`
	Quick     bool      `json:"quick"`
	Workloads []Outcome `json:"workloads"`
	Figures   []Figure  `json:"figures"`
}

// Outcome is the result of a workload.
type Outcome struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Unit is the unit of rates.
	Unit string `json:"unit"`
	// XAxis says what X is in a curve.
	XAxis string `json:"x_axis,omitempty"`
	// Latency: the curve shows latencies rather than rates.
	Latency      bool          `json:"latency,omitempty"`
	Measurements []Measurement `json:"measurements"`
}

// Run runs the selected workloads in a schema of its own, which it drops at the
// end, even if ctx ends early.
func Run(ctx context.Context, options Options) (report Report, err error) {
	chosen, err := selected(options.Workloads)
	if err != nil {
		return Report{}, err
	}
	options.Progress = &lines{out: options.Progress} // the workers write there too
	l, leave, err := newLab(ctx, options)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, leave()) }()

	report = Report{
		Server: l.server, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(),
		Rounds: options.Rounds, Seconds: options.Duration.Seconds(), Quick: options.Quick,
		Figures: []Figure{},
	}
	fmt.Fprintf(options.Progress, "the scratch schema %s is dropped at the end\n", l.schema)
	for i, w := range chosen {
		measurements, err := w.play(ctx, l, func(round int) {
			stage := fmt.Sprintf("round %d of %d", round, options.Rounds)
			if round == 0 {
				stage = "warming up"
			}
			fmt.Fprintf(options.Progress, "[%d/%d] %s: %s\n", i+1, len(chosen), w.title, stage)
		})
		if err != nil {
			return Report{}, fmt.Errorf("%s: %w", w.name, err)
		}
		report.Workloads = append(report.Workloads, Outcome{
			Name: w.name, Title: w.title, Unit: w.unit, XAxis: w.xAxis, Latency: w.latency, Measurements: measurements,
		})
		for _, g := range w.goals {
			report.Figures = append(report.Figures, g.judge(w.name, w.title, measurements))
		}
	}
	return report, nil
}

// lines is a writer for concurrent use.
type lines struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(line)
}
