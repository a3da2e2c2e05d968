package docs

import (
	"bytes"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// program is a whole program that a document shows, and what it prints.
type program struct{ name, source, prints string }

var block = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// readmePrograms returns the programs of a Markdown text: each go block is one, and
// the text block that follows it is what it prints.
func readmePrograms(t *testing.T, markdown string) []program {
	t.Helper()
	var programs []program
	blocks := block.FindAllStringSubmatch(markdown, -1)
	for i, b := range blocks {
		if b[1] != "go" {
			continue
		}
		if i+1 == len(blocks) || blocks[i+1][1] != "text" {
			t.Fatalf("a program is not followed by what it prints:\n%s", b[2])
		}
		programs = append(programs, program{source: b[2], prints: blocks[i+1][2]})
	}
	return programs
}

// TestReadmeRuns runs each program of README.md as it stands there, with no other
// module than agentstore's own, on an empty database.
func TestReadmeRuns(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	programs := readmePrograms(t, string(readme))
	if len(programs) < 2 {
		t.Errorf("README.md has %d programs", len(programs))
	}
	databaseURL := pgtest.NewEmptyDatabase(t)
	for _, p := range programs {
		if got := run(t, p.source, databaseURL); got != p.prints {
			t.Errorf("it printed\n%s\nand README.md says\n%s\nof\n%s", got, p.prints, p.source)
		}
	}
}

// TestExamplesRun runs each example of the packages that go test does not run,
// because it has no Output: those that need PostgreSQL. What such a one prints
// stands in a comment at its end, behind "Prints:".
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	programs := examplePrograms(t)
	if len(programs) < 4 {
		t.Errorf("there are only %d examples for PostgreSQL", len(programs))
	}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			if got := strings.TrimSpace(run(t, p.source, pgtest.NewEmptyDatabase(t))); got != p.prints {
				t.Errorf("it printed\n%s\nand says\n%s", got, p.prints)
			}
		})
	}
}

// examplePrograms returns the examples without Output of all packages outside of
// tests/, each as the program that the documentation offers.
func examplePrograms(t *testing.T) []program {
	t.Helper()
	var programs []program
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "tests" || entry.Name() == ".git" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if strings.HasPrefix(entry.Name(), "example") && strings.HasSuffix(entry.Name(), "_test.go") {
			programs = append(programs, fileExamples(t, path)...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return programs
}

func fileExamples(t *testing.T, path string) []program {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var programs []program
	for _, example := range doc.Examples(file) {
		if example.Output != "" || example.EmptyOutput {
			continue
		}
		name := filepath.Base(path) + "/Example" + example.Name
		if example.Play == nil {
			t.Errorf("%s is not a program by itself", name)
			continue
		}
		var source bytes.Buffer
		if err := format.Node(&source, files, example.Play); err != nil {
			t.Fatal(err)
		}
		programs = append(programs, program{name, source.String(), prints(t, name, example)})
	}
	return programs
}

func prints(t *testing.T, name string, example *doc.Example) string {
	t.Helper()
	for _, group := range example.Comments { // the whole file's
		if group.Pos() < example.Code.Pos() || group.End() > example.Code.End() {
			continue
		}
		if text, found := strings.CutPrefix(group.Text(), "Prints:"); found {
			return strings.TrimSpace(text)
		}
	}
	t.Errorf("%s does not say what it prints", name)
	return ""
}

// run runs a program as a user of the module would, outside of the workspace.
func run(t *testing.T, source, databaseURL string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "go", "run", file)
	command.Dir = root
	command.Env = append(os.Environ(), "GOWORK=off", "DATABASE_URL="+databaseURL)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, stderr.String(), source)
	}
	return stdout.String()
}
