// Package imports tests what importing agentstore brings into a program's list of modules.
package imports

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/seed-df90f812/agentstore/tests/pgtest"
)

const (
	module = "github.com/seed-df90f812/agentstore"
	adk    = "google.golang.org/adk/v2"
	goose  = "github.com/pressly/goose/v3"
)

// program is a module in a directory of its own. It has agentstore and an ADK runner, and
// replaces only agentstore's modules.
type program struct {
	t         *testing.T
	directory string
}

func newProgram(t *testing.T) program {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	p := program{t, t.TempDir()}
	p.write("main.go", `package main

import (
	_ "`+module+`"
	_ "`+module+`/adapters/adk"
	_ "`+adk+`/runner"
)

func main() {}
`)
	p.mustGo("mod", "init", "program")
	p.mustGo("mod", "edit",
		"-require="+module+"@v0.0.0", "-replace="+module+"="+root,
		"-require="+module+"/adapters/adk@v0.0.0", "-replace="+module+"/adapters/adk="+filepath.Join(root, "adapters/adk"))
	return p
}

func (p program) write(name, content string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.directory, name), []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p program) run(arguments ...string) (output string, err error) {
	command := exec.CommandContext(p.t.Context(), "go", arguments...)
	command.Dir = p.directory
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	combined, err := command.CombinedOutput()
	return string(combined), err
}

func (p program) mustGo(arguments ...string) string {
	p.t.Helper()
	output, err := p.run(arguments...)
	if err != nil {
		p.t.Fatalf("go %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return output
}

// openTelemetry returns the versions of OpenTelemetry that ADK's go.mod requires, and those that
// were selected for the program.
func (p program) openTelemetry() (required, selected map[string]string) {
	p.t.Helper()
	path := strings.TrimSpace(p.mustGo("list", "-m", "-f", "{{.GoMod}}", adk))
	content, err := os.ReadFile(path)
	if err != nil {
		p.t.Fatal(err)
	}
	file, err := modfile.ParseLax(path, content, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	required, selected = map[string]string{}, map[string]string{}
	for _, requirement := range file.Require {
		if path := requirement.Mod.Path; strings.HasPrefix(path, "go.opentelemetry.io/") {
			required[path] = requirement.Mod.Version
			selected[path] = strings.TrimSpace(p.mustGo("list", "-m", "-f", "{{with .Replace}}{{.}}{{else}}{{.Version}}{{end}}", path))
		}
	}
	if len(required) < 5 {
		p.t.Fatalf("ADK requires only %v of OpenTelemetry", required)
	}
	return required, selected
}

// TestBesideADK builds what would not compile of a program that runs ADK's agents on agentstore, and in full
// the program. ADK does not compile with every newer OpenTelemetry, so agentstore's modules require none that is
// newer than ADK's.
func TestBesideADK(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.mustGo("mod", "tidy")
	p.mustGo("build", "-o", os.DevNull, pgtest.Choose(".", adk+"/internal/telemetry"))
	required, selected := p.openTelemetry()
	for path, version := range required {
		if selected[path] != version {
			t.Errorf("%s is %s, and ADK requires %s", path, selected[path], version)
		}
	}
}

// TestNewerGooseBesideADK builds the same program with a goose that requires a newer OpenTelemetry. That
// does not compile: otherwise nothing keeps agentstore from a newer goose, or TestBesideADK finds nothing.
func TestNewerGooseBesideADK(t *testing.T) {
	t.Parallel()
	p := newProgram(t)
	p.mustGo("mod", "edit", "-require="+goose+"@v3.29.0")
	p.mustGo("mod", "tidy")
	if output, err := p.run("build", adk+"/internal/telemetry"); err == nil || !strings.Contains(output, adk+"/internal/telemetry") {
		t.Errorf("got %v\n%s", err, output)
	}
	required, selected := p.openTelemetry()
	if path := "go.opentelemetry.io/otel"; selected[path] == required[path] {
		t.Errorf("%s is %s all the same", path, selected[path])
	}
}
