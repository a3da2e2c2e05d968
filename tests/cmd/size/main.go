// Command size prints how large the project is: what readers have to read, what importers
// have to know, and what the schema costs an empty database.
//
//	size [-server container|local]
//
// Run it in the root of the repository. Lines of Go and SQL are those with code: neither
// blank, nor a comment, nor generated.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"text/tabwriter"
)

func main() {
	server := flag.String("server", "", "container or local; else the first that can be had")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *server)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

// row is a line of the table: what is counted, how many there are, and of what.
type row struct {
	name  string
	count string
	unit  string
}

func rowOf(name string, count int, unit string) row { return row{name, strconv.Itoa(count), unit} }

func run(ctx context.Context, server string) error {
	var rows []row
	for _, count := range []func(context.Context) ([]row, error){
		countGo, countSQL, countCosts, countNames, countDocuments, countMutants,
		func(ctx context.Context) ([]row, error) { return measureSchema(ctx, server) },
	} {
		more, err := count(ctx)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t  %s %s\n", r.count, r.unit, r.name)
	}
	return table.Flush()
}

// output runs a command and returns what it printed.
func output(ctx context.Context, name string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	printed, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", command, err, stderr.Bytes())
	}
	return printed, nil
}
