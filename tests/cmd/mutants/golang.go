package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/scanner"
	gotoken "go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// tree is the unchanged source. It parses a package once.
type tree struct {
	root     string
	packages map[string][]*goFile
}

func newTree(root string) *tree { return &tree{root, map[string][]*goFile{}} }

type goFile struct {
	path, text string
	set        *gotoken.FileSet
	file       *ast.File
	tokens     []token
}

// goScope is a function.
type goScope struct {
	*goFile
	node *ast.FuncDecl
}

// in changes a function of a package: its name, or its type's, a dot, and its name.
func in(pkg, name string, k kind) change {
	return change{
		place: pkg + " " + name, what: k.String(), about: k.about,
		find: func(t *tree) (edited, error) {
			s, err := t.scope(pkg, name)
			if err != nil {
				return edited{}, err
			}
			if k.inGo == nil {
				return edited{}, errNotHere
			}
			edits, err := choose(s.text, s.tokens, k.about, k.inGo(s))
			if err != nil {
				return edited{}, err
			}
			function, err := s.function()
			return edited{s.path, s.text, edits, function}, err
		},
	}
}

func (t *tree) scope(pkg, name string) (*goScope, error) {
	files, err := t.parse(pkg)
	if err != nil {
		return nil, err
	}
	var found []*goScope
	var names []string // that have a part of it
	wanted := strings.Split(name, ".")
	for _, f := range files {
		for _, d := range f.file.Decls {
			d, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			declared := declaredName(d)
			if declared == name {
				found = append(found, &goScope{f, d})
			}
			if slices.ContainsFunc(strings.Split(declared, "."), func(part string) bool { return slices.Contains(wanted, part) }) {
				names = append(names, declared)
			}
		}
	}
	switch len(found) {
	case 0:
		slices.Sort(names)
		return nil, fmt.Errorf("the package has no such function. It has: %s", strings.Join(names, ", "))
	case 1:
		return found[0], nil
	}
	return nil, errors.New("the package has several of this name")
}

func declaredName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	return receiver(d.Recv.List[0].Type) + "." + d.Name.Name
}

// function returns the parts of the function. It fails if a parameter has no name.
func (s *goScope) function() (*goFunction, error) {
	f := &goFunction{
		pkg: s.file.Name.Name, whole: s.of(s.node), name: s.of(s.node.Name), body: s.offset(s.node.Body.Lbrace) + 1,
		callee: s.node.Name.Name, results: s.node.Type.Results != nil,
	}
	names := func(fields *ast.FieldList) (names []string, err error) {
		for _, field := range fields.List {
			for _, name := range field.Names {
				names = append(names, name.Name)
			}
			if len(field.Names) == 0 || slices.Contains(names, "_") {
				return nil, errors.New("its receiver or a parameter has no name")
			}
		}
		return names, nil
	}
	arguments, err := names(s.node.Type.Params)
	if err == nil && s.node.Recv != nil {
		var receiver []string
		if receiver, err = names(s.node.Recv); err == nil {
			f.callee = receiver[0] + "." + f.callee
		}
	}
	f.arguments = strings.Join(arguments, ", ")
	if list := s.node.Type.Params.List; len(list) > 0 {
		if _, variadic := list[len(list)-1].Type.(*ast.Ellipsis); variadic {
			f.arguments += "..."
		}
	}
	return f, err
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// parse returns the files of a package that this system builds, without tests.
func (t *tree) parse(pkg string) ([]*goFile, error) {
	if files, known := t.packages[pkg]; known {
		return files, nil
	}
	dir := filepath.Join(t.root, filepath.FromSlash(pkg))
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []*goFile
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if built, err := build.Default.MatchFile(dir, name); err != nil || !built {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		f, err := parseGo(path.Join(pkg, name), string(text))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	t.packages[pkg] = files
	return files, nil
}

func parseGo(name, text string) (*goFile, error) {
	f := &goFile{path: name, text: text, set: gotoken.NewFileSet()}
	var err error
	if f.file, err = parser.ParseFile(f.set, name, text, parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	var s scanner.Scanner
	at := gotoken.NewFileSet()
	in := at.AddFile(name, -1, len(text))
	s.Init(in, []byte(text), nil, 0)
	for {
		pos, kind, literal := s.Scan()
		if kind == gotoken.EOF {
			return f, nil
		}
		if literal == "" || kind.IsOperator() {
			literal = kind.String()
		}
		from := in.Offset(pos)
		f.tokens = append(f.tokens, token{span{from, from + len(literal)}, literal})
	}
}

func (s *goScope) offset(p gotoken.Pos) int { return s.set.Position(p).Offset }

func (s *goScope) of(n ast.Node) span { return span{s.offset(n.Pos()), s.offset(n.End())} }

// around is a candidate that is written between two texts.
func around(what span, before, after string) candidate {
	return candidate{what, what, []edit{{what.from, what.from, before}, {what.to, what.to, after}}}
}

// condition is one that may be made constant. What is before it in its statement counts as
// mentioned: err, in if err := f(); err != nil, is what f returned.
type condition struct {
	ast.Expr
	names span
}

// An operand that is made constant remains, so that what it uses is still used.
func (s *goScope) alwaysTrue() []candidate { return wrapped(s, s.operands(), "(true || (", "))") }

func (s *goScope) alwaysFalse() []candidate { return wrapped(s, s.operands(), "(false && (", "))") }

func (s *goScope) allFalse() []candidate { return wrapped(s, s.conditions(), "(false && (", "))") }

func wrapped(s *goScope, conditions []condition, before, after string) []candidate {
	all := make([]candidate, len(conditions))
	for i, c := range conditions {
		all[i] = around(s.of(c.Expr), before, after)
		all[i].names = c.names
	}
	return all
}

// conditions are those of if, for, and case without a value that is compared.
func (s *goScope) conditions() (all []condition) {
	ast.Inspect(s.node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			all = append(all, condition{n.Cond, span{s.offset(n.If), s.of(n.Cond).to}})
		case *ast.ForStmt:
			if n.Cond != nil {
				all = append(all, condition{n.Cond, s.of(n.Cond)})
			}
		case *ast.SwitchStmt:
			if n.Tag != nil {
				break
			}
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					all = append(all, condition{e, s.of(e)})
				}
			}
		}
		return true
	})
	return all
}

