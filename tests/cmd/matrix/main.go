// Command matrix runs the suite as it stands on every version of PostgreSQL that
// can be had, and on one of them under each setting that a deployment may have,
// one by one and in pairs. It prints a table, and exits with 1 if anything fails
// that limits.go does not know.
//
//	matrix [-short] [-cells REGEXP] [-list]
//
// It is run in the root of the repository. What a cell is run with stands in the
// environment (see package pgtest), and -v prints it, so that a failure can be
// repeated with go test alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

func main() { os.Exit(run()) }

func run() int {
	short := flag.Bool("short", false, "the oldest and the newest version, and each setting once on the conformance suite")
	only := flag.String("cells", "", "run the cells whose name matches this `regexp`")
	list := flag.Bool("list", false, "list the cells, and run none")
	verbose := flag.Bool("v", false, "print what each cell is run with, and all output of failures")
	flag.Parse()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	begin := time.Now()
	servers, missing := findServers(ctx, *short)
	if len(servers) == 0 {
		fmt.Fprintln(os.Stderr, "matrix: no version of PostgreSQL can be had")
		return 1
	}
	var cells []cell
	for _, c := range makeCells(servers, *short) {
		if chosen.MatchString(c.name) {
			cells = append(cells, c)
		}
	}
	if *list {
		for _, c := range cells {
			fmt.Println(c.name)
		}
		return 0
	}
	if len(cells) == 0 {
		fmt.Fprintln(os.Stderr, "matrix: no cell has such a name")
		return 2
	}
	dir, err := os.MkdirTemp("", "agentstore-matrix-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binaries, err := build(ctx, dir, cells)
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		return 1
	}
	var results []result
	for _, c := range cells {
		for _, tests := range c.tests {
			if ctx.Err() != nil {
				break
			}
			r := runCell(ctx, binaries, c, tests, *short, *verbose)
			r.print(os.Stdout, *verbose)
			results = append(results, r)
		}
	}
	printTable(os.Stdout, cells, results)
	for _, m := range missing {
		fmt.Println("not run:", m)
	}
	fmt.Printf("%d cells in %v\n", len(cells), time.Since(begin).Round(time.Second))
	if ctx.Err() != nil || failed(results) {
		return 1
	}
	return 0
}
