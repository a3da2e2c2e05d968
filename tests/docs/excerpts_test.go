package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestExcerpts checks that the Go code of documents is that of programs and examples, which are
// compiled and run, but for indentation.
func TestExcerpts(t *testing.T) {
	t.Parallel()
	for document, of := range map[string]struct {
		sources []string
		atLeast int
	}{
		"approvals.md": {[]string{"approval/example_test.go"}, 2},
		"directory.md": {[]string{"directory/example_test.go"}, 2},
		"files.md":     {[]string{"files/example_test.go"}, 1},
		"inspect.md":   {[]string{"inspect/example_test.go"}, 1},
		"live.md":      {[]string{"example_stream_test.go", "live/example_test.go"}, 3},
		"recipes.md":   {[]string{"example_recipes_test.go"}, 7},
		"refund.md":    {[]string{"examples/refund/refund.go"}, 3},
		"usage.md":     {[]string{"usage/usage_test.go"}, 2},
		"tutorial.md":  {[]string{"examples/chat/main.go", "examples/chat/sidebar.go", "examples/chat/files.go"}, 9},
	} {
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			sources := ""
			for _, name := range of.sources {
				sources += outdented(read(t, filepath.Join(root, name)))
			}
			checked := 0
			for _, b := range block.FindAllStringSubmatch(read(t, filepath.Join(root, "docs", document)), -1) {
				if b[1] != "go" {
					continue
				}
				if checked++; !strings.Contains(sources, outdented(b[2])) {
					t.Errorf("%v do not have\n%s", of.sources, b[2])
				}
			}
			if checked < of.atLeast {
				t.Errorf("only %d excerpts were checked", checked)
			}
		})
	}
}

// TestTutorialBegins runs the first commands of the tutorial in an empty folder, with this module in place
// of the published one, up to the compiler. TestChat compiles and runs the program.
func TestTutorialBegins(t *testing.T) {
	t.Parallel()
	commands := ""
	for _, b := range block.FindAllStringSubmatch(read(t, filepath.Join(root, "docs", "tutorial.md")), -1) {
		if b[1] == "sh" && commands == "" {
			commands = b[2]
		}
	}
	module, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	const name = "github.com/seed-df90f812/agentstore"
	for old, replacement := range map[string]string{
		"go get " + name: "go mod edit -require " + name + "@v0.0.0 -replace " + name + "=" + module,
		"go run .":       "go build -n .",
	} {
		if strings.Count(commands, old) != 1 {
			t.Fatalf("the commands have no %q:\n%s", old, commands)
		}
		commands = strings.Replace(commands, old, replacement, 1)
	}
	script := exec.CommandContext(t.Context(), "sh", "-e")
	script.Dir, script.Stdin = t.TempDir(), strings.NewReader(commands)
	script.Env = append(os.Environ(), "GOWORK=off", "GOSUMDB=off")
	if output, err := script.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, output)
	}
}

// TestShort checks what is promised to readers.
func TestShort(t *testing.T) {
	t.Parallel()
	word := regexp.MustCompile(`\S*[\pL\d]\S*`) // not the lines of tables
	for document, words := range map[string]int{"AGENTS.md": 350, "README.md": 750, "docs/glossary.md": 350, "docs/index.md": 350, "docs/recipes.md": 900, "docs/tutorial.md": 1250} {
		if n := len(word.FindAllString(read(t, filepath.Join(root, document)), -1)); n > words {
			t.Errorf("%s has %d words, more than %d", document, n, words)
		}
	}
	lines := 0
	for line := range strings.SplitSeq(read(t, filepath.Join(root, "examples", "chat", "main.go")), "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines++
		}
	}
	if lines > 190 {
		t.Errorf("the tutorial's program has %d lines", lines)
	}
}

// outdented returns a text without the indentation of its lines.
func outdented(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimLeft(line, "\t")
	}
	return strings.Join(lines, "\n")
}
