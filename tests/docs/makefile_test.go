package docs

import (
	"path/filepath"
	"regexp"
	"testing"
)

// TestEveryPackageIsTested checks that the Makefile names each folder with tests: one that it does not name is never run.
func TestEveryPackageIsTested(t *testing.T) {
	t.Parallel()
	makefile := read(t, filepath.Join(root, "Makefile"))
	files, err := filepath.Glob(filepath.Join(root, "tests/*/*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]bool{}
	for _, file := range files {
		folders[filepath.Base(filepath.Dir(file))] = true
	}
	if len(folders) < 20 {
		t.Errorf("only %d folders have tests", len(folders))
	}
	for folder := range folders {
		if !regexp.MustCompile(`(?m)^[^#\n]*\b` + folder + `\b`).MatchString(makefile) {
			t.Errorf("the Makefile does not name tests/%s", folder)
		}
	}
}
