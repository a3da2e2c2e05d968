package postgres

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// statement is a query as it is sent, with the indexes that its comment names.
type statement struct {
	name    string
	sql     string
	indexes [][]string // each with its alternatives
}

var (
	generated = regexp.MustCompile("(?s)const \\w+ = `-- name: (\\w+) :\\w+\n(.*?)`")
	commented = regexp.MustCompile(`(?s)-- name: (\w+) :\w+\n((?:--[^\n]*\n)*)`)
	indexName = regexp.MustCompile(`\b\w+_(?:pkey|key|idx)\b`)
	indexLine = regexp.MustCompile(`(?m)^-- Index: ([^.]*)`)
)

// statements returns all queries: the SQL from package db, which sqlc generated, and
// the comments from queries/.
func statements(t *testing.T) []statement {
	t.Helper()
	indexes := map[string][][]string{}
	for _, text := range readAll(t, "../../queries/*.sql") {
		for _, query := range commented.FindAllStringSubmatch(text, -1) {
			line := indexLine.FindStringSubmatch(query[2])
			if line == nil {
				t.Fatalf("%s: its comment names no index", query[1])
			}
			indexes[query[1]] = nil
			for item := range strings.SplitSeq(line[1], ",") {
				if names := indexName.FindAllString(item, -1); names != nil {
					indexes[query[1]] = append(indexes[query[1]], names)
				}
			}
		}
	}
	var all []statement
	for _, text := range readAll(t, "../../db/*.go") {
		for _, query := range generated.FindAllStringSubmatch(text, -1) {
			all = append(all, statement{name: query[1], sql: query[2], indexes: indexes[query[1]]})
		}
	}
	if len(all) == 0 || len(all) != len(indexes) {
		t.Fatalf("%d statements in db, %d in queries", len(all), len(indexes))
	}
	return all
}

func readAll(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

var parameter = regexp.MustCompile(`\$(\d+)`)

// parameters returns the number of the statement's parameters.
func (s statement) parameters() int {
	highest := 0
	for _, match := range parameter.FindAllStringSubmatch(s.sql, -1) {
		if number, err := strconv.Atoi(match[1]); err == nil {
			highest = max(highest, number)
		}
	}
	return highest
}
