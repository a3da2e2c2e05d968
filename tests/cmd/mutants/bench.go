package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// outcome is the outcome of trying a mutant.
type outcome string

const (
	killed outcome = "killed"
	alive  outcome = "ALIVE"
	broken outcome = "DOES NOT BUILD"
	// unclear: the tests did not end, and none of them failed.
	unclear outcome = "UNCLEAR"
)

// bench is the copy on which mutants are tried, one at a time.
type bench struct {
	dir, sqlc   string
	timeout     time.Duration
	environment []string
}

// copyTree copies all files except ignored ones into dir.
func copyTree(ctx context.Context, dir string) error {
	list, err := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("list the tree: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		content, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) { // deleted, but not committed
			continue
		}
		if err != nil {
			return err
		}
		target := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, content, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// passes checks that the tests of all mutants pass on the unchanged code. Those of one
// package run together.
func (b bench) passes(ctx context.Context, mutants []mutant) error {
	b.timeout *= 4 // for the tests of many mutants
	for _, tests := range together(mutants) {
		if output, err := b.test(ctx, tests); err != nil {
			return fmt.Errorf("%s -run %s fails on the unchanged code: %w\n%s", tests.pkg, tests.run, err, output)
		}
	}
	return ctx.Err()
}

// together returns the tests of all mutants, one element for each package.
func together(mutants []mutant) (all []tests) {
	runs := map[string][]string{}
	for _, m := range mutants {
		for _, tests := range m.tests {
			if !slices.Contains(runs[tests.pkg], tests.run) {
				runs[tests.pkg] = append(runs[tests.pkg], tests.run)
			}
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(runs)) {
		all = append(all, tests{pkg, strings.Join(runs[pkg], "|")})
	}
	return all
}

// try applies a mutant, runs its tests and undoes the change. told is the test that
// killed it, or the compiler's error.
func (b bench) try(ctx context.Context, m mutant) (got outcome, told string, err error) {
	restore, err := m.apply(b.dir)
	if err != nil {
		return "", "", err
	}
	defer func() {
		if restoreErr := restore(); err == nil {
			err = restoreErr
		}
	}()
	if m.generates() {
		regenerated, err := keep(filepath.Join(b.dir, "db"))
		if err != nil {
			return "", "", err
		}
		defer func() {
			if restoreErr := regenerated(); err == nil {
				err = restoreErr
			}
		}()
		if output, err := b.generate(ctx); err != nil {
			return broken, lastLine(output), ctx.Err()
		}
	}
	for _, tests := range m.tests {
		output, err := b.test(ctx, tests)
		switch {
		case ctx.Err() != nil:
			return "", "", ctx.Err()
		case err == nil:
		case errors.Is(err, errNotEnded):
			return unclear, err.Error(), nil
		case bytes.Contains(output, []byte("[build failed]")) || bytes.Contains(output, []byte("[setup failed]")):
			return broken, firstLine(output), nil
		default:
			return killed, tests.pkg + ": " + reason(output), nil
		}
	}
	return alive, "", nil
}

// keep reads the files of a directory. restore writes them as they were.
func keep(dir string) (restore func() error, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	contents := make([][]byte, len(files))
	for i, file := range files {
		if contents[i], err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return func() error {
		for i, file := range files {
			if err := os.WriteFile(file, contents[i], 0o755); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func (b bench) generate(ctx context.Context) ([]byte, error) {
	command := exec.CommandContext(ctx, b.sqlc, "generate")
	command.Dir = b.dir
	return command.CombinedOutput()
}

func (b bench) test(ctx context.Context, tests tests) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout+time.Minute) // a minute for the build
	defer cancel()
	command := exec.CommandContext(ctx, "go", "test", "-count=1", "-short", "-vet=off", "-failfast", "-ldflags=-s -w", "-timeout="+b.timeout.String(), "-run="+tests.run, "./"+tests.pkg)
	command.Dir, command.Env = b.dir, b.environment
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) }
	command.WaitDelay = 30 * time.Second
	output, err := command.CombinedOutput()
	if err != nil && ctx.Err() != nil && !bytes.Contains(output, []byte("--- FAIL")) && !bytes.Contains(output, []byte("panic:")) {
		return output, fmt.Errorf("%s: %w", tests.pkg, errNotEnded)
	}
	if err == nil && bytes.Contains(output, []byte("[no tests to run]")) {
		return output, errors.New("no test has this name")
	}
	return output, err
}

// errNotEnded: the time was over before a test failed.
var errNotEnded = errors.New("did not end in time")

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+) \(`)

// reason returns the innermost test that failed first, or why none did.
func reason(output []byte) string {
	names := failedTest.FindAllSubmatch(output, -1)
	if len(names) == 0 {
		if bytes.Contains(output, []byte("panic: test timed out")) {
			return "timed out"
		}
		return lastLine(output)
	}
	first := string(names[0][1])
	for _, name := range names[1:] {
		if !strings.HasPrefix(string(name[1]), first+"/") {
			break
		}
		first = string(name[1])
	}
	return first
}

func firstLine(output []byte) string {
	for line := range strings.Lines(string(output)) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "pgtest:") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1]
}
