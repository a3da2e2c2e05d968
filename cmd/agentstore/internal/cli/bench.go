package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	urfave "github.com/urfave/cli/v3"

	"github.com/seed-df90f812/agentstore/cmd/agentstore/internal/bench"
	"github.com/seed-df90f812/agentstore/internal/pgurl"
)

func benchHelp() string {
	return `Each workload runs beside the ways in which its job is done by hand, in turn with
them, in a schema of its own that is dropped at the end. A whole run takes some
minutes and keeps the server busy.

Compare the ratios of one run. The store's pool is as the URL asks for it
(pool_max_conns).

Examples:
  agentstore bench
  agentstore bench --workload append-64w-1s,stream --rounds 5
  agentstore bench --plot plots --json > figures.json

Workloads, of --workload, which takes several with commas between them; or
figures (those with a figure to reach), curves, all:
` + bench.Names()
}

type benchFlags struct {
	databaseURL, names, plot string
	rounds                   int
	duration                 time.Duration
	quick, json              bool
}

func benchCommand(world invocation) *urfave.Command {
	var values benchFlags
	return leaf{
		name: "bench", summary: "measure the library on a database beside doing it by hand", more: benchHelp(),
		flags: []urfave.Flag{
			databaseFlag(&values.databaseURL),
			stringFlag(&values.names, "workload", "the `names` of what to run (otherwise figures; with --plot, all)"),
			intFlag(&values.rounds, "rounds", "the `number` of times that each way of each workload runs", 3),
			durationFlag(&values.duration, "duration", "the `duration` of each in a round", time.Second),
			boolFlag(&values.quick, "quick", "shrink everything, to see that it runs: the figures mean nothing"),
			boolFlag(&values.json, "json", "print one JSON object instead of text"),
			stringFlag(&values.plot, "plot", "write plots of the curves as SVG files into this `directory`"),
		},
		run: func(ctx context.Context, invocation invocation) error { return runBench(ctx, invocation, values) },
	}.command(world)
}

func runBench(ctx context.Context, invocation invocation, flags benchFlags) error {
	config, err := benchConfig(invocation, &flags.databaseURL)
	if err != nil {
		return err
	}
	if worker := invocation.env(bench.WorkerVariable); worker != "" {
		return bench.Work(ctx, config, worker, invocation.stdin, invocation.screen)
	}
	options := bench.Options{
		Config: config, DatabaseURL: flags.databaseURL, Workloads: strings.Split(flags.names, ","),
		Rounds: flags.rounds, Duration: flags.duration, Quick: flags.quick, Progress: invocation.stderr,
	}
	switch {
	case flags.names == "" && flags.plot != "":
		options.Workloads = []string{bench.GroupAll}
	case flags.names == "":
		options.Workloads = []string{bench.GroupFigures}
	}
	if flags.quick {
		options.Rounds, options.Duration = 1, 40*time.Millisecond
	}
	if options.Rounds < 1 || options.Duration < 4*time.Millisecond {
		return usageError{text: "--rounds must be at least 1 and --duration at least 4ms"}
	}
	if err := bench.Check(options.Workloads); err != nil {
		return usageError{text: fmt.Sprintf("--workload: %s. See agentstore bench --help", err)}
	}
	err = benchReport(ctx, invocation, options, flags.plot, flags.json)
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if flags.json {
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
