package main

import (
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Comments and texts of the library name the writer, the caller, the process or the lease that does something.
func TestComments(t *testing.T) {
	t.Chdir("../../..")
	vague := regexp.MustCompile(`(?i)\b(somebody|nobody|whoever)\b`)
	names, err := git(t.Context(), "ls-files", "--cached", "--others", "--exclude-standard", "*.go", "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for name := range strings.FieldsSeq(names) {
		if isOfTests(name) {
			continue
		}
		files++
		text, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		for line, of := range strings.Split(string(text), "\n") {
			if found := vague.FindString(of); found != "" {
				t.Errorf("%s:%d says %q: name what it stands for", name, line+1, found)
			}
		}
	}
	if files < 400 {
		t.Errorf("there are only %d files", files)
	}
}

// isOfTests reports whether a file is a test, a conformance suite, or below tests.
func isOfTests(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.HasSuffix(path.Dir(name), "test") || strings.HasPrefix(name, "tests/") ||
		strings.HasPrefix(name, "adapters/tests/")
}
