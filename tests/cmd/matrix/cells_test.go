package main

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

var servers = []server{{version: "13", binaries: "/13"}, {version: "14", image: "postgres:14-alpine"}, {version: "18", binaries: "/18"}}

// Each version and each value has a cell of its own, and each pair of values of two
// factors occurs in a cell.
func TestCells(t *testing.T) {
	t.Parallel()
	cells := makeCells(servers, false)
	together := func(parts ...string) bool {
		return slices.ContainsFunc(cells, func(c cell) bool {
			words := strings.Fields(c.name)
			for _, part := range parts {
				if !slices.Contains(words, part) {
					return false
				}
			}
			return true
		})
	}
	names := map[string]bool{}
	for _, c := range cells {
		names[c.name] = true
		if len(c.tests) == 0 {
			t.Errorf("%s: runs nothing", c.name)
		}
	}
	var words [][]string
	for _, s := range servers {
		if !names[s.version] {
			t.Errorf("%s has no cell", s.version)
		}
	}
	for _, f := range factors {
		var values []string
		for _, v := range f.values {
			values = append(values, f.name+"="+v.name)
			if name := "18 " + f.name + "=" + v.name; !names[name] {
				t.Errorf("%s has no cell", name)
			}
			for _, version := range []string{"13", "18"} {
				if !together(version, f.name+"="+v.name) {
					t.Errorf("%s and %s=%s are in no cell", version, f.name, v.name)
				}
			}
		}
		words = append(words, values)
	}
	for i, some := range words {
		for _, others := range words[i+1:] {
			for _, a := range some {
				for _, b := range others {
					if !together(a, b) {
						t.Errorf("%s and %s are in no cell", a, b)
					}
				}
			}
		}
	}
	for _, c := range makeCells(servers[1:2], false) { // no binaries, so no tests that need them
		for _, tests := range c.tests {
			if tests.own {
				t.Errorf("%s runs %s", c.name, tests.pkg)
			}
		}
	}
}

// The short form has all values, too, each once.
func TestShortCells(t *testing.T) {
	t.Parallel()
	cells := makeCells(servers, true)
	var words []string
	for _, c := range cells {
		if len(c.tests) == 0 {
			t.Errorf("%s: runs nothing", c.name)
		}
		words = append(words, strings.Fields(c.name)...)
	}
	for _, f := range factors {
		for _, v := range f.values {
			name, found := f.name+"="+v.name, 0
			for _, word := range words {
				if word == name {
					found++
				}
			}
			if found != 1 {
				t.Errorf("%s is in %d cells", name, found)
			}
		}
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	output := []byte("--- FAIL: TestA (1.00s)\n    --- FAIL: TestA/b (0.10s)\n        a_test.go:1: what it said\n--- FAIL: TestAB (0.10s)\n    a_test.go:2: x\nFAIL\n")
	if got := fmt.Sprint(failures(output)); got != "[TestA/b TestAB]" {
		t.Error(got)
	}
	if got := firstLine(output, "TestA/b"); got != "a_test.go:1: what it said" {
		t.Error(got)
	}
}

// A failure is accepted only if each test that failed is a documented limit.
func TestOK(t *testing.T) {
	t.Parallel()
	exit := exec.Command("false").Run()
	known := map[string]limit{"TestA": {}}
	for _, test := range []struct {
		r    result
		want bool
	}{
		{result{}, true},
		{result{err: exit, failures: []string{"TestA"}, limits: known}, true},
		{result{err: exit, failures: []string{"TestA", "TestB"}, limits: known}, false},
		{result{err: exit}, false},
		{result{err: errors.New("not started"), failures: []string{"TestA"}, limits: known}, false},
		{result{err: exit, failures: []string{"TestA"}, limits: known, output: []byte("x\npanic: y")}, false},
	} {
		if got := test.r.ok(); got != test.want {
			t.Errorf("%+v: %t", test.r, got)
		}
	}
}
