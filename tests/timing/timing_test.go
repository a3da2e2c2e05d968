// Package timing checks that no test depends on how fast a machine is.
package timing

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// realTime has the files that need a clock that is not moved. Each says why in a comment
// that begins with "Real time:". Short lives are allowed there without a reason for each.
var realTime = []string{
	"internal/await/await.go",
	"internal/await/await_test.go",
}

// enough is a time that no machine takes for what a test does between two of its events.
const enough = 10 * time.Second

// A test fails on a slow machine, though nothing is broken, if something in it has a life or
// a bound of seconds. So lives are long or end by a clock that the test moves, waits end with
// the test's own deadline (package await), and what has to be cancelled is made to wait first.
// Exceptions have a reason beside them: "pace:" where nothing depends on the length, "short:"
// where what is short has to end, however late. A file all of whose tests are in a bubble of
// package synctest, or on a clock that they move, says so in a comment that begins with "Fake
// time:". CONTRIBUTING.md explains them.
func TestNoTestDependsOnTheMachine(t *testing.T) {
	t.Chdir("../..")
	paces, shorts := 0, 0
	for _, path := range testFiles(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "// Fake time:") {
			continue
		}
		if slices.Contains(realTime, path) {
			if !strings.Contains(string(text), "// Real time:") {
				t.Errorf("%s: say in a comment that begins with \"Real time:\" why this file needs it", path)
			}
			continue
		}
		found, reasons, err := look(path, text)
		if err != nil {
			t.Fatal(err)
		}
		paces, shorts = paces+reasons["pace:"], shorts+reasons["short:"]
		for _, f := range found {
			t.Error(f)
		}
	}
	t.Logf("%d files need real time; %d paces, %d short limits", len(realTime), paces, shorts)
	if paces == 0 || shorts == 0 {
		t.Error("no reason was found, so that the files were not read")
	}
}

// The check finds each of its kinds.
func TestFindsShortTimes(t *testing.T) {
	const head = "package p\nimport (\"context\"; \"time\"; \"repo\")\n"
	for text, want := range map[string]int{
		`func f() { time.Sleep(time.Millisecond) }`:                                            1,
		`func f(d time.Duration) { time.Sleep(d) }`:                                            1,
		`func f() { time.Sleep(time.Millisecond) } // pace: nothing depends on it`:             0,
		"func f() {\n// short: it fires\n<-time.After(5 * time.Second) }":                      0,
		`const d = 9 * time.Second; func f() { <-time.After(d) }`:                              1,
		`func f() { context.WithTimeout(nil, 2 * 4 * time.Second) }`:                           1,
		`func f() { context.WithTimeout(nil, time.Minute) }`:                                   0,
		`func f() { context.WithDeadline(nil, time.Now().Add(time.Second)) }`:                  1,
		`func f() { context.WithDeadline(nil, time.Now().Add(-time.Second)) }`:                 0,
		`var l = repo.NewLease{TTL: repo.MinLeaseTTL}`:                                         1,
		`var l = repo.NewLease{TTL: time.Hour}`:                                                0,
		`func f(l repo.NewLease) { l.TTL = time.Second }`:                                      1,
		`var o = repo.Options{LockTimeout: 50 * time.Millisecond}`:                             1,
		"const sql = `SET statement_timeout = '100ms'`":                                        1,
		"const sql = `SET statement_timeout = 0`":                                              0,
		"const sql = `SET lock_timeout = '1min'`":                                              0,
		"const sql = `SHOW lock_timeout`":                                                      0,
		`func f(b time.Time) { if time.Since(b) > time.Second { panic(0) } }`:                  1,
		`func f(b time.Time) { took := time.Since(b); if took > time.Second { panic(0) } }`:    1,
		`func f(b time.Time) { if time.Now().After(b.Add(time.Second)) { panic(0) } }`:         1,
		`func f() { for end := time.Now().Add(time.Second); time.Now().Before(end); { } }`:     1,
		`func f() { for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); { } }`: 0,
		`func f() { context.WithTimeout(nil, pgtest.Choose(time.Minute, time.Second)) }`:       1,
		`func f(t T) { at := time.Now().Add(time.Second); _ = at }`:                            0,
		`func f(t T) { context.WithDeadline(nil, await.End(t)) }`:                              0,
		`func f(at time.Time) { context.WithDeadline(nil, at) }`:                               1,
	} {
		found, _, err := look("p_test.go", []byte(head+text))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != want {
			t.Errorf("%s: found %d, want %d: %v", text, len(found), want, found)
		}
	}
}

