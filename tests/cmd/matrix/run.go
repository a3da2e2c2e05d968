package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

// timeout bounds a package's tests in a cell.
const timeout = 30 * time.Minute

// build builds the packages' tests once for all cells.
func build(ctx context.Context, dir string, cells []cell) (map[string]string, error) {
	binaries := map[string]string{}
	for _, c := range cells {
		for _, tests := range c.tests {
			if binaries[tests.pkg] != "" {
				continue
			}
			binary := filepath.Join(dir, tests.pkg+".test")
			command := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, "./tests/"+tests.pkg)
			if output, err := command.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("build tests/%s: %w: %s", tests.pkg, err, output)
			}
			binaries[tests.pkg] = binary
		}
	}
	return binaries, nil
}

// result is the result of a package's tests in a cell.
type result struct {
	cell   cell
	tests  tests
	took   time.Duration
	err    error
	output []byte
	// failures are the tests that failed, without those that failed because a subtest
	// did.
	failures []string
	// limits has the failures that are documented.
	limits map[string]limit
}

// runAll runs the tests of all cells, two packages at a time: most tests wait. It prints
// each result when it is there.
func runAll(ctx context.Context, binaries map[string]string, cells []cell, short, verbose bool) (results []result) {
	var mu sync.Mutex
	var running sync.WaitGroup
	free := make(chan struct{}, 2)
	for _, c := range cells {
		for _, tests := range c.tests {
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				continue
			}
			running.Go(func() {
				defer func() { <-free }()
				r := runCell(ctx, binaries, c, tests, short, verbose)
				mu.Lock()
				defer mu.Unlock()
				r.print(os.Stdout, verbose)
				results = append(results, r)
			})
		}
	}
	running.Wait()
	return results
}

func runCell(ctx context.Context, binaries map[string]string, c cell, tests tests, short, verbose bool) result {
	ctx, cancel := context.WithTimeout(ctx, timeout+time.Minute)
	defer cancel()
	arguments := []string{"-test.timeout=" + timeout.String(), "-test.parallel=6"} // most tests wait
	if tests.run != "" {
		arguments = append(arguments, "-test.run="+tests.run)
	}
	if short || tests.run != "" {
		arguments = append(arguments, "-test.short")
	}
	command := exec.CommandContext(ctx, binaries[tests.pkg], arguments...)
	command.Dir = filepath.Join("tests", tests.pkg) // as go test does
	settings := append(c.server.environment(), "AGENTSTORE_TEST_SETTING="+c.setting.String())
	command.Env = append(os.Environ(), settings...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) } // so that it stops its server
	command.WaitDelay = time.Minute
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if verbose {
		fmt.Printf("-- %s\n   %s go test ./tests/%s %s\n", c.name, quoted(settings), tests.pkg, strings.Join(arguments, " "))
	}
	begin := time.Now()
	err := command.Run()
	r := result{cell: c, tests: tests, took: time.Since(begin), err: err, output: output.Bytes(), limits: map[string]limit{}}
	if err != nil {
		r.failures = failures(r.output)
		for _, test := range r.failures {
			if l, found := known(c, tests.pkg, test); found {
				r.limits[test] = l
			}
		}
	}
	return r
}

func quoted(settings []string) string {
	var list []string
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		list = append(list, name+"='"+strings.ReplaceAll(value, "'", `'\''`)+"'")
	}
	return strings.Join(list, " ")
}

var failureLine = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+) \(`)

// failures returns the names of the tests that failed, without those that failed because
// a subtest did.
func failures(output []byte) []string {
	var all, leaves []string
	for _, match := range failureLine.FindAllSubmatch(output, -1) {
		all = append(all, string(match[1]))
	}
	for _, name := range all {
		leaf := true
		for _, other := range all {
			leaf = leaf && !strings.HasPrefix(other, name+"/")
		}
		if leaf {
			leaves = append(leaves, name)
		}
	}
	return leaves
}

// ok reports whether all tests passed, or all failures are documented limits. A failure
// that names no test (a panic, a timeout, a leak) is never one.
func (r result) ok() bool {
	if r.err == nil {
		return true
	}
	var exit *exec.ExitError
	return errors.As(r.err, &exit) && len(r.failures) > 0 && len(r.limits) == len(r.failures) && !bytes.Contains(r.output, []byte("\npanic: "))
}

func (r result) String() string {
	took := fmt.Sprintf("%.0f s", r.took.Seconds())
	switch {
	case r.err == nil:
		return took
	case r.ok():
		return fmt.Sprintf("limit %d, %s", len(r.failures), took)
	case len(r.failures) == 0:
		return "FAIL, " + took
	default:
		return fmt.Sprintf("FAIL %d, %s", len(r.failures)-len(r.limits), took)
	}
}

// shown is the number of failures that are printed for a package.
const shown = 12

func (r result) print(w io.Writer, all bool) {
	fmt.Fprintf(w, "%-60s %-10s %s\n", r.cell.name, r.tests.pkg, r)
	if r.err == nil || r.ok() && !all {
		return
	}
	if all || len(r.failures) == 0 {
		output := r.output
		if !all {
			output = output[max(0, len(output)-3000):]
		}
		fmt.Fprintf(w, "   %v\n%s\n", r.err, output)
	}
	for i, test := range r.failures {
		if i == shown && !all {
			fmt.Fprintf(w, "   … and %d more\n", len(r.failures)-shown)
			break
		}
		if l, found := r.limits[test]; found {
			fmt.Fprintf(w, "   limit: %s (%s)\n", test, l.where)
			continue
		}
		fmt.Fprintf(w, "   %s\n      %s\n", test, firstLine(r.output, test))
	}
}

// firstLine returns the first line that a failed test printed.
func firstLine(output []byte, test string) string {
	_, rest, found := bytes.Cut(output, []byte("--- FAIL: "+test+" ("))
	if !found {
		return ""
	}
	lines := bytes.SplitN(rest, []byte("\n"), 3)
	if len(lines) < 2 {
		return ""
	}
	line := bytes.TrimSpace(lines[1])
	return string(line[:min(len(line), 300)])
}

// failed reports whether any result is a failure.
func failed(results []result) bool {
	for _, r := range results {
		if !r.ok() {
			return true
		}
	}
	return false
}
