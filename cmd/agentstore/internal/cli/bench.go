package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-df90f812/agentstore/cmd/agentstore/internal/bench"
	"github.com/seed-df90f812/agentstore/internal/pgurl"
)

func benchUsage() string {
	return `agentstore bench measures the library on a database, each workload beside the
ways in which its job is done by hand, in turn with them. It works in a schema
of its own and drops it at the end. A whole run takes some minutes and keeps the
server busy.

Compare the ratios of one run. The store's pool is as the URL asks for it
(pool_max_conns).

Usage:
  agentstore bench [flags]

Workloads, of --workload, which takes several with commas between them; or
figures (those with a figure to reach), curves, all:
` + bench.Names()
}

func runBench(ctx context.Context, invocation invocation) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	databaseURL := flags.String("database-url", "", "the database `URL`, else DATABASE_URL of the environment")
	names := flags.String("workload", "", "the `names` of what to run (otherwise figures; with --plot, all)")
	rounds := flags.Int("rounds", 3, "how `often` each way of each workload runs")
	duration := flags.Duration("duration", time.Second, "how `long` each runs in each round")
	quick := flags.Bool("quick", false, "shrink everything, to see that it runs: the figures mean nothing")
	asJSON := flags.Bool("json", false, "print one JSON object instead of text")
	plot := flags.String("plot", "", "write plots of the curves as SVG files into this `directory`")
	if err := parse(flags, invocation.args, benchUsage()); err != nil {
		return err
	}
	config, err := benchConfig(invocation, databaseURL)
	if err != nil {
		return err
	}
	if worker := invocation.env(bench.WorkerVariable); worker != "" {
		return bench.Work(ctx, config, worker, os.Stdin, invocation.stdout)
	}
	options := bench.Options{
		Config: config, DatabaseURL: *databaseURL, Workloads: strings.Split(*names, ","),
		Rounds: *rounds, Duration: *duration, Quick: *quick, Progress: invocation.stderr,
	}
	switch {
	case *names == "" && *plot != "":
		options.Workloads = []string{bench.GroupAll}
	case *names == "":
		options.Workloads = []string{bench.GroupFigures}
	}
	if *quick {
		options.Rounds, options.Duration = 1, 40*time.Millisecond
	}
	if options.Rounds < 1 || options.Duration < 4*time.Millisecond {
		return usageError{text: "--rounds is at least 1 and --duration at least 4ms"}
	}
	if err := bench.Check(options.Workloads); err != nil {
		return usageError{text: fmt.Sprintf("--workload: %s. See agentstore bench --help", err)}
	}
	err = benchReport(ctx, invocation, options, *plot, *asJSON)
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if *asJSON {
		return reportFailure(invocation, err)
	}
	return err
}

// benchConfig reads the database URL, which it completes from the environment.
func benchConfig(invocation invocation, databaseURL *string) (*pgxpool.Config, error) {
	if *databaseURL == "" {
		*databaseURL = invocation.env("DATABASE_URL")
	}
	if *databaseURL == "" {
		return nil, usageError{text: "no database: set DATABASE_URL or --database-url, or run make bench in a clone, which starts a disposable one"}
	}
	if err := pgurl.Check(*databaseURL); err != nil {
		return nil, usageError{text: fmt.Sprintf("the database URL %s", err)}
	}
	config, err := pgxpool.ParseConfig(*databaseURL)
	if err != nil { // its message quotes the URL
		return nil, usageError{text: "the database URL has a malformed pool parameter"}
	}
	return config, nil
}

func benchReport(ctx context.Context, invocation invocation, options bench.Options, plot string, asJSON bool) error {
	if plot != "" { // before minutes are spent
		if err := os.MkdirAll(plot, 0o750); err != nil {
			return err
		}
	}
	report, err := bench.Run(ctx, options)
	if err != nil {
		return err
	}
	if plot != "" {
		for _, outcome := range report.Workloads {
			if outcome.XAxis == "" {
				continue
			}
			path := filepath.Join(plot, outcome.Name+".svg")
			if err := os.WriteFile(path, outcome.SVG(), 0o600); err != nil {
				return err
			}
			fmt.Fprintln(invocation.stderr, "wrote", path)
		}
	}
	if asJSON {
		return printJSON(invocation.stdout, report)
	}
	return report.WriteTable(invocation.stdout)
}