// testFiles returns the files that have tests, and what only tests import.
func testFiles(t *testing.T) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			switch path {
			case "tests/bench", "tests/cmd", "bin": // benchmarks measure, commands are not tests
				return fs.SkipDir
			}
			if path != "." && strings.HasPrefix(entry.Name(), ".") {
				return fs.SkipDir
			}
		case strings.HasPrefix(entry.Name(), "example_"): // which shows a user's code
		case strings.HasSuffix(path, "_test.go"), strings.HasSuffix(path, ".go") && onlyForTests(path):
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func onlyForTests(path string) bool {
	return slices.ContainsFunc([]string{"repo/repotest/", "window/windowtest/", "effect/effecttest/", "budget/budgettest/", "files/filestest/", "approval/approvaltest/", "tests/", "internal/await/"}, func(dir string) bool {
		return strings.HasPrefix(path, dir)
	})
}

// look returns what is short in a file without a reason, and how many reasons it gives.
func look(path string, text []byte) (found []string, reasons map[string]int, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	l := looker{
		set: set, path: path, constants: map[string]ast.Expr{}, elapsed: map[string]bool{}, ends: map[string]ast.Expr{},
		excused: map[int]bool{}, reasons: map[string]int{}, seen: map[string]bool{},
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			for _, kind := range []string{"pace:", "short:"} {
				if strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(comment.Text, "//")), kind) {
					// A comment of several lines counts for the line after its last one.
					l.excused[set.Position(comment.Pos()).Line], l.excused[set.Position(group.End()).Line+1] = true, true
					l.reasons[kind]++
				}
			}
		}
	}
	if err := learnPackage(filepath.Dir(path)); err != nil {
		return nil, nil, err
	}
	maps.Copy(l.constants, packages[filepath.Dir(path)])
	ast.Inspect(file, l.learn)
	ast.Inspect(file, l.visit)
	return l.found, l.reasons, nil
}

type looker struct {
	set       *token.FileSet
	path      string
	constants map[string]ast.Expr
	// elapsed has the variables that are the result of time.Since, and ends those that are a
	// time after now.
	elapsed map[string]bool
	ends    map[string]ast.Expr
	excused map[int]bool
	reasons map[string]int
	seen    map[string]bool
	found   []string
}

func (l *looker) report(at ast.Node, format string, arguments ...any) {
	line := l.set.Position(at.Pos()).Line
	what := fmt.Sprintf("%s:%d: "+format, append([]any{l.path, line}, arguments...)...)
	if !l.excused[line] && !l.seen[what] {
		l.found = append(l.found, what)
		l.seen[what] = true
	}
}

// packages has the constants of the directories that were read.
var packages = map[string]map[string]ast.Expr{}

// learnPackage notes the constants of a directory.
func learnPackage(dir string) error {
	if packages[dir] != nil {
		return nil
	}
	all := looker{constants: map[string]ast.Expr{}, elapsed: map[string]bool{}, ends: map[string]ast.Expr{}}
	packages[dir] = all.constants
	beside, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, path := range beside {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			all.learn(declaration)
		}
	}
	return nil
}

// learn notes constants, and variables that hold times.
func (l *looker) learn(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.GenDecl:
		if n.Tok != token.CONST {
			break
		}
		for _, spec := range n.Specs {
			value := spec.(*ast.ValueSpec)
			for i, name := range value.Names {
				if i < len(value.Values) {
					l.constants[name.Name] = value.Values[i]
				}
			}
		}
	case *ast.AssignStmt:
		if len(n.Lhs) != len(n.Rhs) {
			break
		}
		for i, left := range n.Lhs {
			if name, ok := left.(*ast.Ident); ok {
				if call, ok := n.Rhs[i].(*ast.CallExpr); ok && nameOf(call.Fun) == "time.Since" {
					l.elapsed[name.Name] = true
				}
				if d := afterNow(n.Rhs[i]); d != nil {
					l.ends[name.Name] = d
				}
			}
		}
	}
	return true
}

