// Command guarantees writes docs/guarantees.md from the comments of the tests.
//
//	guarantees [-tests]
//
// With -tests it prints a regular expression that matches the tests' names instead, for make
// test. Run it in the root of the repository. The comment of a function that shows a guarantee
// has a line for it, with a section and a sentence:
//
//	// Guarantee: Turns: A turn is stored whole or not at all.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	document = "docs/guarantees.md"
	mark     = "Guarantee: "
)

// sections are in the order of the document.
var sections = []string{
	"Messages", "Turns", "History", "Sessions", "State", "Usage", "Budgets", "Deletion", "Following", "Streams", "Leases", "Claims", "Plans", "Effects", "Approvals", "Files", "Faults",
	"Held sessions", "Transactions", "Views", "Memory", "Clocks", "Servers and roles", "Migrations", "The audit trail", "Observers", "Inspector",
}

func main() {
	onlyTests := flag.Bool("tests", false, "print a regular expression for the tests")
	flag.Parse()
	text, tests, err := generate(".")
	switch {
	case err == nil && *onlyTests:
		_, err = fmt.Printf("^(%s)$\n", strings.Join(tests, "|"))
	case err == nil:
		err = os.WriteFile(document, []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guarantees:", err)
		os.Exit(1)
	}
}

// generate returns the document for the repository in a directory, and the names of the tests
// in it. The others are parts of the conformance suite.
func generate(root string) (document string, tests []string, err error) {
	found := map[string][]string{}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && name != root:
			return filepath.SkipDir
		case !strings.HasSuffix(name, "_test.go") && filepath.Base(filepath.Dir(name)) != "repotest" || !strings.HasSuffix(name, ".go"):
			return nil
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		of, err := collect(name, filepath.ToSlash(relative), found)
		tests = append(tests, of...)
		return err
	})
	if err != nil {
		return "", nil, err
	}
	var text strings.Builder
	text.WriteString(introduction)
	for _, section := range sections {
		fmt.Fprintf(&text, "\n## %s\n\n%s", section, strings.Join(found[section], ""))
	}
	text.WriteString(limits)
	return text.String(), tests, nil
}

// collect adds the guarantees of a file to those of each section, and returns its tests that
// have one.
func collect(name, shown string, found map[string][]string) (tests []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, declaration := range file.Decls {
		function, isFunction := declaration.(*ast.FuncDecl)
		if !isFunction || function.Doc == nil {
			continue
		}
		for line := range strings.Lines(function.Doc.Text()) {
			rest, isGuarantee := strings.CutPrefix(strings.TrimSpace(line), mark)
			if !isGuarantee {
				continue
			}
			section, sentence, _ := strings.Cut(rest, ": ")
			if !slices.Contains(sections, section) || !strings.HasSuffix(sentence, ".") {
				return nil, fmt.Errorf("%s: %q is not a section of the document and a sentence", name, rest)
			}
			found[section] = append(found[section], fmt.Sprintf("- [%s](../%s#%s)\n", sentence, shown, function.Name.Name))
			if name := testOf(file, function.Name.Name); name != "" && !slices.Contains(tests, name) {
				tests = append(tests, name)
			}
		}
	}
	return tests, nil
}

// testOf returns the test that a function is, or is a part of: the one in the file that names it.
func testOf(file *ast.File, name string) (test string) {
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(function.Name.Name, "Test") {
			continue
		}
		ast.Inspect(function, func(node ast.Node) bool {
			if named, ok := node.(*ast.Ident); ok && named.Name == name {
				test = function.Name.Name
			}
			return true
		})
	}
	return test
}
