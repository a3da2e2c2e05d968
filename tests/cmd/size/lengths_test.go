package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// The bounds of what is read at once, and of what is on no package on top: the core is the root, repo, internal, schema and observe.
const (
	maxFunction  = 60 // lines, from func to the closing brace
	maxStatement = 90 // lines of SQL, without comments
	maxQueries   = 2_726
	maxCore      = 27_700
	maxInterface = 9   // methods of its own
	maxColumns   = 120 // of SQL; the linter looks at Go
)

// onTop are the bounds of the packages on top, each with those below it. One that has become shorter gets a lower bound.
var onTop = map[string]int{
	"audit": 3350, "inspect": 1645, "approval": 894, "live": 1170, "window": 1150, "files": 1350, "effect": 625, "budget": 555, "clock": 56, "directory": 763, "share": 230, "erase": 490, "usage": 300, "otelagentstore": 480, "retention": 380,
}

// Functions, statements, the core and the packages on top stay short.
func TestLengths(t *testing.T) {
	t.Chdir("../../..")
	files, err := tracked(t.Context(), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	core, top := 0, map[string]int{}
	for _, name := range files {
		if partOf(name) != "" || strings.HasPrefix(name, "db/") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := goLines(name, text)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(name, "/")
		if first == name || strings.Contains(" repo internal schema observe ", " "+first+" ") {
			core += lines
		}
		top[first] += lines
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if general, is := d.(*ast.GenDecl); is && path.Dir(name) == "repo" {
				checkInterfaces(t, general)
			}
			if f, is := d.(*ast.FuncDecl); is {
				if lines := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; lines > maxFunction {
					t.Errorf("%s: %s has %d lines; the bound is %d", name, f.Name.Name, lines, maxFunction)
				}
			}
		}
	}
	if core == 0 || core > maxCore {
		t.Errorf("the core has %d lines; the bound is %d", core, maxCore)
	}
	for of, bound := range onTop {
		if top[of] == 0 || top[of] > bound {
			t.Errorf("%s has %d lines; the bound is %d", of, top[of], bound)
		}
		t.Logf("%s %d", of, top[of])
	}
	queries, err := filepath.Glob("queries/*.sql")
	if err != nil || len(queries) == 0 {
		t.Fatal(queries, err)
	}
	all := 0
	for _, file := range queries {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range regexp.MustCompile(`(?m)^-- name: `).Split(string(text), -1)[1:] {
			name, body, _ := strings.Cut(statement, "\n")
			lines := 0
			for line := range strings.Lines(body) {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
					lines++
				}
			}
			if all += lines; lines > maxStatement {
				t.Errorf("%s: %s has %d lines; the bound is %d", file, name, lines, maxStatement)
			}
		}
	}
	if all > maxQueries {
		t.Errorf("the queries have %d lines; the bound is %d", all, maxQueries)
	}
	t.Logf("core %d, queries %d", core, all)
}

func checkInterfaces(t *testing.T, declared *ast.GenDecl) {
	for _, spec := range declared.Specs {
		of, is := spec.(*ast.TypeSpec)
		if !is {
			continue
		}
		face, is := of.Type.(*ast.InterfaceType)
		if !is {
			continue
		}
		own := 0
		for _, method := range face.Methods.List {
			own += len(method.Names)
		}
		if own > maxInterface {
			t.Errorf("%s has %d methods of its own; the bound is %d", of.Name.Name, own, maxInterface)
		}
	}
}

// What a change costs stays: a field of a message and a method have no more places than those that are there.
func TestCosts(t *testing.T) {
	t.Chdir("../../..")
	rows, err := countCosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		count, err := strconv.Atoi(r.count)
		if err != nil || count == 0 || count > costs[i].bound {
			t.Errorf("%s %s %s (%v); the bound is %d", r.count, r.unit, r.name, err, costs[i].bound)
		}
	}
}

// Lines of SQL end where a reader's screen does.
func TestColumnsOfSQL(t *testing.T) {
	t.Chdir("../../..")
	files, err := tracked(t.Context(), "*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for line := range strings.Lines(string(text)) {
			at++
			if columns := utf8.RuneCountInString(strings.TrimRight(line, "\n")); columns > maxColumns {
				t.Errorf("%s:%d has %d columns; the bound is %d", name, at, columns, maxColumns)
			}
		}
	}
}
