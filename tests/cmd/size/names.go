package main

import (
	"bytes"
	"context"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// countNames counts what package repo exports. Names are constants, variables, functions,
// types and methods, but neither fields nor the methods of interfaces.
func countNames(ctx context.Context) ([]row, error) {
	paths, err := filepath.Glob("repo/*.go")
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	repo, err := doc.NewFromFiles(set, files, "repo")
	if err != nil {
		return nil, err
	}
	names := countValues(repo.Consts) + countValues(repo.Vars) + len(repo.Funcs)
	interfaces, errors := 0, 0
	for _, kind := range repo.Types {
		names += 1 + countValues(kind.Consts) + countValues(kind.Vars) + len(kind.Funcs) + len(kind.Methods)
		for _, spec := range kind.Decl.Specs {
			if _, is := spec.(*ast.TypeSpec).Type.(*ast.InterfaceType); is {
				interfaces++
			}
		}
		for _, method := range kind.Methods {
			if method.Name == "Error" {
				errors++
			}
		}
	}
	text, err := output(ctx, "go", "doc", "-all", "./repo")
	if err != nil {
		return nil, err
	}
	return []row{
		rowOf("that package repo exports", names, "names"),
		rowOf("that package repo exports", len(repo.Types), "types"),
		rowOf("that package repo exports", interfaces, "interfaces"),
		rowOf("that package repo exports", errors, "types of errors"),
		rowOf("of go doc -all ./repo", bytes.Count(text, []byte("\n")), "lines"),
	}, nil
}

func countValues(values []*doc.Value) (count int) {
	for _, value := range values {
		for _, name := range value.Names {
			if ast.IsExported(name) {
				count++
			}
		}
	}
	return count
}

// generated are lists that programs make, in which a reader looks things up.
var generated = []string{"docs/guarantees.md", "docs/costs.md", "docs/data-model.md"}

// countDocuments counts the words of the documents, as wc -w does, without what is generated.
func countDocuments(ctx context.Context) ([]row, error) {
	files, err := tracked(ctx, "*.md")
	if err != nil {
		return nil, err
	}
	words := 0
	for _, name := range files {
		if slices.Contains(generated, name) {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		words += len(bytes.Fields(text))
	}
	return []row{rowOf("of documents (*.md, without what is generated)", words, "words")}, nil
}

// countMutants counts the lines that the command that makes them lists.
func countMutants(ctx context.Context) ([]row, error) {
	list, err := output(ctx, "go", "run", "./tests/cmd/mutants", "-list")
	if err != nil {
		return nil, err
	}
	return []row{rowOf("(make test/mutants)", bytes.Count(list, []byte("\n")), "mutants")}, nil
}
