// Command guarantees writes docs/guarantees.md from the comments of the tests.
//
//	guarantees
//
// Run it in the root of the repository. The comment of a function that shows a guarantee
// has a line for it, with a section and a sentence:
//
//	// Guarantee: Turns: A turn is stored whole or not at all.
package main

import (
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
	"Messages", "Turns", "History", "Sessions", "State", "Usage", "Deletion", "Following", "Streams", "Leases", "Claims", "Plans", "Faults",
	"Held sessions", "Transactions", "Views", "Memory", "Clocks", "Servers and roles", "Migrations", "The audit trail", "Observers", "Inspector",
}

func main() {
	text, err := generate(".")
	if err == nil {
		err = os.WriteFile(document, []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guarantees:", err)
		os.Exit(1)
	}
}

// generate returns the document for the repository in a directory.
func generate(root string) (string, error) {
	found := map[string][]string{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
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
		return collect(name, filepath.ToSlash(relative), found)
	})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	text.WriteString(introduction)
	for _, section := range sections {
		fmt.Fprintf(&text, "\n## %s\n\n%s", section, strings.Join(found[section], ""))
	}
	text.WriteString(limits)
	return text.String(), nil
}

// collect adds the guarantees of a file to those of each section.
func collect(name, shown string, found map[string][]string) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
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
				return fmt.Errorf("%s: %q is not a section of the document and a sentence", name, rest)
			}
			found[section] = append(found[section], fmt.Sprintf("- [%s](../%s#%s)\n", sentence, shown, function.Name.Name))
		}
	}
	return nil
}
