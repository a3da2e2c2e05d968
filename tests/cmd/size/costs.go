package main

import (
	"context"
	"os"
	"path"
	"regexp"
	"strings"
)

// costs are changes that the project has to bear, each counted by one that was made: the files that are written by hand, beside tests and
// documents, in which its name stands.
var costs = []struct {
	unit, name string
	written    *regexp.Regexp
	bound      int
}{
	// The field is also one that messages are found by, and that prompts and pages go by: a field that is only kept has fewer.
	{"files", "in which a field of a message stands (CallID)", regexp.MustCompile(`(?i)\bcall_?ids?\b`), 28},
	{"files", "in which a method stands (MessagesOfCall)", regexp.MustCompile(`\bMessagesOfCall\b`), 5},
}

// countCosts returns how many files each of the costs has.
func countCosts(ctx context.Context) ([]row, error) {
	files, err := tracked(ctx, "*")
	if err != nil {
		return nil, err
	}
	found := make([]int, len(costs))
	for _, name := range files {
		if !isByHand(name) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for i, c := range costs {
			if c.written.Match(text) {
				found[i]++
			}
		}
	}
	var rows []row
	for i, c := range costs {
		rows = append(rows, rowOf(c.name, found[i], c.unit))
	}
	return rows, nil
}

// isByHand reports whether a file is part of the library, of its command or of its schema, and no program has written it.
func isByHand(name string) bool {
	part := partOf(name)
	switch {
	case path.Ext(name) == ".md", strings.HasPrefix(name, "db/"), strings.HasPrefix(name, "adapters/"), name == "internal/observed/repositories.go":
		return false
	default:
		return part == "" || part == "command"
	}
}