// operands are conditions, and what is beside && and ||.
func (s *goScope) operands() []condition {
	all := s.conditions()
	ast.Inspect(s.node, func(n ast.Node) bool {
		if b, ok := n.(*ast.BinaryExpr); ok && (b.Op == gotoken.LAND || b.Op == gotoken.LOR) {
			for _, operand := range []ast.Expr{b.X, b.Y} {
				if inner, ok := operand.(*ast.BinaryExpr); !ok || inner.Op != b.Op {
					all = append(all, condition{operand, s.of(operand)})
				}
			}
		}
		return true
	})
	return all
}

func (s *goScope) comparisons(to map[string]string) (all []candidate) {
	ast.Inspect(s.node, func(n ast.Node) bool {
		if b, ok := n.(*ast.BinaryExpr); ok && to[b.Op.String()] != "" {
			at, op := s.offset(b.OpPos), b.Op.String()
			all = append(all, candidate{s.of(b), s.of(b), []edit{{at, at + len(op), to[op]}}})
		}
		return true
	})
	return all
}

// A statement that is dropped becomes a function without callers, so that what it uses is
// still used.
func (s *goScope) dropped(n ast.Node) candidate { return around(s.of(n), "_ = func() { ", " }") }

func (s *goScope) calls() (all []candidate) {
	ast.Inspect(s.node, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.ExprStmt, *ast.GoStmt, *ast.SendStmt:
			all = append(all, s.dropped(n))
		}
		return true
	})
	return all
}

func (s *goScope) defers() (all []candidate) {
	ast.Inspect(s.node, func(n ast.Node) bool {
		if d, ok := n.(*ast.DeferStmt); ok {
			all = append(all, s.dropped(d))
		}
		return true
	})
	return all
}

func (s *goScope) unlocked(mutex string) []candidate {
	whole := candidate{span: s.of(s.node)}
	for _, c := range append(s.calls(), s.defers()...) {
		call := strings.TrimPrefix(s.text[c.from:c.to], "defer ")
		if slices.Contains([]string{".Lock()", ".Unlock()", ".RLock()", ".RUnlock()"}, strings.TrimPrefix(call, mutex)) {
			whole.edits = append(whole.edits, c.edits...)
		}
	}
	if len(whole.edits) == 0 {
		return nil
	}
	slices.SortFunc(whole.edits, func(a, b edit) int { return a.from - b.from })
	return []candidate{whole}
}

