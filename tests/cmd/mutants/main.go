// Command mutants makes one small change to the code at a time, on a copy of the tree,
// and runs the tests that must then fail. It prints which mutants were killed, and which
// are alive.
//
//	mutants [-filter REGEXP] [-timeout 3m] [-sqlc bin/sqlc] [-trust] [-list]
//
// Run it in the root of the repository. It exits with 1 if a mutant does not build, is
// alive without being declared equivalent, or is killed although it is. First it checks
// that the tests pass on the unchanged code, unless -trust is given. All tests share one
// disposable server.
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
	code := run(ctx)
	stop()
	os.Exit(code)
}

func run(ctx context.Context) int {
	filter := flag.String("filter", "", "the mutants whose name matches this `regexp`")
	timeout := flag.Duration("timeout", 3*time.Minute, "bounds the tests of one mutant")
	sqlc := flag.String("sqlc", "bin/sqlc", "the `program` that generates db/")
	trust := flag.Bool("trust", false, "do not run the tests on the unchanged code first")
	list := flag.Bool("list", false, "only list the mutants")
	flag.Parse()
	chosen, err := choose(*filter)
	if err != nil {
		return failure(err)
	}
	if *list {
		for _, m := range chosen {
			fmt.Printf("%-50s %s\n", m.name, m.file)
		}
		return 0
	}
	program, err := filepath.Abs(*sqlc)
	if err != nil {
		return failure(err)
	}
	dir, err := os.MkdirTemp("", "agentstore-mutants-")
	if err != nil {
		return failure(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := copyTree(ctx, dir); err != nil {
		return failure(err)
	}
	server, err := pgtest.Start(ctx, pgtest.Options{Logf: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}})
	if err != nil {
		return failure(err)
	}
	defer server.Stop()
	bench := bench{dir: dir, sqlc: program, timeout: *timeout, environment: append(os.Environ(),
		"AGENTSTORE_TEST_DATABASE_URL="+server.URL, "AGENTSTORE_TEST_SERVER=url")}
	if !*trust {
		if err := bench.passes(ctx, chosen); err != nil {
			return failure(err)
		}
	}
	counts := map[outcome]int{}
	wrong := 0
	for _, m := range chosen {
		begin := time.Now()
		got, told, err := bench.try(ctx, m)
		if err != nil {
			return failure(fmt.Errorf("%s: %w", m.name, err))
		}
		counts[got]++
		fmt.Printf("%-15s %-50s %4.0f s", got, m.name, time.Since(begin).Seconds())
		switch {
		case got == alive && m.equivalent != "":
			fmt.Printf("  equivalent: %s", m.equivalent)
		case got == killed && m.equivalent != "":
			wrong++
			fmt.Printf("  although it is declared equivalent: %s", told)
		case got == killed:
			fmt.Printf("  %s", told)
		default:
			wrong++
			fmt.Printf("  %s", told)
		}
		fmt.Println()
	}
	fmt.Printf("%d mutants: %d killed, %d alive, %d unclear, %d do not build; %d unexpected\n",
		len(chosen), counts[killed], counts[alive], counts[unclear], counts[broken], wrong)
	if wrong > 0 {
		return 1
	}
	return 0
}

func failure(err error) int {
	fmt.Fprintln(os.Stderr, "mutants:", err)
	return 1
}

func choose(filter string) ([]mutant, error) {
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
