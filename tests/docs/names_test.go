package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// packages are those whose names documents may use.
var packages = []string{
	".", "approval", "audit", "budget", "directory", "effect", "erase", "files", "files/filespg", "inspect", "live", "observe", "otelagentstore",
	"repo", "repo/adapter", "repo/memory", "repo/postgres", "audit/auditlog", "retention", "schema", "share", "usage", "window", "adapters/a2a", "adapters/adk", "adapters/mcp",
}

var (
	// chain is a name behind a package, a type, or a method that returns an aggregate: `repo.Work`, `Turn.ID`, `Sessions().Find`.
	chain = regexp.MustCompile("`([A-Za-z0-9]+(?:\\(\\))?(?:\\.[A-Z][A-Za-z]*)+)(?:\\(.*?\\))?`")
	// firstOf is the first cell of a row, and inTicks a name without a package in it. Where one is a method, all are.
	firstOf  = regexp.MustCompile(`(?m)^\|([^|]*)\|`)
	inTicks  = regexp.MustCompile("`([A-Z]\\w*)`")
	commands = regexp.MustCompile("`agentstore [^`]*`|(?m)^agentstore .*$")
	option   = regexp.MustCompile("(?:^|[ `\\[])--([a-z][a-z-]*)")
	heading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notSlug  = regexp.MustCompile(`[^\pL\d _-]`)
)

// documents returns the path of each Markdown file.
func documents(t *testing.T) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) < 30 {
		t.Fatalf("%d documents, %v", len(paths), err)
	}
	return paths
}

// TestNamesExist checks the names of Go's in the code font of all documents.
func TestNamesExist(t *testing.T) {
	t.Parallel()
	known := knownNames(t)
	checked := 0
	for _, path := range documents(t) {
		for _, name := range goneNames(known, read(t, path), &checked) {
			t.Errorf("%s names %s, which does not exist", path, name)
		}
	}
	if checked < 250 {
		t.Errorf("only %d names were checked", checked)
	}
}

// TestGoneNamesAreFound checks that names which do not exist are found.
func TestGoneNamesAreFound(t *testing.T) {
	t.Parallel()
	checked := 0
	text := "`repo.Gone` `Sessions().Gone` `Gone().Append` `Turn.Gone` `store.Gone` `repo.Work` `Sessions().Append` `Turn.ID` `store.In` " +
		"`Turn.Use.Name` `errors.Join` `mcp.EventStore` `window.Options.Gone`\n\n| call | reads |\n|---|---|\n| `Read`, `Stream` | all |\n"
	want := "repo.Gone Sessions.Gone Gone.Append Turn.Gone store.Gone window.Options.Gone Stream"
	if got := strings.Join(goneNames(knownNames(t), text, &checked), " "); got != want {
		t.Errorf("gone: %s, want %s", got, want)
	}
}

// goneNames returns the names in a text that no package has. A name without a package is of any; store is a Store. Names of
// other modules' packages and types are not looked at.
func goneNames(known map[string]bool, text string, checked *int) []string {
	var gone []string
	check := func(name string, places ...string) {
		*checked++
		for _, place := range places {
			if known[place] {
				return
			}
		}
		gone = append(gone, name)
	}
	for _, match := range chain.FindAllStringSubmatch(text, -1) {
		name := strings.ReplaceAll(match[1], "()", "")
		first, rest, _ := strings.Cut(name, ".")
		second, _, _ := strings.Cut(rest, ".")
		switch called := strings.HasPrefix(match[1], first+"()"); {
		case first == "store":
			check(name, "Store."+second, "Repositories."+second)
		case first == "AuditLog": // of which the type is auditlog.Log
			check(name, "Log."+second)
		case known["package "+first]:
			check(name, name, first+"."+second+" embeds")
		case called || known[first] && token.IsExported(first):
			check(name, first+"."+second, first+" embeds")
		}
	}
	for _, cell := range firstOf.FindAllStringSubmatch(text, -1) {
		names := inTicks.FindAllStringSubmatch(cell[1], -1)
		places := func(name string) (of []string) {
			for _, repository := range []string{"Sessions", "State", "Streams", "Plans", "Leases", "Actions"} {
				of = append(of, repository+"."+name)
			}
			return of
		}
		isMethod := func(name []string) bool {
			return slices.ContainsFunc(places(name[1]), func(place string) bool { return known[place] })
		}
		for _, name := range names {
			if slices.ContainsFunc(names, isMethod) {
				check(name[1], places(name[1])...)
			}
		}
	}
	return gone
}

// knownNames returns the names of all packages: "package p", "p.Name", "p.Type.Method", "Type", "Type.Method". A type
// that embeds others, for which "Type embeds" is there, may have any name.
func knownNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, folder := range packages {
		exported(t, folder, names)
	}
	for name := range maps.Clone(names) {
		pkg, rest, _ := strings.Cut(name, ".")
		names["package "+pkg], names[rest] = true, true
	}
	return names
}

// TestFlagsExist checks the flags of the command agentstore in all documents.
func TestFlagsExist(t *testing.T) {
	t.Parallel()
	known := map[string]bool{"help": true, "version": true}
	sources, err := filepath.Glob(filepath.Join(root, "cmd/agentstore/internal/*/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range sources {
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			if literal, is := node.(*ast.BasicLit); is && literal.Kind == token.STRING {
				if value, err := strconv.Unquote(literal.Value); err == nil {
					known[value] = true
				}
			}
			return true
		})
	}
	checked := 0
	for _, path := range documents(t) {
		text := read(t, path)
		lines := commands.FindAllString(text, -1)
		if filepath.Base(path) == "command.md" {
			lines = []string{text}
		}
		for _, line := range lines {
			for _, match := range option.FindAllStringSubmatch(line, -1) {
				if checked++; !known[match[1]] {
					t.Errorf("%s: %s has a flag that the command does not have: --%s", path, line, match[1])
				}
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d flags were checked", checked)
	}
}

// TestAnchorsExist checks that a link to a heading leads to one.
func TestAnchorsExist(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, path := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(block.ReplaceAllString(read(t, path), ""), -1) {
			target, anchor, has := strings.Cut(match[1], "#")
			if !has || strings.Contains(target, "://") || target != "" && filepath.Ext(target) != ".md" {
				continue
			}
			of := path
			if target != "" {
				of = filepath.Join(filepath.Dir(path), target)
			}
			if checked++; exists(of) && !anchors(read(t, of))[anchor] {
				t.Errorf("%s links to %s, which has no heading %s", path, of, anchor)
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d anchors were checked", checked)
	}
}

// anchors returns what the headings of a page are called in links.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
		found[strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")] = true
	}
	return found
}
