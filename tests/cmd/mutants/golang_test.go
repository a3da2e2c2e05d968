package main

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"go/types"
	"testing"
)

const goSource = `package p

type mutex struct{}

func (*mutex) Lock()   {}
func (*mutex) Unlock() {}

type queue[K comparable] struct {
	mu      mutex
	closed  bool
	size    int
	waiting map[K]int
	done    chan int
}

type options struct{ strict, loud bool }

func strictly() options { return options{strict: true, loud: false} }

func (q *queue[K]) put(key K, limit int, fail func() error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := fail(); err != nil {
		return err
	}
	if q.closed && (limit > 0 || q.size < limit) {
		return nil
	}
	switch {
	case q.size == 0, limit < 0:
		q.size++
	case q.closed:
		q.waiting[key] = limit
	}
	spare := limit + 1
	go q.wake(spare)
	q.size = spare
	select {
	case <-q.done:
		q.closed = false
	case q.done <- limit:
	}
	return fail()
}

func (q *queue[K]) wake(n int) {
	switch n {
	case 1, 2:
		q.done <- n
	}
}
`

// Each kind changes the one place that mentions the names, and what it leaves compiles.
func TestGoKinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		function string
		kind     kind
		want     string
	}{
		{"queue.put", always("q.closed", "limit"), "if (true || (q.closed && (limit > 0 || q.size < limit))) {"},
		{"queue.put", never("q.size", "limit"), "if q.closed && (limit > 0 || (false && (q.size < limit))) {"},
		{"queue.put", never("fail"), "if err := fail(); (false && (err != nil)) {"},
		{"queue.put", never("limit", "0"), ""},
		{"queue.put", neverAll("q.size", "limit"), "if (false && (q.closed && (limit > 0 || q.size < limit))) {"},
		{"queue.put", shift("q.size", "limit"), "if q.closed && (limit > 0 || q.size <= limit) {"},
		{"queue.put", negate("q.size", "limit"), "if q.closed && (limit > 0 || q.size >= limit) {"},
		{"queue.put", dropCall("q.mu.Lock"), "_ = func() { q.mu.Lock() }"},
		{"queue.put", dropCall("q.wake"), "_ = func() { go q.wake(spare) }"},
		{"queue.put", dropDefer("Unlock"), "_ = func() { defer q.mu.Unlock() }"},
		{"queue.put", unlocked("q.mu"), "_ = func() { q.mu.Lock() }\n_ = func() { defer q.mu.Unlock() }"},
		{"queue.put", dropAssign("q.waiting"), "_ = func() { q.waiting[key] = limit }"},
		{"queue.put", dropAssign("q.size", "spare"), "_ = func() { q.size = spare }"},
		{"queue.put", returns("nil", "fail"), "_ = func() { _ = fail() }; return nil"},
		{"queue.put", swap("spare", "limit", "q.wake"), "go q.wake(limit)"},
		{"queue.wake", dropCase("1"), "case 2:"},
		{"queue.wake", dropCase("2"), "case 1:"},
		{"strictly", dropField("strict"), "func strictly() options { return options{loud: false} }"},
		{"strictly", dropField("loud"), "func strictly() options { return options{strict: true} }"},
	} {
		change := in("p", c.function, c.kind)
		tree := treeOf(t, "p/p.go", goSource)
		if c.want == "" {
			fails(t, tree, change, "places fit")
			continue
		}
		if got := changed(t, tree, change); got != c.want {
			t.Errorf("%s: %s, want %s", change, got, c.want)
		}
		found, err := change.resolve(tree)
		if err != nil {
			t.Fatal(err)
		}
		compiles(t, found.apply())
	}
}

// A case of a select that is dropped leaves the others.
func TestDropCase(t *testing.T) {
	t.Parallel()
	found, err := in("p", "queue.put", dropCase("q.done", "limit")).resolve(treeOf(t, "p/p.go", goSource))
	if err != nil {
		t.Fatal(err)
	}
	if len(found.edits) != 1 || goSource[found.edits[0].from:found.edits[0].to] != "case q.done <- limit:" {
		t.Errorf("%+v", found.edits)
	}
	compiles(t, found.apply())
}

func compiles(t *testing.T, source string) {
	t.Helper()
	set := gotoken.NewFileSet()
	file, err := parser.ParseFile(set, "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := new(types.Config).Check("p", set, []*ast.File{file}, nil); err != nil {
		t.Errorf("%v in\n%s", err, source)
	}
}

// A function is found in whichever file of the package it is, but not in a test.
func TestFunctionsOfAPackage(t *testing.T) {
	t.Parallel()
	c := in("p", "f", never("ready"))
	function := "package p\nfunc f(ready bool) int { if ready { return 1 }; return 2 }\n"
	for _, file := range []string{"p/a.go", "p/b.go"} {
		if got := changed(t, treeOf(t, "p/other.go", "package p\n", file, function), c); got == "" {
			t.Error("it is not found in " + file)
		}
	}
	fails(t, treeOf(t, "p/a_test.go", function), c, "no such function")
	fails(t, treeOf(t, "p/a.go", "package p\ntype t int\nfunc (t) f() {}\nfunc g() {}\n"), c, "no such function", "t.f")
	fails(t, treeOf(t, "p/a.go", function, "p/b.go", function), c, "several")
	fails(t, treeOf(t), c)
}

// What is ambiguous, or missing, names the candidates.
func TestGoCandidates(t *testing.T) {
	t.Parallel()
	tree := treeOf(t, "p/p.go", "package p\nfunc f(a, b int) int {\n\tif a < b {\n\t\treturn a\n\t}\n\tif a > 1 {\n\t\treturn b\n\t}\n\treturn 0\n}\n")
	fails(t, tree, in("p", "f", never("a")), "2 places fit", "line 3: a < b", "line 6: a > 1")
	fails(t, tree, in("p", "f", never("c")), "nothing fits", "line 3: a < b", "line 6: a > 1")
	fails(t, tree, in("p", "f", dropDefer("a")), "none")
	fails(t, tree, in("p", "f", dropLock()), errNotHere.Error())
}
