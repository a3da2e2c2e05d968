package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore/cmd/agentstore/internal/bench"
)

func benchHelp() string {
	return `Each workload alternates with hand-written SQL that does the same job. All run in a
new schema, whatever --schema says, which is dropped at the end. A whole run takes
some minutes and keeps the server busy.

Compare ratios within one run, not figures of different runs. The URL sets the size
of the store's pool (pool_max_conns).

Examples:
  agentstore bench
  agentstore bench --workload append-64w-1s,stream --rounds 5
  agentstore bench --plot plots --json > figures.json

--workload takes names, separated by commas; figures stands for the workloads with a
goal, curves for the workloads with a plot, and all for all of them:
` + bench.Names()
}

func benchCommand(world invocation) *urfave.Command {
	var options bench.Options
	var names, plot string
	var asJSON bool
	return leaf{
		name: "bench", summary: "measure the library on a database, compared with hand-written SQL", more: benchHelp(),
		flags: []urfave.Flag{
			databaseFlag(&options.DatabaseURL),
			stringFlag(&names, "workload", "the `names` of the workloads to run (otherwise: figures; with --plot: all)"),
			intFlag(&options.Rounds, "rounds", "the `number` of rounds; a round runs each workload and its competitors once", 3),
			durationFlag(&options.Duration, "duration", "the `duration` of each run", time.Second),
			boolFlag(&options.Quick, "quick", "only test that everything runs: the figures mean nothing"),
			boolFlag(&asJSON, "json", "print one JSON object instead of text"),
			stringFlag(&plot, "plot", "write plots of the curves as SVG files into this `directory`"),
		},
		run: func(ctx context.Context, invocation invocation) error {
			if names == "" && plot != "" {
				names = bench.GroupAll
			}
			options.Workloads = strings.Split(cmp.Or(names, bench.GroupFigures), ",")
			invocation.json = asJSON
			return runBench(ctx, invocation, options, plot)
		},
	}.command(world)
}

func runBench(ctx context.Context, invocation invocation, options bench.Options, plot string) (err error) {
	options.DatabaseURL, options.Progress = invocation.database(options.DatabaseURL), invocation.stderr
	if options.DatabaseURL == "" {
		return usageError{text: "no database: set DATABASE_URL or --database-url, or run make bench in a clone, which starts a disposable one"}
	}
	if options.Config, err = poolConfig(options.DatabaseURL); err != nil {
		return err
	}
	if worker := invocation.env(bench.WorkerVariable); worker != "" {
		return bench.Work(ctx, options.Config, worker, invocation.stdin, invocation.screen)
	}
	if options.Quick {
		options.Rounds, options.Duration = 1, 40*time.Millisecond
	}
	if options.Rounds < 1 || options.Duration < 4*time.Millisecond {
		return usageError{text: "--rounds must be at least 1 and --duration at least 4ms"}
	}
	if err := bench.Check(options.Workloads); err != nil {
		return usageError{text: fmt.Sprintf("--workload: %s. See agentstore bench --help", err)}
	}
	if err = benchReport(ctx, invocation, options, plot); err != nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if invocation.json {
		return reportFailure(invocation, err)
	}
	return err
}

func benchReport(ctx context.Context, invocation invocation, options bench.Options, plot string) error {
	if plot != "" { // not after minutes of work
		if err := os.MkdirAll(plot, 0o750); err != nil {
			return err
		}
	}
	report, err := bench.Run(ctx, options)
	if err != nil {
		return err
	}
	for _, outcome := range report.Workloads {
		if plot == "" || outcome.XAxis == "" {
			continue
		}
		path := filepath.Join(plot, outcome.Name+".svg")
		if err := os.WriteFile(path, outcome.SVG(), 0o600); err != nil {
			return err
		}
		fmt.Fprintln(invocation.stderr, "wrote", path)
	}
	if invocation.json {
		return printJSON(invocation.stdout, report)
	}
	return report.WriteTable(invocation.stdout)
}
