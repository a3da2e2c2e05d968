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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// outcome is the outcome of trying a mutant.
type outcome string

const (
	killed outcome = "killed"
	alive  outcome = "ALIVE"
	// broken: it does not build, or go vet finds it. So it says nothing about the test.
	broken outcome = "DOES NOT BUILD"
	// unclear: the tests did not end, and none of them failed.
	unclear outcome = "UNCLEAR"
)

// bench is the copy on which mutants are tried, one at a time.
type bench struct {
	dir, sqlc, server string
	// timeout bounds the tests of one mutant, and buildTime each step before.
	timeout     time.Duration
	environment []string
	// statements are those of db/, and those of mutants.
	statements map[string]string
	// unfit says why mutants cannot be tried, by their numbers.
	unfit    map[int]string
	binaries map[killer]string
	database *pgx.Conn
}

const buildTime = 5 * time.Minute

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
func (b *bench) passes(ctx context.Context, mutants []mutant) error {
	b.timeout *= 4 // for the tests of many mutants
	defer func() { b.timeout /= 4 }()
	for _, k := range together(mutants) {
		if output, err := b.testBuilt(ctx, k); err != nil {
			return fmt.Errorf("%s -run %s fails on the unchanged code: %w\n%s", k.pkg, k.run, err, output)
		}
	}
	return ctx.Err()
}

// together returns the tests of all mutants, one element for each package.
func together(mutants []mutant) (all []killer) {
	type group struct {
		pkg  string
		race bool
	}
	runs := map[group][]string{}
	for _, m := range mutants {
		g := group{m.killer.pkg, m.killer.race}
		if !slices.Contains(runs[g], m.killer.run) {
			runs[g] = append(runs[g], m.killer.run)
		}
	}
	for _, g := range slices.SortedFunc(maps.Keys(runs), func(a, b group) int { return strings.Compare(a.pkg, b.pkg) }) {
		all = append(all, killer{g.pkg, strings.Join(runs[g], "|"), g.race})
	}
	return all
}

// prepare adds the mutants to the copy, as far as they are built together.
func (b *bench) prepare(ctx context.Context, mutants []mutant, found []edited) (err error) {
	if b.unfit, err = b.addVariants(ctx, found); err != nil {
		return err
	}
	return b.generate(ctx, mutants, found, b.unfit)
}

// try runs the test of a mutant. told is the test that killed it, or why it cannot be tried.
func (b *bench) try(ctx context.Context, number int, m mutant, what edited) (got outcome, told string, err error) {
	if reason := b.unfit[number]; reason != "" {
		return broken, reason, nil
	}
	environment := []string{mutantNumber + "=" + strconv.Itoa(number)}
	switch {
	case m.change.query != "":
		text, reason, err := b.statement(ctx, number, m.change.query)
		if err != nil || reason != "" {
			return broken, reason, err
		}
		file := filepath.Join(b.dir, "statement.sql")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return "", "", err
		}
		environment = []string{replacedQuery + "=" + m.change.query, replacedText + "=" + file}
	case what.function == nil:
		return b.tryMigration(ctx, m, what)
	}
	output, err := b.testBuilt(ctx, m.killer, environment...)
	return b.judge(ctx, m.killer, output, err)
}

// tryMigration applies a mutant of the schema, runs its test and undoes the change. The
// migrations are part of the program, which is therefore built again.
func (b *bench) tryMigration(ctx context.Context, m mutant, what edited) (got outcome, told string, err error) {
	target := filepath.Join(b.dir, filepath.FromSlash(what.path))
	if err := os.WriteFile(target, []byte(what.apply()), 0o755); err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, os.WriteFile(target, []byte(what.text), 0o755)) }()
	if err := b.migrates(ctx); err != nil {
		return broken, err.Error(), ctx.Err()
	}
	output, err := b.test(ctx, m.killer)
	return b.judge(ctx, m.killer, output, err)
}

