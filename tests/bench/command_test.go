package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/command"
	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func run(t *testing.T, databaseURL string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return command.Run(t.Context(), t, databaseURL, append([]string{"bench"}, args...)...)
}

// left returns the number of the command's schemas in the database.
func left(t *testing.T, databaseURL string) (count int) {
	t.Helper()
	conn := pgtest.Connect(t, databaseURL)
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'agentstore_bench%'").Scan(&count); err != nil {
		t.Fatal(err)
	}
	return count
}

// All workloads run, including the one with several processes, and leave nothing
// behind.
func TestBenchRunsEveryWorkload(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	plots := t.TempDir()
	args, workloads, figures := []string{"--quick", "--json", "--plot", plots}, 36, 40
	if !pgtest.Full() { // some of each kind
		some := "append-1w-1s,append-4p-16w-1s,memory-64w-1s,read,follow-lost,stream-parts,curve-batch"
		args, workloads, figures = append(args, "--workload", some), 1+strings.Count(some, ","), 1
	}
	code, stdout, stderr := run(t, databaseURL, args...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var report struct {
		Quick     bool `json:"quick"`
		Workloads []struct {
			Name         string `json:"name"`
			XAxis        string `json:"x_axis"`
			Measurements []struct {
				Way        string `json:"way"`
				Operations int    `json:"operations"`
			} `json:"measurements"`
		} `json:"workloads"`
		Figures []struct {
			Value struct{ Median float64 } `json:"value"`
		} `json:"figures"`
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("stdout is not one JSON object: %v\n%s", err, stdout)
	}
	if !report.Quick || len(report.Workloads) != workloads || len(report.Figures) < figures {
		t.Errorf("quick %v, %d workloads, %d figures", report.Quick, len(report.Workloads), len(report.Figures))
	}
	for _, w := range report.Workloads {
		for _, m := range w.Measurements {
			if m.Operations == 0 {
				t.Errorf("%s: %s did nothing", w.Name, m.Way)
			}
		}
		_, err := os.Stat(filepath.Join(plots, w.Name+".svg"))
		if (err == nil) != (w.XAxis != "") {
			t.Errorf("%s: plot: %v", w.Name, err)
		}
	}
	for i, figure := range report.Figures {
		if figure.Value.Median <= 0 {
			t.Errorf("figure %d is %v", i, figure.Value.Median)
		}
	}
	if n := left(t, databaseURL); n != 0 {
		t.Errorf("%d schemas were left", n)
	}
}

func TestBenchPrintsATable(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := run(t, pgtest.NewEmptyDatabase(t), "--quick", "--workload", "append-1w-1s,stream")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{"quick run", "(append-1w-1s)", "(stream)", "bare SELECT", "≥ 0.80 ×"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	for _, want := range []string{"[1/2]", "round 1 of 1", "dropped at the end"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%q is not in the progress\n%s", want, stderr)
		}
	}
}

func TestBenchThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	databaseURL := pgtest.NewEmptyDatabase(t)
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	progress := writerFunc(func(line []byte) (int, error) {
		if bytes.Contains(line, []byte("round 1")) {
			cancel()
		}
		return len(line), nil
	})
	bench := command.New(ctx, t, "", "bench", "--workload", "append-64w-1s", "--database-url", databaseURL)
	bench.Stdout, bench.Stderr = &out, progress
	if code := command.Exit(t, bench.Run(), bench); code != 130 || out.Len() != 0 {
		t.Errorf("exit code %d, stdout %q", code, out.String())
	}
	if n := left(t, databaseURL); n != 0 {
		t.Errorf("%d schemas were left", n)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
