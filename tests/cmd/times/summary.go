package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// least is the time in seconds from which a package has a line of its own.
const least = 1.0

// summarize prints what each package took, longest first, and the slowest tests.
func (r *run) summarize(slowest int) {
	for _, p := range r.all {
		if p.action == "" {
			fmt.Fprintf(r.out, "FAIL  %s was not finished\n", short(p.pkg))
		}
	}
	var rows []*result
	var tests []*test
	var rest, sum float64
	var others, cached, failed, skipped, count int
	for _, p := range r.all {
		if p.cached {
			cached++
			continue
		}
		sum += p.elapsed
		p.takeSubtests()
		for _, t := range p.tests {
			switch t.action {
			case "skip":
				skipped++
			case "pass":
				count++
			default:
				count++
				failed++
			}
			tests = append(tests, t)
		}
		switch {
		case p.elapsed >= least:
			rows = append(rows, p)
		case p.action != "skip":
			others++
			rest += p.elapsed
		}
	}
	slices.SortStableFunc(rows, func(a, b *result) int { return cmp.Compare(b.elapsed, a.elapsed) })
	fmt.Fprintf(r.out, "\n%-60s %8s %6s\n", "package", "seconds", "tests")
	for _, p := range rows {
		fmt.Fprintf(r.out, "%-60s %8.1f %6d\n", short(p.pkg), p.elapsed, len(p.tests))
	}
	if others > 0 {
		fmt.Fprintf(r.out, "%-60s %8.1f\n", fmt.Sprintf("%d more", others), rest)
	}
	if cached > 0 {
		fmt.Fprintf(r.out, "%-60s\n", fmt.Sprintf("%d unchanged, not run again", cached))
	}
	slices.SortStableFunc(tests, func(a, b *test) int {
		return cmp.Or(cmp.Compare(b.own, a.own), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name))
	})
	if tests = tests[:min(slowest, len(tests))]; len(tests) > 0 {
		fmt.Fprintf(r.out, "\n%-90s %8s\n", "slowest tests", "seconds")
	}
	for _, t := range tests {
		fmt.Fprintf(r.out, "%-90s %8.1f\n", short(t.pkg)+" "+t.name, t.own)
	}
	fmt.Fprintf(r.out, "\n%d tests and subtests, %d failed, %d skipped; packages took %.0f s in %v\n",
		count, failed, skipped, sum, r.end.Sub(r.begin).Round(time.Second))
}

// takeSubtests computes each test's own time, without that of the tests within it. A test
// does not count parallel ones in its time, so that what remains may be negative.
func (p *result) takeSubtests() {
	within := map[string]bool{}
	for name := range p.tests {
		for i, letter := range name {
			if letter == '/' {
				within[name[:i]] = true
			}
		}
	}
	for name, t := range p.tests {
		t.own += t.elapsed
		if within[name] {
			continue
		}
		for i, letter := range name {
			if outer := p.tests[name[:i]]; letter == '/' && outer != nil {
				outer.own -= t.elapsed
			}
		}
	}
}
