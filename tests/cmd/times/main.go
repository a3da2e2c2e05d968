// Command times reads what go test -json prints, prints what failed, and at the end what
// each package took and which tests took longest.
//
//	go test -json ./... | times [-slowest 20]
//
// A test's time is without that of its subtests, and without its waiting for its turn. It
// exits with 1 if a package failed, was not finished, or if there was none: so that a run
// that never began does not look like one that passed.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
)

func main() {
	slowest := flag.Int("slowest", 20, "list this many tests")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	r := newRun(out)
	err := r.read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "times:", err)
	}
	r.summarize(*slowest)
	if err := out.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, "times:", err)
		os.Exit(1)
	}
	if err != nil || !r.passed() {
		os.Exit(1)
	}
}
