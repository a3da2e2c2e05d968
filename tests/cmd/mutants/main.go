// Command mutants makes one small change to the code at a time, on a copy of the tree,
// and runs the test that must then fail. It prints which mutants were killed, and which
// are alive.
//
//	mutants [-filter REGEXP] [-timeout 3m] [-sqlc bin/sqlc] [-trust] [-list]
//
// Run it in the root of the repository. It exits with 1 if a mutant is not killed. A
// mutant that does not build, or that go vet finds, counts as one: without its test
// nothing may notice it. First it checks that the tests pass on the unchanged code, unless
// -trust is given. All tests share one disposable server.
//
// The tests are built once, with all mutants of Go (variants.go) and of queries
// (statements.go), and again for each of the schema.
//
// A mutant names its place by a function, a query, or an object of the schema, and its
// kind of change by what the changed part mentions; see kind.go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	filter := flag.String("filter", "", "the mutants whose name matches this `regexp`")
	timeout := flag.Duration("timeout", 3*time.Minute, "bounds the test of one mutant")
	sqlc := flag.String("sqlc", "bin/sqlc", "the `program` that generates db/")
	trust := flag.Bool("trust", false, "do not run the tests on the unchanged code first")
	list := flag.Bool("list", false, "only list the mutants")
	flag.Parse()
	chosen, err := matching(*filter)
	if err != nil {
		return err
	}
	found, err := resolve(newTree("."), chosen)
	if err != nil {
		return err
	}
	if *list {
		for i, m := range chosen {
			fmt.Printf("%-60s %s:%d: %s\n", m.name, found[i].path, found[i].line(), m.change)
		}
		return nil
	}
	program, err := filepath.Abs(*sqlc)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "agentstore-mutants-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := copyTree(ctx, dir); err != nil {
		return err
	}
	server, err := pgtest.Start(ctx, pgtest.Options{Logf: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}})
	if err != nil {
		return err
	}
	defer server.Stop()
	bench := &bench{dir: dir, sqlc: program, server: server.URL, timeout: *timeout, binaries: map[killer]string{}, environment: append(os.Environ(),
		"AGENTSTORE_TEST_DATABASE_URL="+server.URL, "AGENTSTORE_TEST_SERVER=url",
		"AGENTSTORE_TEST_PATIENCE=1m")} // of the tests that wait in vain, as they have to
	if err := bench.prepare(ctx, chosen, found); err != nil {
		return err
	}
	if !*trust {
		if err := bench.passes(ctx, chosen); err != nil {
			return err
		}
	}
	return bench.tryAll(ctx, chosen, found)
}

// tryAll tries mutants and prints a table.
func (b *bench) tryAll(ctx context.Context, chosen []mutant, found []edited) error {
	counts := map[outcome]int{}
	for i, m := range chosen {
		begin := time.Now()
		got, told, err := b.try(ctx, i, m, found[i])
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		counts[got]++
		if got == killed {
			told = "alive without, killed by " + told
		}
		fmt.Printf("%-15s %-60s %4.0f s  %s\n", got, m.name, time.Since(begin).Seconds(), told)
	}
	fmt.Printf("%d mutants: %d killed, %d alive, %d unclear, %d do not build\n",
		len(chosen), counts[killed], counts[alive], counts[unclear], counts[broken])
	if counts[killed] < len(chosen) {
		return errors.New("not all were killed")
	}
	return nil
}

// matching returns the mutants whose names match.
func matching(filter string) ([]mutant, error) {
	pattern, err := regexp.Compile(filter)
	if err != nil {
		return nil, err
	}
	var chosen []mutant
	for _, m := range all() {
		if pattern.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("no mutant's name matches")
	}
	return chosen, nil
}

// resolve finds the places of all mutants.
func resolve(t *tree, mutants []mutant) ([]edited, error) {
	found := make([]edited, len(mutants))
	var failures error
	for i, m := range mutants {
		var err error
		if found[i], err = m.change.resolve(t); err != nil {
			failures = errors.Join(failures, fmt.Errorf("%s: %w", m.name, err))
		}
	}
	return found, failures
}
