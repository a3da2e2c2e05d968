package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.."

// TestCurrent checks that the document is what the tests say.
func TestCurrent(t *testing.T) {
	t.Parallel()
	want, _, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what make generate writes", document)
	}
}

// TestWrongSection checks that a line which would be left out is an error.
func TestWrongSection(t *testing.T) {
	t.Parallel()
	for _, comment := range []string{"Guarantee: Somewhere: It holds.", "Guarantee: Turns: no sentence", "Guarantee: Turns"} {
		directory := t.TempDir()
		source := "package x\n\n// TestX tests.\n// " + comment + "\nfunc TestX() {}\n"
		if err := os.WriteFile(filepath.Join(directory, "x_test.go"), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := generate(directory); err == nil || !strings.Contains(err.Error(), "not a section") {
			t.Errorf("%s: %v", comment, err)
		}
	}
}
