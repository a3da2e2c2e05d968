// Command matrix runs the suite on every version of PostgreSQL that it can get, and on
// the newest under each setting that a deployment may have, one by one and in pairs. It
// prints a table, and exits with 1 on any failure that limits.go does not list.
//
//	matrix [-short] [-cells REGEXP] [-list]
//
// Run it in the root of the repository. Environment variables select a cell's server and
// setting (see package pgtest), and -v prints them, so that go test alone can repeat a
// failure.
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
	short := flag.Bool("short", false, "the oldest and the newest version, and all settings in a few cells on the conformance suite")
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
	results := runAll(ctx, binaries, cells, *short, *verbose)
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
