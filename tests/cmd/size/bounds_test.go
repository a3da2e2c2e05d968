package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The face of the library stays small: a name more has to take the place of another.
func TestBounds(t *testing.T) {
	t.Chdir("../../..")
	rows, err := countNames(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	bounds := map[string]int{"names": 230, "types": 100, "interfaces": 16, "types of errors": 16, "lines": 1900, "words": 32_000}
	words := 0
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case filepath.Ext(path) != ".md" || slices.Contains(generated, path):
			return nil
		}
		text, err := os.ReadFile(path)
		words += len(strings.Fields(string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows = append(rows, rowOf("of documents", words, "words"))
	for _, r := range rows {
		count, err := strconv.Atoi(r.count)
		if err != nil {
			t.Fatal(err)
		}
		bound, known := bounds[r.unit]
		if !known || count == 0 || count > bound {
			t.Errorf("%d %s %s; the bound is %d", count, r.unit, r.name, bound)
		}
		delete(bounds, r.unit)
	}
	if len(bounds) > 0 {
		t.Errorf("nothing was counted for %v", bounds)
	}
}