func (l *looker) visit(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.CallExpr:
		l.call(n)
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok {
			l.life(n, key.Name, n.Value)
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if field, ok := left.(*ast.SelectorExpr); ok && len(n.Lhs) == len(n.Rhs) && n.Tok == token.ASSIGN {
				l.life(n, field.Sel.Name, n.Rhs[i])
			}
		}
	case *ast.BinaryExpr:
		if n.Op == token.LSS || n.Op == token.GTR || n.Op == token.LEQ || n.Op == token.GEQ {
			l.compare(n)
		}
	case *ast.BasicLit:
		if n.Kind == token.STRING {
			for _, limit := range limitsOf(n.Value) {
				l.report(n, "%s in a statement", limit)
			}
		}
	}
	return true
}

// life looks at a field that says how long something lives or may wait.
func (l *looker) life(at ast.Node, field string, value ast.Expr) {
	if field != "TTL" && field != "StatementTimeout" && field != "LockTimeout" {
		return
	}
	if d, known := l.duration(value); known && d > 0 && d < enough {
		l.report(at, "%s of %v", field, d)
	}
}

func (l *looker) call(n *ast.CallExpr) {
	name := nameOf(n.Fun)
	switch name {
	case "context.WithTimeout", "context.WithTimeoutCause":
		l.bound(n, name, n.Args[1])
	case "context.WithDeadline", "context.WithDeadlineCause":
		if d := l.fromNow(n.Args[1]); d != nil {
			l.bound(n, name, d)
		} else if !calls(n.Args[1], "await.End") {
			l.report(n, "%s that cannot be computed", name)
		}
	case "time.After", "time.AfterFunc", "time.NewTimer", "time.Sleep", "time.Tick", "time.NewTicker":
		l.bound(n, name, n.Args[0])
	}
	// now.After(end), now.Before(end)
	if method, ok := n.Fun.(*ast.SelectorExpr); ok && (method.Sel.Name == "After" || method.Sel.Name == "Before") && calls(method.X, "time.Now") && len(n.Args) == 1 {
		if d := l.fromNow(n.Args[0]); d != nil {
			l.bound(n, "an end", d)
		} else if end, ok := n.Args[0].(*ast.CallExpr); ok && strings.HasSuffix(nameOf(end.Fun), ".Add") {
			l.bound(n, "an end", end.Args[0])
		}
	}
}

// bound reports a duration that is short or unknown. One that is over is no bound.
func (l *looker) bound(at ast.Node, what string, value ast.Expr) {
	switch d, known := l.duration(value); {
	case !known:
		l.report(at, "%s with a time that cannot be computed", what)
	case d > 0 && d < enough:
		l.report(at, "%s with %v", what, d)
	}
}

// compare looks at a comparison with the time that something took.
func (l *looker) compare(n *ast.BinaryExpr) {
	for _, sides := range [][2]ast.Expr{{n.X, n.Y}, {n.Y, n.X}} {
		name, isName := sides[0].(*ast.Ident)
		if !calls(sides[0], "time.Since") && (!isName || !l.elapsed[name.Name]) {
			continue
		}
		if d, known := l.duration(sides[1]); !known || d > 0 && d < enough {
			l.report(n, "a comparison with the time that something took")
		}
	}
}

// fromNow returns by how much a time is after now.
func (l *looker) fromNow(at ast.Expr) ast.Expr {
	if name, ok := at.(*ast.Ident); ok {
		return l.ends[name.Name]
	}
	return afterNow(at)
}

// afterNow returns d of time.Now().Add(d).
func afterNow(at ast.Expr) ast.Expr {
	add, ok := at.(*ast.CallExpr)
	if !ok || len(add.Args) != 1 {
		return nil
	}
	if method, ok := add.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Add" && calls(method.X, "time.Now") {
		return add.Args[0]
	}
	return nil
}

func calls(expression ast.Expr, name string) (found bool) {
	ast.Inspect(expression, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok && nameOf(call.Fun) == name {
			found = true
		}
		return !found
	})
	return found
}

func nameOf(function ast.Expr) string {
	switch f := function.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if pkg, ok := f.X.(*ast.Ident); ok {
			return pkg.Name + "." + f.Sel.Name
		}
		return "." + f.Sel.Name
	}
	return ""
}
