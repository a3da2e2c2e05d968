package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

// program is a complete program in a document, and what it prints.
type program struct{ name, source, prints string }

var block = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// readmePrograms returns the programs in a Markdown text: each go block, with the
// text block that follows it as its output.
func readmePrograms(t *testing.T, markdown string) []program {
	t.Helper()
	var programs []program
	blocks := block.FindAllStringSubmatch(markdown, -1)
	for i, b := range blocks {
		if b[1] != "go" {
			continue
		}
		if i+1 == len(blocks) || blocks[i+1][1] != "text" {
			t.Fatalf("no output follows the program\n%s", b[2])
		}
		programs = append(programs, program{source: b[2], prints: blocks[i+1][2]})
	}
	return programs
}

// TestReadmeRuns runs each program of README.md unchanged, with no module but agentstore's own, and
// then on PostgreSQL, by the one change that README.md says.
func TestReadmeRuns(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	programs := readmePrograms(t, string(readme))
	if len(programs) < 1 {
		t.Errorf("README.md has %d programs", len(programs))
	}
	for _, p := range programs {
		const memory = "memory://hello"
		onPostgres := strings.Replace(p.source, strconv.Quote(memory), strconv.Quote(pgtest.NewEmptyDatabase(t)), 1)
		if onPostgres == p.source || !strings.Contains(string(readme), "in place of `"+memory+"`") {
			t.Errorf("README.md does not say how this uses PostgreSQL:\n%s", p.source)
		}
		for _, source := range []string{p.source, onPostgres} {
			if got := run(t, source, ""); got != p.prints {
				t.Errorf("printed\n%s\nREADME.md has\n%s\nfor\n%s", got, p.prints, source)
			}
		}
	}
}

// TestExamplesRun runs the examples that go test does not run because they have no
// Output: those that need PostgreSQL. What such an example prints is in a comment at
// its end, after "Prints:".
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	programs := examplePrograms(t)
	if len(programs) < 4 {
		t.Errorf("there are only %d examples for PostgreSQL", len(programs))
	}
	binaries := build(t, programs)
	for i, p := range programs {
		command := exec.CommandContext(t.Context(), binaries[i])
		command.Env = append(os.Environ(), "DATABASE_URL="+pgtest.NewEmptyDatabase(t))
		var stderr bytes.Buffer
		command.Stderr = &stderr
		if got, err := command.Output(); err != nil || strings.TrimSpace(string(got)) != p.prints {
			t.Errorf("%s: %v\n%s\nprinted\n%s\nwant\n%s", p.name, err, stderr.String(), got, p.prints)
		}
	}
}

// build builds programs at once, as if they were packages of the module, outside of the workspace, and returns the binaries.
func build(t *testing.T, programs []program) (binaries []string) {
	t.Helper()
	module, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	directory, replace := t.TempDir(), map[string]string{}
	arguments := []string{"build", "-ldflags=-s -w", "-overlay", filepath.Join(directory, "overlay.json"), "-o", directory}
	write := func(name string, content []byte) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for i, p := range programs {
		name := fmt.Sprint("program", i)
		replace[filepath.Join(module, name, "main.go")] = write(name+".go", []byte(p.source))
		arguments, binaries = append(arguments, "./"+name), append(binaries, filepath.Join(directory, name))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	write("overlay.json", overlay)
	command := exec.CommandContext(t.Context(), "go", arguments...)
	command.Dir, command.Env = module, append(os.Environ(), "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return binaries
}

// examplePrograms returns the examples without Output of all packages outside of
// tests/, each as the complete program that the documentation shows.
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
			t.Errorf("%s is not a complete program", name)
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
	for _, group := range example.Comments { // those of the whole file
		if group.Pos() < example.Code.Pos() || group.End() > example.Code.End() {
			continue
		}
		if text, found := strings.CutPrefix(group.Text(), "Prints:"); found {
			return strings.TrimSpace(text)
		}
	}
	t.Errorf("%s has no Prints comment", name)
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