func (s *goScope) assignments() (all []candidate) {
	ast.Inspect(s.node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != gotoken.DEFINE {
				all = append(all, s.dropped(n))
			}
		case *ast.IncDecStmt:
			all = append(all, s.dropped(n))
		}
		return true
	})
	return all
}

func (s *goScope) cases() (all []candidate) {
	list := func(body *ast.BlockStmt) {
		for _, clause := range body.List {
			names := s.of(clause)
			switch c := clause.(type) {
			case *ast.CommClause:
				names.to = s.offset(c.Colon)
			case *ast.CaseClause:
				names.to = s.offset(c.Colon)
				if len(c.List) > 1 {
					for i, e := range c.List {
						gap := span{s.of(c.List[max(0, i-1)]).to, s.of(e).to}
						if i == 0 {
							gap = span{s.of(e).from, s.of(c.List[1]).from}
						}
						all = append(all, candidate{s.of(e), s.of(e), []edit{{gap.from, gap.to, ""}}})
					}
					continue
				}
			}
			all = append(all, candidate{s.of(clause), names, []edit{{s.of(clause).from, s.of(clause).to, ""}}})
		}
	}
	ast.Inspect(s.node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SwitchStmt:
			list(n.Body)
		case *ast.SelectStmt:
			list(n.Body)
		}
		return true
	})
	return all
}

func (s *goScope) fields() (all []candidate) {
	ast.Inspect(s.node, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		for i, e := range literal.Elts {
			field, ok := e.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			gap := s.of(field)
			if i+1 < len(literal.Elts) {
				gap.to = s.of(literal.Elts[i+1]).from
			} else if i > 0 {
				gap.from = s.of(literal.Elts[i-1]).to
			}
			all = append(all, candidate{s.of(field), s.of(field.Key), []edit{{gap.from, gap.to, ""}}})
		}
		return true
	})
	return all
}

func (s *goScope) returned(instead string) (all []candidate) {
	ast.Inspect(s.node, func(n ast.Node) bool {
		r, ok := n.(*ast.ReturnStmt)
		if !ok {
			return true
		}
		for _, result := range r.Results {
			was := s.of(result)
			uses := ""
			if text := s.text[was.from:was.to]; text != "nil" {
				uses = "_ = func() { _ = " + text + " }; "
			}
			all = append(all, candidate{was, was, []edit{{s.of(r).from, s.of(r).from, uses}, {was.from, was.to, instead}}})
		}
		return true
	})
	return all
}

// uses are those of a name, in the innermost statements, or heads of statements, around them.
func (s *goScope) uses(name, by string) (all []candidate) {
	var heads []span
	selected := map[ast.Node]bool{} // the name after a dot
	ast.Inspect(s.node, func(n ast.Node) bool {
		if n == nil {
			heads = heads[:len(heads)-1]
			return true
		}
		head := s.of(s.node)
		if len(heads) > 0 {
			head = heads[len(heads)-1]
		}
		if within := s.of(n); isStatement(n) {
			head = within
			if body := bodyOf(n); body.IsValid() {
				head.to = s.offset(body)
			}
		}
		heads = append(heads, head)
		if selector, ok := n.(*ast.SelectorExpr); ok {
			selected[selector.Sel] = true
		}
		switch n.(type) {
		case *ast.Ident, *ast.SelectorExpr:
			if at := s.of(n); s.text[at.from:at.to] == name && !selected[n] {
				all = append(all, candidate{at, head, []edit{{at.from, at.to, by}}})
			}
		}
		return true
	})
	return all
}

func isStatement(n ast.Node) bool {
	_, statement := n.(ast.Stmt)
	_, block := n.(*ast.BlockStmt)
	return statement && !block
}

// bodyOf returns where the head of a statement ends, if it has one.
func bodyOf(n ast.Node) gotoken.Pos {
	switch n := n.(type) {
	case *ast.IfStmt:
		return n.Body.Pos()
	case *ast.ForStmt:
		return n.Body.Pos()
	case *ast.RangeStmt:
		return n.Body.Pos()
	case *ast.SwitchStmt:
		return n.Body.Pos()
	case *ast.CaseClause:
		return n.Colon
	case *ast.CommClause:
		return n.Colon
	}
	return gotoken.NoPos
}
