package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAgents checks that AGENTS.md and the glossary have as much as they say. TestNamesExist checks their names, TestShort counts words.
func TestAgents(t *testing.T) {
	t.Parallel()
	concepts := read(t, filepath.Join(root, "docs/glossary.md"))
	calls, rules, _ := strings.Cut(read(t, filepath.Join(root, "AGENTS.md")), "\n## Ten rules\n")
	if got := strings.Count(concepts, "\n- **"); got != 12 || !strings.HasPrefix(concepts, "# Twelve ") {
		t.Errorf("%d concepts", got)
	}
	if got := len(regexp.MustCompile(`(?m)^\d+\. `).FindAllString(calls, -1)); got != 10 {
		t.Errorf("%d calls", got)
	}
	if got := strings.Count(rules, "\n- **"); got != 10 {
		t.Errorf("%d rules", got)
	}
}

// TestIndex checks that docs/index.md leads to each page.
func TestIndex(t *testing.T) {
	t.Parallel()
	index := read(t, filepath.Join(root, "docs/index.md"))
	for _, path := range documents(t) {
		if name := filepath.Base(path); filepath.Base(filepath.Dir(path)) == "docs" && name != "index.md" && !strings.Contains(index, "]("+name) {
			t.Errorf("docs/index.md does not lead to %s", name)
		}
	}
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
				structure, is := node.Type.(*ast.StructType)
				if node.Assign.IsValid() || is && slices.ContainsFunc(structure.Fields.List, func(f *ast.Field) bool { return len(f.Names) == 0 }) {
					add(node.Name.Name + " embeds")
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
