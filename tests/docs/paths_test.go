// Package docs checks that what the documentation names exists.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

var (
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	ticked = regexp.MustCompile("`([A-Za-z0-9_./-]+)`")
	test   = regexp.MustCompile(`^(Test|Benchmark)[A-Z]\w*$`)
	tests  = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w+)\(`)
	file   = regexp.MustCompile(`[^/]\.(go|md|sql|sh|sum|txt|yaml|mod)$`)
)

// TestPathsExist checks each relative link, and each path and test in backticks, of all documents.
func TestPathsExist(t *testing.T) {
	t.Parallel()
	names := fileNames(t)
	checked := 0
	for _, document := range documents(t) {
		for _, path := range missing(filepath.Dir(document), read(t, document), names, &checked) {
			t.Errorf("%s names %s, which does not exist", document, path)
		}
	}
	if checked < 50 {
		t.Errorf("only %d paths were checked", checked)
	}
}

// TestMissingIsFound checks that missing paths are found.
func TestMissingIsFound(t *testing.T) {
	t.Parallel()
	checked := 0
	text := "[a](gone.md) [b](README.md#using-it) [c](https://example.com) `repo/gone` `gone.go` `repo/id.go` `text/template` `TestNobodyWrote` `TestMissingIsFound`"
	found := missing(root, text, fileNames(t), &checked)
	if got := strings.Join(found, " "); got != "gone.md repo/gone gone.go TestNobodyWrote" {
		t.Errorf("missing: %s", got)
	}
}

// missing returns the paths in a text that do not exist. Links are relative to dir. A
// path in backticks is relative to the root: it begins with one of the root's
// folders, or is the name of a file in any folder. Names of tests are checked in the
// same way. What looks like a link in code is none.
func missing(dir, text string, names map[string]bool, checked *int) []string {
	var found []string
	for _, match := range link.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
		target, _, _ := strings.Cut(match[1], "#")
		if target == "" || strings.Contains(target, "://") {
			continue
		}
		*checked++
		if !exists(filepath.Join(dir, target)) {
			found = append(found, target)
		}
	}
	for _, match := range ticked.FindAllStringSubmatch(text, -1) {
		path := match[1]
		first, _, inside := strings.Cut(path, "/")
		switch {
		case strings.Contains(path, "NNNN"): // stands for a number
		case inside && (file.MatchString(path) || first != "" && exists(filepath.Join(root, first))):
			*checked++
			if !exists(filepath.Join(root, path)) {
				found = append(found, path)
			}
		case !inside && (file.MatchString(path) || test.MatchString(path)):
			*checked++
			if !names[path] {
				found = append(found, path)
			}
		}
	}
	return found
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// fileNames returns the names of all files, without their folders, and of all tests.
func fileNames(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == ".git" {
			return filepath.SkipDir
		}
		names[filepath.Base(path)] = true
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, match := range tests.FindAllSubmatch(content, -1) {
			names[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
