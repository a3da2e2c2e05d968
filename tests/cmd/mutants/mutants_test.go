package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

// Each mutant can still be applied: its text occurs once in its file, and the tests that
// must kill it exist.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	names, there := map[string]bool{}, map[tests]bool{}
	for _, m := range all() {
		if names[m.name] {
			t.Errorf("%s: two mutants have this name", m.name)
		}
		names[m.name] = true
		content, err := os.ReadFile(filepath.Join(root, m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if count := strings.Count(string(content), m.old); count != 1 {
			t.Errorf("%s: its text occurs %d times in %s", m.name, count, m.file)
		}
		if m.old == m.new || m.old == "" {
			t.Errorf("%s: changes nothing", m.name)
		}
		if len(m.tests) == 0 {
			t.Errorf("%s: it names no tests", m.name)
		}
		for _, tests := range m.tests {
			if known, found := there[tests]; !found {
				there[tests] = exists(t, tests)
			} else if known {
				continue
			}
			if !there[tests] {
				t.Errorf("%s: %s has no test that %s matches", m.name, tests.pkg, tests.run)
			}
		}
	}
}

var function = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// exists reports whether there is such a test. It ignores subtests.
func exists(t *testing.T, tests tests) bool {
	t.Helper()
	top, _, _ := strings.Cut(tests.run, "/")
	pattern, err := regexp.Compile(top)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, tests.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range function.FindAllSubmatch(content, -1) {
			if pattern.Match(name[1]) {
				return true
			}
		}
	}
	return false
}

// A change is made once and undone completely. If it cannot be made, that is an error.
func TestApply(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	restore, err := mutant{file: "file", old: "one", new: "none"}.apply(dir)
	if err != nil || read() != "none two two" {
		t.Fatalf("%q, %v", read(), err)
	}
	if err := restore(); err != nil || read() != "one two two" {
		t.Fatalf("%q, %v", read(), err)
	}
	for _, old := range []string{"two", "three"} {
		if _, err := (mutant{file: "file", old: old, new: "x"}).apply(dir); err == nil || read() != "one two two" {
			t.Errorf("%s: %q, %v", old, read(), err)
		}
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	for want, output := range map[string]string{
		"TestA/b/c": "--- FAIL: TestA (1.00s)\n    --- FAIL: TestA/b (0.10s)\n        --- FAIL: TestA/b/c (0.10s)\n            a.go:1: x\n    --- FAIL: TestA/d (0.10s)\nFAIL\n",
		"timed out": "panic: test timed out after 1s\n\ngoroutine 1\n",
		"FAIL":      "something else\nFAIL\n",
	} {
		if got := reason([]byte(output)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
