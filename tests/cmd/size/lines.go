package main

import (
	"bytes"
	"context"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"slices"
	"strings"
)

// parts are what is no package of the library, by the beginning of the path; the first
// that matches counts.
var parts = []struct{ prefix, name string }{
	{"cmd/agentstore/internal/bench/", "benchmarks"},
	{"tests/bench/", "benchmarks"},
	{"adapters/tests/bench/", "benchmarks"},
	{"cmd/", "command"},
	{"adapters/tests/", "tests"},
	{"adapters/", "adapters"},
	{"examples/", "examples"},
	{"repo/repotest/", "tests"},
	{"window/windowtest/", "tests"},
	{"approval/approvaltest/", "tests"},
	{"usage/usagetest/", "tests"},
	{"directory/directorytest/", "tests"},
	{"share/sharetest/", "tests"},
	{"budget/budgettest/", "tests"},
	{"files/filestest/", "tests"},
	{"effect/effecttest/", "tests"},
	{"internal/await/", "tests"},
	{"tests/", "tests"},
}

// countGo returns the lines of each package of the library, their sum, and those of each
// other part.
func countGo(ctx context.Context) ([]row, error) {
	files, err := tracked(ctx, "*.go")
	if err != nil {
		return nil, err
	}
	library, others := map[string]int{}, map[string]int{}
	sum := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		lines, err := goLines(name, text)
		if err != nil {
			return nil, err
		}
		if part := partOf(name); part != "" {
			others[part] += lines
		} else {
			library[path.Dir(name)] += lines
			sum += lines
		}
	}
	var rows []row
	for _, dir := range sorted(library) {
		if library[dir] > 0 { // what is generated has none
			rows = append(rows, rowOf("of "+path.Join("agentstore", dir), library[dir], "lines"))
		}
	}
	rows = append(rows, rowOf("of the library in all", sum, "lines"))
	for _, part := range sorted(others) {
		rows = append(rows, rowOf("of "+part, others[part], "lines"))
	}
	return rows, nil
}

func sorted(counts map[string]int) []string {
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func partOf(name string) string {
	if strings.HasSuffix(name, "_test.go") {
		for _, p := range parts {
			if strings.HasPrefix(name, p.prefix) && p.name == "benchmarks" {
				return p.name
			}
		}
		return "tests"
	}
	for _, p := range parts {
		if strings.HasPrefix(name, p.prefix) {
			return p.name
		}
	}
	return ""
}

// goLines returns the number of lines on which there is a part of a token.
func goLines(name string, text []byte) (int, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		return 0, err
	}
	if ast.IsGenerated(parsed) {
		return 0, nil
	}
	file := set.AddFile(name, set.Base(), len(text))
	var scan scanner.Scanner
	scan.Init(file, text, nil, 0)
	count, last := 0, 0
	for {
		at, kind, literal := scan.Scan()
		if kind == token.EOF {
			return count, nil
		}
		if kind == token.SEMICOLON && literal == "\n" {
			continue
		}
		first := file.Line(at)
		end := first + strings.Count(literal, "\n") // of a raw string
		count += end - max(first-1, last)
		last = end
	}
}

// countSQL returns the lines of the queries and of the migrations.
func countSQL(ctx context.Context) ([]row, error) {
	var rows []row
	for _, dir := range []string{"queries", "schema/migrations"} {
		files, err := tracked(ctx, dir+"/*.sql")
		if err != nil {
			return nil, err
		}
		count := 0
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			for line := range bytes.Lines(text) {
				if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("--")) {
					count++
				}
			}
		}
		rows = append(rows, rowOf("of "+dir, count, "lines"))
	}
	return rows, nil
}

// tracked returns the repository's files whose paths match.
func tracked(ctx context.Context, pattern string) ([]string, error) {
	// Also those that are not added yet.
	list, err := output(ctx, "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", pattern)
	if err != nil {
		return nil, err
	}
	var files []string
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		if _, err := os.Stat(name); err == nil && !strings.Contains("/"+name, "/testdata/") {
			files = append(files, name)
		}
	}
	return files, nil
}
