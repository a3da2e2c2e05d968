// Package docs checks that what the documentation names is there.
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
	file   = regexp.MustCompile(`[^/]\.(go|md|sql|sh|sum|txt|yaml|mod)$`)
)

// TestPathsExist checks each relative link, and each path in backticks, of the
// Markdown files at the top and in docs/.
func TestPathsExist(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := fileNames(t)
	checked := 0
	for _, document := range append(documents, more...) {
		content, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range missing(filepath.Dir(document), string(content), names, &checked) {
			t.Errorf("%s names %s, which is not there", document, path)
		}
	}
	if checked < 50 {
		t.Errorf("only %d paths were found to check", checked)
	}
}

// TestMissingIsFound shows that the check can fail.
func TestMissingIsFound(t *testing.T) {
	t.Parallel()
	checked := 0
	text := "[a](gone.md) [b](README.md#using-it) [c](https://example.com) `repo/gone` `gone.go` `repo/id.go` `text/template`"
	found := missing(root, text, fileNames(t), &checked)
	if got := strings.Join(found, " "); got != "gone.md repo/gone gone.go" {
		t.Errorf("missing: %s", got)
	}
}

// missing returns the paths in a text that do not exist. Links are relative to
// dir. A path in backticks is from the root: it begins with one of the root's
// folders, or is the name of a file, in any folder.
func missing(dir, text string, names map[string]bool, checked *int) []string {
	var found []string
	for _, match := range link.FindAllStringSubmatch(text, -1) {
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
		case !inside && file.MatchString(path):
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

// fileNames are the names of all files of the tree, without their folders.
func fileNames(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == ".git" {
			return filepath.SkipDir
		}
		names[filepath.Base(path)] = true
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
