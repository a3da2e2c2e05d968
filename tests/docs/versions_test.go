package docs

import (
	"go/version"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var goLine = regexp.MustCompile(`(?m)^go (\d+\.\d+)(\.\d+)$`)

// TestGoVersions checks what README.md says of Go: a go.mod names the oldest release that works, and a later one, or a patch
// release, only if a module that it requires does. go.work has to name the latest of them.
func TestGoVersions(t *testing.T) {
	t.Parallel()
	oldest := goLine.FindStringSubmatch(read(t, filepath.Join(root, "go.mod")))
	if oldest == nil || oldest[2] != ".0" {
		t.Fatalf("go.mod has %q", oldest)
	}
	readme := read(t, filepath.Join(root, "README.md"))
	for _, text := range []string{"badge/go-" + oldest[1] + "%2B", "from " + oldest[1] + " on"} {
		if !strings.Contains(readme, text) {
			t.Errorf("README.md does not have %q", text)
		}
	}
	latest := oldest[0]
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if entry.Name() != "go.mod" {
			return nil
		}
		line := goLine.FindString(read(t, path))
		if line == oldest[0] {
			return nil
		}
		if version.Compare(strings.Replace(line, " ", "", 1), strings.Replace(latest, " ", "", 1)) > 0 {
			latest = line
		}
		list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{if not .Main}}go {{.GoVersion}}{{end}}", "all")
		list.Dir, list.Env = filepath.Dir(path), append(list.Environ(), "GOWORK=off")
		required, err := list.Output()
		if !slices.Contains(strings.Split(string(required), "\n"), line) {
			t.Errorf("%s has %q, which none of its modules needs (%v)", path, line, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if line := goLine.FindString(read(t, filepath.Join(root, "go.work"))); line != latest {
		t.Errorf("go.work has %q, want %q", line, latest)
	}
}
