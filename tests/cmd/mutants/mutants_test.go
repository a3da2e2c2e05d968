package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

// name is what a mutant may say to find its place: nothing that quotes the source.
var name = regexp.MustCompile(`^(@?[A-Za-z_]\w*(\.[A-Za-z_]\w*)*|'[a-z]*')$`)

// Each mutant resolves to one place, and the test that must kill it exists.
func TestMutantsResolve(t *testing.T) {
	t.Parallel()
	mutants := all()
	found, err := resolve(newTree(root), mutants)
	if err != nil {
		t.Error(err)
	}
	names, there := map[string]bool{}, map[killer]bool{}
	for i, m := range mutants {
		if names[m.name] || m.area() == m.name {
			t.Errorf("%s: two mutants have this name, or it has no area", m.name)
		}
		names[m.name] = true
		if found[i].apply() == found[i].text {
			t.Errorf("%s: changes nothing", m.name)
		}
		for _, about := range m.change.about {
			if !name.MatchString(about) {
				t.Errorf("%s: quotes %s", m.name, about)
			}
		}
		if _, known := there[m.killer]; !known {
			there[m.killer] = exists(t, m.killer)
		}
		if !there[m.killer] {
			t.Errorf("%s: %s has no test that %s matches", m.name, m.killer.pkg, m.killer.run)
		}
	}
}

// The generated code has each statement that a mutant changes in a form that can be replaced.
func TestStatementsCanBeReplaced(t *testing.T) {
	t.Parallel()
	statements, err := readStatements(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all() {
		if query := m.change.query; query != "" && statements[query] == "" {
			t.Errorf("%s: db/ has no statement %s", m.name, query)
		}
	}
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// exists reports whether there is such a test. It ignores subtests.
func exists(t *testing.T, k killer) bool {
	t.Helper()
	top, _, _ := strings.Cut(k.run, "/")
	pattern, err := regexp.Compile(top)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, k.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range testFunction.FindAllSubmatch(content, -1) {
			if pattern.Match(name[1]) {
				return true
			}
		}
	}
	return false
}

// treeOf writes files below a directory: a name, and the content.
func treeOf(t *testing.T, files ...string) *tree {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return newTree(dir)
}

// changed returns the lines that a change makes, without those that it leaves.
func changed(t *testing.T, in *tree, c change) string {
	t.Helper()
	found, err := c.resolve(in)
	if err != nil {
		t.Fatal(err)
	}
	was := map[string]bool{}
	for line := range strings.Lines(found.text) {
		was[strings.TrimSpace(line)] = true
	}
	var lines []string
	for line := range strings.Lines(found.apply()) {
		if line = strings.TrimSpace(line); !was[line] {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// fails checks that a change has no place, and that the error names the candidates.
func fails(t *testing.T, in *tree, c change, wanted ...string) {
	t.Helper()
	_, err := c.resolve(in)
	if err == nil {
		t.Fatalf("%s was found", c)
	}
	for _, want := range wanted {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
}

func TestReason(t *testing.T) {
	t.Parallel()
	for want, output := range map[string]string{
		"TestA/b/c":                      "--- FAIL: TestA (1.00s)\n    --- FAIL: TestA/b (0.10s)\n        --- FAIL: TestA/b/c (0.10s)\n            a.go:1: x\n    --- FAIL: TestA/d (0.10s)\nFAIL\n",
		"panic: test timed out after 1s": "panic: test timed out after 1s\n\ngoroutine 1\n",
		"FAIL":                           "something else\nFAIL\n",
	} {
		if got, failed := reason([]byte(output)); got != want || failed == (got == "FAIL") {
			t.Errorf("%q, %t, want %q", got, failed, want)
		}
	}
}

// The tests of a package run together, those with the race detector apart.
func TestTogether(t *testing.T) {
	t.Parallel()
	got := together([]mutant{
		{killer: test("b", "TestB")},
		{killer: test("a", "TestA/One")},
		{killer: test("a", "TestC")},
		{killer: test("a", "TestC")},
		{killer: raced(test("b", "TestB"))},
	})
	if len(got) != 3 || got[0] != (killer{"a", "^TestA$/^One$|^TestC$", false}) || got[1].pkg != "b" || got[2].pkg != "b" || got[1].race == got[2].race {
		t.Errorf("%+v", got)
	}
}
