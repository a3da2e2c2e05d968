// Package access asks every function that takes a request, a filter, an id or a name what it does for those of others.
package access

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// functions returns the exported functions and methods of a package's folder that take more than a context, as "package.Function" and
// "package.Type.Method"; also those of types that are not exported, if all are wanted: they stand behind an interface of a framework.
func functions(folder string, all bool) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, 0)
		if err != nil {
			return nil, err
		}
		for _, declared := range parsed.Decls {
			f, is := declared.(*ast.FuncDecl)
			if !is || !f.Name.IsExported() || !takesMore(f.Type.Params.List) || f.Recv != nil && f.Name.Name == "Is" { // of errors
				continue
			}
			name := parsed.Name.Name + "."
			if f.Recv != nil {
				of := strings.TrimLeft(string(source[f.Recv.List[0].Type.Pos()-1:f.Recv.List[0].Type.End()-1]), "*")
				if of, _, _ = strings.Cut(of, "["); !all && !ast.IsExported(of) {
					continue
				}
				name += of + "."
			}
			names = append(names, name+f.Name.Name)
		}
	}
	return names, err
}

func takesMore(parameters []*ast.Field) bool {
	for _, p := range parameters {
		if of, is := p.Type.(*ast.SelectorExpr); !is || of.Sel.Name != "Context" {
			return true
		}
	}
	return false
}