// judge says what the end of a killer means.
func (b *bench) judge(ctx context.Context, k killer, output []byte, err error) (outcome, string, error) {
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case err == nil:
		return alive, "", nil
	case errors.Is(err, errNotEnded):
		return unclear, err.Error(), nil
	case bytes.Contains(output, []byte("[build failed]")) || bytes.Contains(output, []byte("[setup failed]")):
		return broken, firstLine(output), nil
	}
	by, failed := reason(output)
	if !failed {
		return unclear, by, nil
	}
	return killed, k.pkg + " " + by, nil
}

// run runs a program in the copy.
func (b *bench) run(ctx context.Context, program string, arguments ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir, command.Env = b.dir, b.environment
	return command.CombinedOutput()
}

// test builds a killer and runs it.
func (b *bench) test(ctx context.Context, k killer) ([]byte, error) {
	arguments := append([]string{"test", "-count=1", "-short", "-vet=off", "-failfast", "-timeout=" + b.timeout.String(), "-run=" + k.run}, flags(k)...)
	return b.runTest(ctx, k, b.dir, nil, "go", append(arguments, "./"+k.pkg)...)
}

// testBuilt runs a killer as it is built with the mutants that are built together. The
// environment says which of them is meant.
func (b *bench) testBuilt(ctx context.Context, k killer, environment ...string) ([]byte, error) {
	binary, err := b.binary(ctx, k)
	if err != nil {
		return nil, err
	}
	return b.runTest(ctx, k, filepath.Join(b.dir, filepath.FromSlash(k.pkg)), environment,
		binary, "-test.count=1", "-test.short", "-test.failfast", "-test.timeout="+b.timeout.String(), "-test.run="+k.run)
}

// binary builds the tests of a package, once.
func (b *bench) binary(ctx context.Context, k killer) (string, error) {
	key := killer{pkg: k.pkg, race: k.race}
	if built := b.binaries[key]; built != "" {
		return built, nil
	}
	built := filepath.Join(b.dir, fmt.Sprintf("tests-%d.test", len(b.binaries)))
	arguments := append([]string{"test", "-c", "-vet=off", "-o", built}, flags(k)...)
	if output, err := b.run(ctx, "go", append(arguments, "./"+k.pkg)...); err != nil {
		return "", fmt.Errorf("build the tests of %s: %w\n%s", k.pkg, err, output)
	}
	b.binaries[key] = built
	return built, nil
}

// flags are those with which the tests of a package are built.
func flags(k killer) []string {
	if k.race {
		return []string{"-race"}
	}
	return []string{"-ldflags=-s -w"}
}

func (b *bench) runTest(ctx context.Context, k killer, dir string, environment []string, program string, arguments ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, b.timeout+buildTime)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir, command.Env = dir, append(slices.Clone(b.environment), environment...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) }
	command.WaitDelay = 30 * time.Second
	output, err := command.CombinedOutput()
	if err != nil && ctx.Err() != nil && !bytes.Contains(output, []byte("--- FAIL")) && !bytes.Contains(output, []byte("panic:")) {
		return output, fmt.Errorf("%s: %w", k.pkg, errNotEnded)
	}
	if err == nil && bytes.Contains(output, []byte("no tests to run")) {
		return output, errors.New("no test has this name")
	}
	return output, err
}

// errNotEnded: the time was over before a test failed.
var errNotEnded = errors.New("did not end in time")

var panicked = regexp.MustCompile(`(?m)^panic: .*$`)

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+) \(`)

// reason returns the innermost test that failed first, or the panic. It reports false if no
// test failed.
func reason(output []byte) (by string, failed bool) {
	names := failedTest.FindAllSubmatch(output, -1)
	if len(names) == 0 {
		if message := panicked.Find(output); message != nil {
			return string(message), true
		}
		return lastLine(output), false
	}
	first := string(names[0][1])
	for _, name := range names[1:] {
		if !strings.HasPrefix(string(name[1]), first+"/") {
			break
		}
		first = string(name[1])
	}
	return first, true
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
