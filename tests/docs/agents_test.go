package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// call is a name of Go's in backticks: of a package, of a type, or what a method returns.
var call = regexp.MustCompile("`([A-Za-z]+(?:\\(\\))?(?:\\.[A-Za-z]+)+)`")

// TestAgents checks that what AGENTS.md names exists, and that it has what it says. TestShort counts its words.
func TestAgents(t *testing.T) {
	t.Parallel()
	text := read(t, filepath.Join(root, "AGENTS.md"))
	checked := 0
	for _, name := range unknownCalls(t, text, &checked) {
		t.Errorf("AGENTS.md names %s, which does not exist", name)
	}
	if checked < 25 {
		t.Errorf("only %d names were checked", checked)
	}
	_, text, _ = strings.Cut(text, "\n## Twelve concepts\n")
	concepts, text, _ := strings.Cut(text, "\n## Ten calls\n")
	calls, _, _ := strings.Cut(text, "\n## ")
	if got := strings.Count(concepts, "\n- **"); got != 12 {
		t.Errorf("%d concepts", got)
	}
	if got := len(regexp.MustCompile(`(?m)^\d+\. `).FindAllString(calls, -1)); got != 10 {
		t.Errorf("%d calls", got)
	}
}

// TestUnknownCallsAreFound checks that names which do not exist are found.
func TestUnknownCallsAreFound(t *testing.T) {
	t.Parallel()
	checked := 0
	text := "`repo.Gone` `Sessions().Gone` `Gone().Append` `Turn.Gone` `store.Gone` `repo.Work` `Sessions().Append` `Turn.ID` `store.In` `store.InTx`"
	if got := strings.Join(unknownCalls(t, text, &checked), " "); got != "repo.Gone Sessions.Gone Gone.Append Turn.Gone store.Gone" {
		t.Errorf("unknown: %s", got)
	}
}

// unknownCalls returns the names in a text that no package has. A name without a package is of repo, where
// a method that returns an aggregate is named like its type; store is a Store.
func unknownCalls(t *testing.T, text string, checked *int) []string {
	t.Helper()
	known := map[string]bool{}
	for _, folder := range []string{".", "repo", "live", "window", "effect"} {
		exported(t, folder, known)
	}
	var unknown []string
	for _, match := range call.FindAllStringSubmatch(text, -1) {
		name := strings.ReplaceAll(match[1], "()", "")
		first, rest, _ := strings.Cut(name, ".")
		places := []string{name, "repo." + name}
		switch first {
		case "errors":
			continue
		case "store":
			places = []string{"agentstore.Store." + rest, "repo.Store." + rest, "repo.Repositories." + rest}
		}
		*checked++
		found := false
		for _, place := range places {
			found = found || known[place]
		}
		if !found {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// exported adds the names of a package: its functions, types, variables, and the methods and fields of types.
func exported(t *testing.T, folder string, names map[string]bool) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{} // of interfaces
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		add := func(name ...string) { names[file.Name.Name+"."+strings.Join(name, ".")] = true }
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				if node.Recv == nil {
					add(node.Name.Name)
				} else {
					add(strings.TrimPrefix(types.ExprString(node.Recv.List[0].Type), "*"), node.Name.Name)
				}
				return false
			case *ast.ValueSpec:
				for _, name := range node.Names {
					add(name.Name)
				}
			case *ast.TypeSpec:
				add(node.Name.Name)
				if face, is := node.Type.(*ast.InterfaceType); is {
					for _, part := range face.Methods.List {
						if of, is := part.Type.(*ast.Ident); is {
							parts[of.Name] = node.Name.Name
						}
					}
				}
				ast.Inspect(node.Type, func(inside ast.Node) bool {
					if field, ok := inside.(*ast.Field); ok {
						for _, name := range field.Names {
							add(node.Name.Name, name.Name)
						}
					}
					return true
				})
			}
			return true
		})
	}
	for name := range maps.Clone(names) { // an interface has the methods of its parts
		pkg, rest, _ := strings.Cut(name, ".")
		part, method, _ := strings.Cut(rest, ".")
		if whole := parts[part]; whole != "" && method != "" {
			names[pkg+"."+whole+"."+method] = true
		}
	}
}
