package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/seed-df90f812/agentstore"

// goMods returns the go.mod of each adapter by its directory below adapters/.
func goMods(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "adapters", "*", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mods := map[string]string{}
	for _, path := range paths {
		mods[filepath.Base(filepath.Dir(path))] = read(t, path)
	}
	return mods
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestAdapterReadmes checks that each adapter's README says how to fetch it. The command names
// agentstore, too: the adapter's go.mod may require a version that does not exist.
func TestAdapterReadmes(t *testing.T) {
	t.Parallel()
	for adapter, mod := range goMods(t) {
		if adapter == "tests" {
			continue
		}
		path := module + "/adapters/" + adapter
		if !strings.HasPrefix(mod, "module "+path+"\n") {
			t.Errorf("adapters/%s has another module: %.80s", adapter, mod)
		}
		if line := "\ngo get " + module + " " + path + "\n"; !strings.Contains(read(t, filepath.Join(root, "adapters", adapter, "README.md")), line) {
			t.Errorf("the README of adapters/%s does not have the line %q", adapter, line)
		}
	}
}

// TestReleaseSteps runs what CONTRIBUTING.md says of a release, in a repository that has only
// the files that it names. Then each adapter requires the version, and each module has a tag.
func TestReleaseSteps(t *testing.T) {
	t.Parallel()
	_, release, _ := strings.Cut(read(t, filepath.Join(root, "CONTRIBUTING.md")), "\n## A release\n")
	blocks := block.FindAllStringSubmatch(release, -1)
	if len(blocks) != 1 || blocks[0][1] != "sh" {
		t.Fatalf("CONTRIBUTING.md has %d blocks for a release, want one", len(blocks))
	}
	scratch, mods := t.TempDir(), goMods(t)
	for adapter, mod := range mods {
		directory := filepath.Join(scratch, "adapters", adapter)
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(directory, "go.mod"), []byte(mod), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := func(text string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "bash", "-euc", text)
		command.Dir = scratch
		command.Env = append(os.Environ(), "GOWORK=off", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return string(output)
	}
	script("git init -q . && git add . && git commit -qm begin\n" + blocks[0][2])
	if changed := script("git status --porcelain"); changed != "" {
		t.Errorf("not committed: %s", changed)
	}
	tags := []string{"v0.1.0"}
	for adapter := range mods {
		mod := read(t, filepath.Join(scratch, "adapters", adapter, "go.mod"))
		if !strings.Contains(mod, module+" v0.1.0\n") {
			t.Errorf("adapters/%s does not require the version:\n%s", adapter, mod)
		}
		if adapter != "tests" {
			tags = append(tags, "adapters/"+adapter+"/v0.1.0")
		}
	}
	slices.Sort(tags)
	if got := strings.Fields(script("git tag --points-at HEAD")); !slices.Equal(got, tags) {
		t.Errorf("tags %v, want %v", got, tags)
	}
}
