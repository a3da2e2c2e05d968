package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// event is a line of go test -json. See go doc test2json.
type event struct {
	Time       time.Time
	Action     string
	Package    string
	ImportPath string // of what was built
	Test       string
	Elapsed    float64
	Output     string
	// FailedBuild names the package whose build failed.
	FailedBuild string
}

// result is one execution of a package's tests. A package has several if go test ran
// several times.
type result struct {
	pkg     string
	action  string // pass, fail, skip (no tests), or empty: not finished
	elapsed float64
	cached  bool
	tests   map[string]*test
	output  []string // of no test
}

type test struct {
	pkg, name string
	action    string
	elapsed   float64
	own       float64 // without its subtests
	output    []string
}

// run is what was read so far.
type run struct {
	out     flusher
	current map[string]*result // by package
	all     []*result
	builds  map[string][]string // output of the compiler, by what it built
	begin   time.Time
	end     time.Time
}

type flusher interface {
	io.Writer
	Flush() error
}

func newRun(out flusher) *run {
	return &run{out: out, current: map[string]*result{}, builds: map[string][]string{}}
}

// read reads all events. It prints each package's result when it is there.
func (r *run) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(r.out, line) // another program's
			} else {
				r.add(e)
			}
		}
		if flushed := r.out.Flush(); flushed != nil {
			return flushed
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *run) add(e event) {
	if !e.Time.IsZero() {
		if r.begin.IsZero() {
			r.begin = e.Time
		}
		r.end = e.Time
	}
	if e.Action == "build-output" {
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	now := r.current[e.Package]
	if now == nil {
		now = &result{pkg: e.Package, tests: map[string]*test{}}
		r.current[e.Package] = now
		r.all = append(r.all, now)
	}
	var t *test
	if e.Test != "" {
		t = now.tests[e.Test]
		if t == nil {
			t = &test{pkg: e.Package, name: e.Test}
			now.tests[e.Test] = t
		}
	}
	switch e.Action {
	case "output":
		switch {
		case t == nil:
			now.cached = now.cached || strings.Contains(e.Output, "\t(cached)")
			now.output = append(now.output, e.Output)
		case t.action != "":
			now.output = append(now.output, e.Output) // after its end, as of a race
		default:
			t.output = append(t.output, e.Output)
		}
	case "pass", "fail", "skip":
		if t != nil {
			t.action, t.elapsed = e.Action, e.Elapsed
			if e.Action != "fail" {
				t.output = nil
			}
			return
		}
		now.action, now.elapsed = e.Action, e.Elapsed
		delete(r.current, e.Package)
		r.print(now, e.FailedBuild)
	}
}

// print prints a package's line, and if it failed, what its failed tests printed.
func (r *run) print(p *result, build string) {
	switch p.action {
	case "pass":
		if !p.cached {
			fmt.Fprintf(r.out, "ok    %-60s %7.1f s\n", short(p.pkg), p.elapsed)
		}
	case "fail":
		for _, line := range r.builds[build] {
			fmt.Fprint(r.out, line)
		}
		for _, t := range p.sorted() {
			if t.action == "fail" || t.action == "" {
				for _, line := range t.output {
					fmt.Fprint(r.out, line)
				}
			}
		}
		for _, line := range p.output {
			fmt.Fprint(r.out, line)
		}
	}
}

// sorted returns the tests by name.
func (p *result) sorted() []*test {
	var all []*test
	for _, t := range p.tests {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *test) int { return cmp.Compare(a.name, b.name) })
	return all
}

// passed reports whether there were packages, and each passed.
func (r *run) passed() bool {
	for _, p := range r.all {
		if p.action != "pass" && p.action != "skip" {
			return false
		}
	}
	return len(r.all) > 0
}

// short returns a package's path without the host and the owner.
func short(pkg string) string {
	parts := strings.SplitN(pkg, "/", 3)
	if len(parts) < 3 {
		return pkg
	}
	return parts[2]
}
