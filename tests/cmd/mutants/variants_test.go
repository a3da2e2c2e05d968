package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const variantsSource = `package p

type box[T any] struct{ items []T }

func (b *box[T]) add(unique func(T) bool, items ...T) (added int) {
	for _, item := range items {
		if unique(item) {
			b.items = append(b.items, item)
			added++
		}
	}
	return added
}

func (b *box[T]) clear() { b.items = nil }

`

// The unchanged function calls each of the changed ones, and all compile together.
func TestVariants(t *testing.T) {
	t.Parallel()
	tree := treeOf(t, "p/p.go", variantsSource)
	mutants := []mutant{
		{change: in("p", "box.add", never("unique"))},
		{change: in("p", "box.clear", dropAssign("b.items"))},
		{change: in("p", "box.add", dropAssign("added"))},
	}
	found, err := resolve(tree, mutants)
	if err != nil {
		t.Fatal(err)
	}
	write := func(unfit map[int]string) ([]variant, string) {
		variants, packages, err := (&bench{dir: tree.root}).writeVariants(found, unfit)
		if err != nil || len(packages) != 1 || packages[0] != "./p" {
			t.Fatal(packages, err)
		}
		content, err := os.ReadFile(filepath.Join(tree.root, "p", "p.go"))
		if err != nil {
			t.Fatal(err)
		}
		compiles(t, string(content)+"func mutantIs(string) bool { return false }\n")
		return variants, string(content)
	}
	variants, content := write(nil)
	for _, want := range []string{
		`if mutantIs("0") { return b.add_mutant0(unique, items...) };`,
		`if mutantIs("1") { b.clear_mutant1(); return };`,
		`if mutantIs("2") { return b.add_mutant2(unique, items...) };`,
		"if (false && (unique(item))) {", "_ = func() { b.items = nil }", "_ = func() { added++ }",
	} {
		if strings.Count(content, want) != 1 {
			t.Errorf("%q is not in\n%s", want, content)
		}
	}
	lines := strings.Split(content, "\n")
	for _, v := range variants {
		if text := strings.Join(lines[v.from-1:v.to-1], "\n"); strings.Count(text, nameOf(v.number)) != 1 || strings.Count(text, "func (b") != 1 {
			t.Errorf("the lines of %d are\n%s", v.number, text)
		}
	}

	unfit := map[int]string{}
	line := "p/p.go:" + strconv.Itoa(variants[0].from+1) + ":3: declared and not used: x"
	if !blame(variants, "# example.org/p\nvet: "+line+"\n", unfit) || !strings.Contains(unfit[variants[0].number], line) {
		t.Errorf("%v", unfit)
	}
	if blame(variants, "p/p.go:3:1: it was so before\n", unfit) {
		t.Errorf("%v", unfit)
	}
	if left, content := write(unfit); len(left) != 2 || strings.Contains(content, nameOf(variants[0].number)) {
		t.Errorf("%+v\n%s", left, content)
	}
}

// A function can only be called with parameters that have names.
func TestNamelessParameters(t *testing.T) {
	t.Parallel()
	for _, signature := range []string{"(*t) f(ready bool)", "(x *t) f(bool)", "(x *t) f(_ bool)"} {
		source := "package p\n\ntype t struct{ ready bool }\n\nfunc " + signature + " { if true == false { return } }\n"
		fails(t, treeOf(t, "p/p.go", source), in("p", "t.f", never("false")), "has no name")
	}
}
